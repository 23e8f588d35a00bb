"""The JSON of a notebook: its cells, the positions of their sources, and the file with replaced sources."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

from amplint.findings import Position
from amplint.records import dataclass
from amplint.regex import regex
from amplint.source.encoding import SourceError
from amplint.source.layout import NEWLINE

_BOM = b"\xef\xbb\xbf"
_PYTHON = ("python", "python3", "ipython", "ipython3", "xpython")
_SPACE = regex(r"[ \t\r\n]*")
_TOKEN = regex(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]|[^\s"\[\]{},:]+')
_ESCAPED = regex(r"\\u(?!00[0-7])")

Range = tuple[int, int]
"""A half-open range of offsets in the text of the file."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its number among all cells, from 1, its source, and whether it is Python.

    `path` locates its source in the JSON.
    """

    number: int
    source: str
    python: bool
    path: tuple[str | int, ...]


class Document:
    """A notebook file. Raises SourceError if it is malformed."""

    def __init__(self, raw: bytes) -> None:
        self._mark = raw[:3] if raw.startswith(_BOM) else b""
        try:
            self._text = raw[len(self._mark) :].decode()
            self._data: Any = json.loads(self._text)
        except UnicodeDecodeError as failure:
            row = raw.count(b"\n", 0, failure.start) + 1
            raise SourceError("not a notebook: the bytes are not valid utf-8", Position(row, 1)) from None
        except json.JSONDecodeError as failure:
            place = Position(failure.lineno, failure.colno)
            raise SourceError(f"not a notebook: its JSON is broken: {failure.msg}", place) from None
        except (RecursionError, MemoryError, ValueError) as failure:
            raise SourceError(f"not a notebook: its JSON cannot be read ({type(failure).__name__})") from None
        self.cells = list(self._cells())

    @property
    def is_python(self) -> bool:
        """Whether the notebook is for Python 3, the default if it names no language."""
        metadata = _object(self._data.get("metadata"))
        language, kernel = _object(metadata.get("language_info")), _object(metadata.get("kernelspec"))
        named = language.get("name") or kernel.get("language") or "python"
        old = str(language.get("version", "")).startswith("2.") or kernel.get("name") == "python2"
        return str(named).lower() in _PYTHON and not old

    def _cells(self) -> Iterator[Cell]:
        data = self._data
        if not isinstance(data, dict) or not isinstance(data.get("nbformat", 0), int):
            raise SourceError("not a notebook: its JSON has no cells")
        if isinstance(data.get("cells"), list):
            lists: list[tuple[tuple[str | int, ...], Any]] = [(("cells",), data["cells"])]
        elif isinstance(data.get("worksheets"), list):
            sheets = enumerate(data["worksheets"])
            lists = [(("worksheets", at, "cells"), _object(sheet).get("cells")) for at, sheet in sheets]
        else:
            raise SourceError("not a notebook: its JSON has no cells")
        number = 0
        for place, cells in lists:
            for at, cell in enumerate(cells if isinstance(cells, list) else []):
                number += 1
                key = "source" if "source" in _object(cell) else "input"
                source = _joined(_object(cell).get(key))
                if _object(cell).get("cell_type") == "code" and source is not None:
                    yield Cell(number, source, _is_python(cell), (*place, at, key))

    def lines(self, number: int) -> list[str]:
        """The lines of a code cell without line breaks, empty for any other cell."""
        return next((NEWLINE.split(cell.source) for cell in self.cells if cell.number == number), [])

    def raw_row(self, number: int, row: int) -> int:
        """The line of the file that holds a row of a cell, or its last one; all count from 1."""
        cell = next((cell for cell in self.cells if cell.number == number), None)
        if cell is None:
            return 1
        starts = [0, *(found.end() for found in NEWLINE.finditer(cell.source))]
        wanted, done, at = starts[min(row, len(starts)) - 1], 0, 0
        for at, end in _pieces(self._text, self._places[cell.path]):
            done += len(json.loads(self._text[at:end]))
            if wanted < done:
                break
        return self._text.count("\n", 0, at) + 1

    def with_sources(self, sources: Mapping[int, str]) -> bytes | None:
        """The file with other `sources`, by cell number; None if they cannot be written."""
        cells = [cell for cell in self.cells if cell.number in sources]
        parts: list[str] = []
        done = 0
        for (start, end), cell in sorted((self._places[cell.path], cell) for cell in cells):
            parts += (self._text[done:start], _literal(self._text, (start, end), sources[cell.number]))
            done = end
        text = "".join([*parts, self._text[done:]])
        wanted = json.loads(self._text)
        for cell in cells:
            _put(wanted, cell.path, sources[cell.number])
        got = json.loads(text)
        for cell in cells:
            _put(got, cell.path, _joined(_at(got, cell.path)))
        return self._mark + text.encode() if got == wanted else None

    @functools.cached_property
    def _places(self) -> dict[tuple[str | int, ...], Range]:
        """The positions of the sources."""
        found: dict[tuple[str | int, ...], Range] = {}
        for cell in self.cells:
            folder = cell.path[:-1]
            if folder[:-1] not in found:
                found[folder[:-1]] = _find(self._text, folder[:-1])
                for at, place in enumerate(_pieces(self._text, found[folder[:-1]])):
                    found[(*folder[:-1], at)] = place
            found[cell.path] = _member(self._text, found[folder], str(cell.path[-1]))
        return found


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_python(cell: Any) -> bool:
    editor = _object(_object(cell.get("metadata")).get("vscode")).get("languageId")
    return str(editor or cell.get("language") or "python").lower() in _PYTHON


def _joined(source: Any) -> str | None:
    if isinstance(source, str):
        return source
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return None


def _at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def _put(data: Any, path: tuple[str | int, ...], value: Any) -> None:
    _at(data, path[:-1])[path[-1]] = value


def _value_end(text: str, at: int) -> int:
    """The end of the value that begins at `at`."""
    depth = 0
    for found in _TOKEN.finditer(text, at):
        token = found.group()
        depth += (token in "[{") - (token in "]}")
        if not depth:
            return found.end()
    return len(text)


def _pieces(text: str, place: Range) -> Iterator[Range]:
    """The elements of the array at `place`, or the value itself if it is no array."""
    if text[place[0]] != "[":
        yield place
        return
    at = _past_space(text, place[0] + 1)
    while text[at] != "]":
        end = _value_end(text, at)
        yield at, end
        at = _past_space(text, end)
        at = _past_space(text, at + 1) if text[at] == "," else at


def _member(text: str, place: Range, key: str) -> Range:
    """The value of `key` in the object at `place`, the last one as in `json`."""
    found = place
    at = _past_space(text, place[0] + 1)
    while text[at] != "}":
        end = _value_end(text, at)
        value = _past_space(text, _past_space(text, end) + 1)
        value_end = _value_end(text, value)
        if json.loads(text[at:end]) == key:
            found = value, value_end
        at = _past_space(text, value_end)
        at = _past_space(text, at + 1) if text[at] == "," else at
    return found


def _find(text: str, path: tuple[str | int, ...]) -> Range:
    start = _past_space(text, 0)
    place = start, len(text)
    for key in path:
        place = _member(text, place, key) if isinstance(key, str) else list(_pieces(text, place))[key]
    return place


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _literal(text: str, place: Range, source: str) -> str:
    """`source` as JSON in the style of the literal at `place`; unchanged lines keep their escapes."""
    old = text[slice(*place)]
    plain = bool(_ESCAPED.search(old)) and old.isascii()
    if not old.startswith("["):
        return _string(source, ascii_only=plain)
    pieces = list(_pieces(text, place))
    lines = source.splitlines(keepends=True)
    if not lines:
        return "[]"
    if not pieces:
        return f"[{', '.join(_string(line, ascii_only=plain) for line in lines)}]"
    known = [json.loads(text[start:end]) for start, end in pieces]
    written = [_string(line, ascii_only=plain) for line in lines]
    for block in SequenceMatcher(None, known, lines, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            written[block.b + offset] = text[slice(*pieces[block.a + offset])]
    head, tail = text[place[0] : pieces[0][0]], text[pieces[-1][1] : place[1]]
    between = text[pieces[0][1] : pieces[1][0]] if len(pieces) > 1 else f",{head[1:]}"
    return head + between.join(written) + tail


def _string(value: str, *, ascii_only: bool) -> str:
    halves = any("\ud800" <= character <= "\udfff" for character in value)
    return json.dumps(value, ensure_ascii=ascii_only or halves)
