"""Walking libcst trees cheaply: `CSTNode.children` rebuilds every node it visits, this reads attributes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TypeVar

import libcst as cst

Kind = TypeVar("Kind", bound="cst.CSTNode")

_SKIPPED = ("whitespace", "leading_lines", "lines_after", "trailing", "header", "footer", "comma", "equal", "semicolon")
_ALSO_SKIPPED = frozenset({"lpar", "rpar", "indent", "newline", "dot"})


class _Fields(dict[type, "tuple[str, ...] | None"]):
    """By kind of node, the fields that can hold nodes worth seeing; None for what is no node."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        """Work it out the first time."""
        self[kind] = None
        if issubclass(kind, cst.CSTNode):
            names = (field.name for field in dataclasses.fields(kind) if field.type is not str)
            self[kind] = tuple(n for n in names if not n.startswith(_SKIPPED) and n not in _ALSO_SKIPPED)
        return self[kind]


_FIELDS = _Fields()


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below `node` in source order as declared, without whitespace and punctuation."""
    found: list[cst.CSTNode] = []
    for name in _FIELDS[type(node)] or ():
        value = getattr(node, name)
        kind = type(value)
        if kind is tuple or kind is list:
            found += value
        elif value is not None and _FIELDS[kind] is not None:
            found.append(value)
    return found


def every(tree: cst.CSTNode, *kinds: type[Kind]) -> Iterator[Kind]:
    """What is of one of these kinds in `tree`, itself included, parents before children.

    Kinds are those of real nodes, without subclasses: asking for a node's type costs a fraction of `isinstance`.
    """
    wanted = frozenset(kinds)
    return (node for node in walk(tree) if type(node) in wanted)  # type: ignore[misc]


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents before children."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        if _FIELDS[type(node)]:
            below = children(node)
            below.reverse()
            todo += below


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """The variables that an assignment to `target` binds, those in tuples and lists included."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
