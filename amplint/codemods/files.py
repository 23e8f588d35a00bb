"""Converting what a file holds: bytes to bytes."""

from __future__ import annotations

from dataclasses import replace

from amplint.codemods import convert
from amplint.codemods.conversion import Conversion, Converted, Remark, Wish
from amplint.engine.diagnostics import describe
from amplint.fixes.write import replace_file
from amplint.source.encoding import SourceError, decode, encode
from amplint.source.files import read


def convert_file(filename: str, path: str, wish: Wish, *, write: bool) -> Converted:
    """Convert the file at `path`, which reports call `filename`, and replace it with `write`. Raises nothing."""
    raw = b""
    try:
        raw = read(path)
        conversion, new = convert_bytes(raw, wish, path)
        if write and new != raw:
            replace_file(path, new, expected=raw)
    except OSError as failure:
        return Converted(filename, raw, raw, failure=str(failure.strerror or failure))
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    return _converted(filename, raw, new, conversion)


def convert_text(filename: str, path: str, wish: Wish, raw: bytes) -> Converted:
    """Convert `raw`, which would lie at `path`. Raises nothing."""
    try:
        conversion, new = convert_bytes(raw, wish, path)
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    return _converted(filename, raw, new, conversion)


def convert_bytes(raw: bytes, wish: Wish, path: str) -> tuple[Conversion, bytes]:
    """The conversion of a file and its new content, in the encoding that it had; any bytes can be handed in."""
    try:
        text, encoding = decode(raw)
    except SourceError as failure:
        return Conversion("", refused=(Remark(failure.position.row, failure.message),)), raw
    conversion = convert(text, wish, path)
    try:
        return conversion, encode(conversion.text, encoding) if conversion.text != text else raw
    except SourceError:
        refused = (Remark(1, f"the result cannot be written in {encoding}"),)
        return replace(conversion, text=text, done=(), refused=refused, left=()), raw


def _converted(filename: str, raw: bytes, new: bytes, conversion: Conversion) -> Converted:
    return Converted(filename, raw, new, conversion.done, conversion.refused, conversion.left)


def _defect(failure: Exception) -> str:
    return f"the conversion failed, please report it: {describe(failure)}"
