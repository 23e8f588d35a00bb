"""Conversion of files: bytes to bytes."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace

from amplint.codemods import convert
from amplint.codemods.conversion import Conversion, Converted, Cured, Remark, Wish
from amplint.engine.config import size_limit
from amplint.engine.diagnostics import describe
from amplint.engine.discover import Target
from amplint.engine.modules import Modules
from amplint.engine.modules.contents import Contents
from amplint.engine.run import opened
from amplint.findings import Position, Span
from amplint.fixes.write import replace_file
from amplint.notebooks.page import Page
from amplint.source.encoding import SourceError
from amplint.source.files import read


def convert_files(
    targets: Sequence[Target], wish: Wish, *, write: bool, running: MutableMapping[str, float] | None = None
) -> Iterator[Converted]:
    """Convert files together: each imports the others as converted. Raises nothing.

    `running` holds the file that is being converted, and its start by `time.monotonic`.
    """
    running = {} if running is None else running
    together = _ConversionBatch({target.path: target.filename for target in targets}, wish, write=write)
    for target in targets:
        running.clear()
        running[target.filename] = time.monotonic()
        yield together.converted(target.path)
        together.trim()


class _ConversionBatch(Contents):
    """The contents of files that are converted together, each after its conversion; `filenames` names them in reports.

    Of two that import each other, the one converted first sees the other in its original form.
    """

    def __init__(self, filenames: Mapping[str, str], wish: Wish, *, write: bool) -> None:
        super().__init__()
        self._modules = Modules(self)
        self._filenames = filenames
        self._wish = wish
        self._write = write
        self._done: dict[str, Converted | None] = {}
        self._cured: dict[str, bytes] = {}

    def converted(self, path: str) -> Converted:
        """The conversion of the file at `path`."""
        done = self._done.pop(path, None)
        if done is None:
            self._done[path] = None
            done = convert_file(self._filenames[path], path, self._wish, write=self._write, modules=self._modules)
            self._modules.forget(path)
        self._done[path] = done
        return done

    def raw(self, path: str) -> bytes | None:
        """The content of a file of the tree, after its conversion."""
        if path in self._cured:
            return self._cured[path]
        before = super().raw(path)
        if before is not None and path in self._filenames and path not in self._done:
            self.converted(path)
        done = self._done.get(path)
        return done.after if done is not None and not done.failure else before

    def amend(self, path: str, raw: bytes) -> None:
        """Take `raw` for the content of a file from here on, beyond its own conversion."""
        super().amend(path, raw)
        self._cured[path] = raw


def convert_file(filename: str, path: str, wish: Wish, *, write: bool, modules: Modules | None = None) -> Converted:
    """Convert the file at `path`, `filename` in reports, and write it with `write`. Raises nothing.

    Imported files are taken from `modules` and change with it; they stay if it is None.
    """
    raw = b""
    try:
        raw = read(path, size_limit(path))
        conversion, new = convert_bytes(raw, wish, path, modules)
        if modules is None:
            conversion = _alone(conversion)
        for one in (*conversion.others, Cured(path, raw, new, ())) if write else ():
            if one.after != one.before:
                replace_file(one.path, one.after, expected=one.before)
    except OSError as failure:
        return Converted(filename, raw, raw, failure=str(failure.strerror or failure))
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    others = tuple(map(functools.partial(_other, filename, path), conversion.others))
    return replace(_converted(filename, path, raw, new, conversion), others=others)


def _alone(conversion: Conversion) -> Conversion:
    """`conversion` without changes of imported files, but with the remarks that these leave out."""
    return replace(conversion, left=(*conversion.left, *conversion.cured), others=())


def _other(filename: str, path: str, cured: Cured) -> Converted:
    """The change of an imported file, named relative to the file at `path` as that is."""
    name = os.path.normpath(os.path.join(os.path.dirname(filename), os.path.relpath(cured.path, os.path.dirname(path))))
    return Converted(name, cured.before, cured.after, tuple(Remark(1, one) for one in cured.done))


def convert_text(filename: str, path: str, wish: Wish, raw: bytes) -> Converted:
    """Convert `raw`, as the content of a file at `path`. Raises nothing."""
    try:
        conversion, new = convert_bytes(raw, wish, path)
        conversion = _alone(conversion)
    except Exception as failure:
        return Converted(filename, raw, raw, failure=_defect(failure))
    return _converted(filename, path, raw, new, conversion)


def convert_bytes(raw: bytes, wish: Wish, path: str, modules: Modules | None = None) -> tuple[Conversion, bytes]:
    """The conversion of a file and its new content, in its original encoding; any bytes are accepted."""
    try:
        page = opened(path, raw)
        text = page.text
    except SourceError as failure:
        return Conversion("", refused=(Remark(failure.position.row, failure.message),)), raw
    if page.problems:
        refused = (Remark(problem.position.row, problem.message) for problem in page.problems)
        return Conversion(text, refused=_placed(refused, page)), raw
    conversion = convert(text, wish, path, modules)
    if conversion.text == text:
        return replace(conversion, refused=_placed(conversion.refused, page), left=_placed(conversion.left, page)), raw
    new = page.restored(conversion.text)
    if new is None:
        return Conversion(text, refused=_placed((Remark(1, page.refusal),), page)), raw
    left = _placed(conversion.left, opened(path, new))
    return replace(conversion, done=_placed(conversion.done, page), left=left), new


def _placed(remarks: Iterable[Remark], page: Page) -> tuple[Remark, ...]:
    """`remarks` with rows of the file instead of the text of `page`."""
    placed = []
    for remark in remarks:
        start = Position(remark.row, 1)
        span = page.approximate_position(Span(start, start))
        placed.append(Remark(span.start.row, remark.text, span.cell))
    return tuple(placed)


def _converted(filename: str, path: str, raw: bytes, new: bytes, conversion: Conversion) -> Converted:
    tried = opened(path, raw).restored(conversion.tried) if conversion.tried else None
    checks = tuple(_joined(conversion.left))
    return Converted(filename, raw, new, conversion.done, conversion.refused, checks, tried=tried or b"")


def _joined(remarks: Iterable[Remark]) -> Iterator[Remark]:
    """`remarks`, with equal ones about several rows merged."""
    rows: dict[tuple[str, int | None], list[int]] = {}
    for remark in remarks:
        rows.setdefault((remark.text, remark.cell), []).append(remark.row)
    for (text, cell), (first, *others) in rows.items():
        yield Remark(first, f"{text}, and in {', '.join(map(str, others))}" if others else text, cell)


def _defect(failure: Exception) -> str:
    return f"the conversion failed, please report it: {describe(failure)}"
