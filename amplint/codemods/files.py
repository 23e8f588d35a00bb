"""Converting what a file holds: bytes to bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from amplint.codemods import convert
from amplint.codemods.conversion import Conversion, Converted, Remark, Wish
from amplint.engine.config import size_limit
from amplint.engine.diagnostics import describe
from amplint.engine.run import opened
from amplint.findings import Position, Span
from amplint.fixes.write import replace_file
from amplint.notebooks.page import Page
from amplint.source.encoding import SourceError
from amplint.source.files import read


def convert_file(filename: str, path: str, wish: Wish, *, write: bool) -> Converted:
    """Convert the file at `path`, which reports call `filename`, and replace it with `write`. Raises nothing."""
    raw = b""
    try:
        raw = read(path, size_limit(path))
        conversion, new = convert_bytes(raw, wish, path)
        if write and new != raw:
            replace_file(path, new, expected=raw)
    except OSError as failure:
        return Converted(filename, raw, raw, failure=str(failure.strerror or failure))
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    return _converted(filename, path, raw, new, conversion)


def convert_text(filename: str, path: str, wish: Wish, raw: bytes) -> Converted:
    """Convert `raw`, which would lie at `path`. Raises nothing."""
    try:
        conversion, new = convert_bytes(raw, wish, path)
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    return _converted(filename, path, raw, new, conversion)


def convert_bytes(raw: bytes, wish: Wish, path: str) -> tuple[Conversion, bytes]:
    """The conversion of a file and its new content, in the encoding that it had; any bytes can be handed in."""
    try:
        page = opened(path, raw)
        text = page.text
    except SourceError as failure:
        return Conversion("", refused=(Remark(failure.position.row, failure.message),)), raw
    if page.problems:
        refused = (Remark(problem.position.row, problem.message) for problem in page.problems)
        return Conversion(text, refused=_placed(refused, page)), raw
    conversion = convert(text, wish, path)
    if conversion.text == text:
        return replace(conversion, refused=_placed(conversion.refused, page), left=_placed(conversion.left, page)), raw
    new = page.restored(conversion.text)
    if new is None:
        return Conversion(text, refused=_placed((Remark(1, page.refusal),), page)), raw
    left = _placed(conversion.left, opened(path, new))
    return replace(conversion, done=_placed(conversion.done, page), left=left), new


def _placed(remarks: Iterable[Remark], page: Page) -> tuple[Remark, ...]:
    """`remarks` about rows of the text of `page`, by the rows of its file."""
    placed = []
    for remark in remarks:
        start = Position(remark.row, 1)
        span = page.near(Span(start, start))
        placed.append(Remark(span.start.row, remark.text, span.cell))
    return tuple(placed)


def _converted(filename: str, path: str, raw: bytes, new: bytes, conversion: Conversion) -> Converted:
    tried = opened(path, raw).restored(conversion.tried) if conversion.tried else None
    return Converted(filename, raw, new, conversion.done, conversion.refused, conversion.left, tried=tried or b"")


def _defect(failure: Exception) -> str:
    return f"the conversion failed, please report it: {describe(failure)}"
