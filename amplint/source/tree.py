"""Traversal of syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from amplint.source import syntax as cst

Kind = TypeVar("Kind", bound=cst.CSTNode)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The direct children of `node`, in the order of its fields."""
    found: list[cst.CSTNode] = []
    for name in node.below:
        value = getattr(node, name)
        if type(value) is list:
            found += value
        elif value is not None:
            found.append(value)
    return found


def every(tree: cst.CSTNode, *kinds: type[Kind]) -> Iterator[Kind]:
    """The nodes of these kinds in `tree`, itself included, parents before children.

    Kinds are concrete classes, without subclasses: comparing types costs a fraction of `isinstance`.
    """
    wanted = frozenset(kinds)
    return (node for node in walk(tree) if type(node) in wanted)  # type: ignore[misc]


def bound_by(alias: cst.ImportAlias) -> str:
    """The name bound by an import alias."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    name: cst.BaseExpression = alias.name
    while isinstance(name, cst.Attribute):
        name = name.value
    return name.value if isinstance(name, cst.Name) else ""


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and everything below it, parents before children."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        for name in reversed(node.below):  # `children`, last first, inlined: most traversals pass through here
            value = getattr(node, name)
            if type(value) is list:
                todo += value[::-1]
            elif value is not None:
                todo.append(value)


def targets(target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The expressions to which an assignment to `target` assigns, `target` itself or those in a tuple or list."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from targets(element.value)
    else:
        yield target


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """The variables that an assignment to `target` binds, including those in tuples and lists."""
    return (one.value for one in targets(target) if isinstance(one, cst.Name))


def keyword_of(argument: cst.Arg) -> str:
    """The keyword of an argument, empty for a positional one."""
    return argument.keyword.value if argument.keyword is not None else ""


def leading_text(node: cst.BaseExpression) -> str:
    """The text of a string, or of the first part of an f-string; empty for anything else."""
    if isinstance(node, cst.SimpleString):
        return node.raw_value
    first = node.parts[0] if isinstance(node, cst.FormattedString) and node.parts else None
    return first.value if isinstance(first, cst.FormattedStringText) else ""
