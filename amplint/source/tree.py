"""Walking libcst trees cheaply: `CSTNode.children` rebuilds every node it visits, this reads attributes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

import libcst as cst

_SKIPPED = ("whitespace", "leading_lines", "lines_after", "trailing", "header", "footer", "comma", "equal", "semicolon")


@functools.cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    return tuple(
        field.name
        for field in dataclasses.fields(kind)
        if not field.name.startswith(_SKIPPED) and field.name not in ("lpar", "rpar", "indent", "newline", "dot")
    )


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes directly below `node` in source order as declared, without whitespace and punctuation."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, cst.CSTNode):
                    yield item


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents before children."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(list(children(node))))
