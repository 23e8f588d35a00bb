"""Formatting of `optim_wrapper`: on one row if it fits, else one entry per row, with the original text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplint.codemods.mmcv.settings import items, key
from amplint.codemods.mmcv.wrapper import Piece
from amplint.source import syntax as cst
from amplint.source.rewrite_lines import deletions
from amplint.training.script import Script

_WIDTH = 79
_LEVEL = "    "
_LEADING = re.compile(r"[ ]*")


def spelled(script: Script, pieces: Sequence[Piece]) -> str:
    """The statement `optim_wrapper = dict(...)`, without a line end."""
    values = [_value(script, piece) for piece in pieces]
    parts = [f"{piece.name}={value}" for piece, value in zip(pieces, values, strict=True)]
    row = f"optim_wrapper = dict({', '.join(parts)})"
    plain = not any(piece.comment or piece.comments for piece in pieces)
    if plain and len(row) <= _WIDTH and not any("\n" in part or "\r" in part for part in parts):
        return row
    newline = script.source.newline
    hanging = pieces[-1].comment or any(re.search(r"[\r\n][)}\]]\Z", part) for part in _shifted(parts))
    rows = ["optim_wrapper = dict("]
    for index, (piece, part) in enumerate(zip(pieces, parts, strict=True)):
        rows += [_LEVEL + comment for comment in piece.comments]
        last = index == len(pieces) - 1
        end = ("," if hanging else ")") if last else ","
        rows.append(f"{_LEVEL}{part}{end}" + (f"  {piece.comment}" if piece.comment else ""))
    return newline.join([*rows, ")"] if hanging else rows)


def _shifted(parts: Sequence[str]) -> list[str]:
    """The parts without their indentation."""
    return [part.replace(f"\n{_LEVEL}", "\n") for part in parts]


def _value(script: Script, piece: Piece) -> str:
    """The text of a value, with the indentation of its new place."""
    if isinstance(piece.value, str):
        return piece.value
    text = _shortened(script, piece.value, piece.without)
    if piece.without and len(row := _joined(text)) + len(piece.name) < _WIDTH - len(_LEVEL) and "#" not in text:
        text = row
    if piece.replaces:
        text = _with_delete(text)
    start = script.rewrite.span(piece.value).start
    first, *others = text.splitlines(True)
    widths = [_width(row) for row in others if row.strip()]
    if not widths:
        return text
    indentation = len(script.lines.indentation(start.row))
    column = start.column - 1
    aligned = min(widths) > column
    shift = len(_LEVEL) + len(piece.name) + 1 - column if aligned else len(_LEVEL) - indentation
    inside = {row - start.row for row in script.rewrite.string_rows(piece.value)} if not piece.without else set()
    rows = [row if index in inside else _moved(row, shift) for index, row in enumerate(others, 1)]
    return "".join([first, *rows])


def _shortened(script: Script, value: cst.BaseExpression, without: frozenset[str]) -> str:
    """The text of a dict without some of its entries."""
    text = script.text_of(value)
    entries = items(value)
    if not without or entries is None:
        return text
    spans = [script.source.span(entry) for entry in entries]
    removed = [index for index, entry in enumerate(entries) if key(entry) in without]
    start, _ = script.lines.range(script.rewrite.span(value))
    ended = re.search(r",\s*[)}]\Z", text) is not None
    for first, last in reversed(deletions(script.lines, spans, removed, bracketed=True)):
        text = text[: first - start] + text[last - start :]
    kept_last = len(entries) - 1 not in removed
    return text if ended or kept_last else re.sub(r",\s*([)}])\Z", r"\1", text)


def _joined(text: str) -> str:
    """A dict on one row."""
    row = re.sub(r"\s*[\r\n]\s*", " ", text)
    return re.sub(r",? ([)}\]])", r"\1", row.replace("( ", "(").replace("{ ", "{").replace("[ ", "["))


def _with_delete(text: str) -> str:
    """A dict with `_delete_`, which replaces the inherited one."""
    head, added = ("{", "'_delete_': True") if text.startswith("{") else ("dict(", "_delete_=True")
    rest = text[len(head) :]
    return f"{head}{added},{rest}" if rest[:1] in "\r\n" else f"{head}{added}, {rest}"


def _width(row: str) -> int:
    found = _LEADING.match(row)
    return len(found.group()) if found else 0


def _moved(row: str, shift: int) -> str:
    if not row.strip():
        return row
    return " " * shift + row if shift >= 0 else row[min(-shift, _width(row)) :]
