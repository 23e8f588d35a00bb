"""The base classes of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class _Node(type):
    """A metaclass that turns declared fields into slots."""

    fields: tuple[str, ...]
    below: tuple[str, ...]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Node:
        annotations: dict[str, str] = namespace.get("__annotations__", {})
        declared = {n: kind for n, kind in annotations.items() if not kind.startswith("ClassVar")}
        inherited = {n: kind for base in bases for n, kind in getattr(base, "declared", {}).items()}
        declared.update({n: kind for n, kind in inherited.items() if n not in declared})
        namespace["declared"] = declared
        namespace["__slots__"] = [n for n in declared if n not in inherited]
        namespace["fields"] = tuple(n for n in declared if n != "at")
        namespace["below"] = tuple(n for n in namespace["fields"] if declared[n] not in _PLAIN)
        return super().__new__(cls, name, bases, namespace)


_PLAIN = frozenset({"str", "str | None", "Sequence[str]"})


class CSTNode(metaclass=_Node):
    """A piece of code; `at` is its position for `amplint.source.places`.

    `fields` are its parts, `below` those fields that can hold nodes.
    """

    fields: ClassVar[tuple[str, ...]]
    below: ClassVar[tuple[str, ...]]
    declared: ClassVar[dict[str, str]]

    at: Any

    def __init__(self, *values: Any, **named: Any) -> None:
        self.at = None
        given = {**dict(zip(self.fields, values, strict=False)), **named}
        for name in self.fields:
            setattr(self, name, given.get(name))

    def deep_equals(self, other: CSTNode) -> bool:
        """Whether `other` is the same code."""
        return type(self) is type(other) and all(_equal(getattr(self, n), getattr(other, n)) for n in self.fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.fields)})"


def _equal(one: object, other: object) -> bool:
    if isinstance(one, CSTNode):
        return isinstance(other, CSTNode) and one.deep_equals(other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return one == other


class BaseExpression(CSTNode):
    """An expression."""


class BaseStatement(CSTNode):
    """A statement on lines of its own."""


class BaseSmallStatement(CSTNode):
    """A statement that may share its line with others."""


class BaseCompoundStatement(BaseStatement):
    """A statement with a block."""

    body: BaseSuite


class BaseSuite(CSTNode):
    """The body of a compound statement."""

    body: Sequence[BaseStatement | BaseSmallStatement]


class Asynchronous(CSTNode):
    """`async`"""


class Module(CSTNode):
    """A file, or the part of it in a chunk."""

    body: Sequence[BaseStatement]
