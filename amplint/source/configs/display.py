"""Displays built from the content of a configuration file, with positions and a limit on their number of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.source import syntax as cst
from amplint.source.encoding import SourceError

MOST_NODES = 10_000
"""The limit of values and keys in a file, including those repeated by aliases of YAML."""
MOST_NESTED = 50
MOST_DIGITS = 100
UNKNOWN = "<unknown>"
"""The name for an unknown value, such as one with a custom tag."""
Scalar = bool | int | float | str | None


class Builder:
    """Creates and counts nodes. Raises SourceError beyond the limit."""

    def __init__(self) -> None:
        self._sizes: dict[cst.CSTNode, int] = {}

    def scalar(self, value: Scalar, start: int, end: int) -> cst.BaseExpression:
        """A constant."""
        node: cst.BaseExpression
        if value is None or isinstance(value, bool):
            node = cst.Name(repr(value))
        elif isinstance(value, int):
            node = cst.Integer(str(value))
        elif isinstance(value, float):
            node = cst.Float(_written(value)) if value == value else cst.Name(UNKNOWN)
        else:
            node = cst.SimpleString(repr(value))
        return self._kept(node, (), start, end)

    def unknown(self, start: int, end: int) -> cst.BaseExpression:
        """An unknown value."""
        return self._kept(cst.Name(UNKNOWN), (), start, end)

    def sequence(self, values: Sequence[cst.BaseExpression], start: int, end: int) -> cst.List:
        """A list."""
        elements = [cst.Element(value) for value in values]
        for element, value in zip(elements, values, strict=True):
            element.at = value.at
        node = cst.List(elements)
        self._kept(node, values, start, end)
        return node

    def mapping(self, pairs: Sequence[tuple[cst.BaseExpression, cst.BaseExpression]], start: int, end: int) -> cst.Dict:
        """A dictionary."""
        elements = [cst.DictElement(key, value) for key, value in pairs]
        for element, (key, value) in zip(elements, pairs, strict=True):
            element.at = (key.at[0], max(key.at[1], value.at[1]))
        node = cst.Dict(elements)
        self._kept(node, [one for pair in pairs for one in pair], start, end)
        return node

    def _kept(
        self, node: cst.BaseExpression, parts: Sequence[cst.BaseExpression], start: int, end: int
    ) -> cst.BaseExpression:
        node.at = (start, end)
        self._sizes[node] = size = 1 + sum(self._sizes[part] for part in parts)
        if size > MOST_NODES or len(self._sizes) > MOST_NODES:
            raise SourceError(f"it holds more than {MOST_NODES:,} values")
        return node


def _written(value: float) -> str:
    return repr(value).replace("inf", "1e999")
