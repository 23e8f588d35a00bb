"""Walking libcst trees cheaply: `CSTNode.children` rebuilds every node it visits, this reads attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import libcst as cst

_SKIPPED = ("whitespace", "leading_lines", "lines_after", "trailing", "header", "footer", "comma", "equal", "semicolon")
_ALSO_SKIPPED = frozenset({"lpar", "rpar", "indent", "newline", "dot"})
_fields: dict[type, tuple[str, ...] | None] = {}


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The fields of a kind of node that can hold nodes worth seeing; None for what is no node."""
    if kind not in _fields:
        _fields[kind] = None
        if issubclass(kind, cst.CSTNode):
            names = (field.name for field in dataclasses.fields(kind))
            _fields[kind] = tuple(n for n in names if not n.startswith(_SKIPPED) and n not in _ALSO_SKIPPED)
    return _fields[kind]


def _add_children(node: cst.CSTNode, found: list[cst.CSTNode]) -> None:
    for name in _fields_of(type(node)) or ():
        value = getattr(node, name)
        kind = type(value)
        if kind is str or value is None:
            continue
        if kind is tuple or kind is list:
            found.extend(item for item in value if _fields_of(type(item)) is not None)
        elif _fields_of(kind) is not None:
            found.append(value)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below `node` in source order as declared, without whitespace and punctuation."""
    found: list[cst.CSTNode] = []
    _add_children(node, found)
    return found


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents before children."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        below = children(node)
        below.reverse()
        todo += below
