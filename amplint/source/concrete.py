"""libcst trees: for white space and punctuation, and for files that libcst can parse and Python cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import libcst
from libcst.metadata import CodePosition, CodeRange, MetadataWrapper, PositionProvider

from amplint.findings import Position
from amplint.source import syntax as cst
from amplint.source.encoding import SourceError
from amplint.source.layout import Layout


def parse(text: str, first_row: int) -> libcst.Module:
    """libcst's tree of a text that begins in row `first_row` of its file. Raises SourceError."""
    try:
        return libcst.parse_module(text)
    except libcst.ParserSyntaxError as failure:
        message = failure.message.partition("\n")[0].removeprefix("parser error: ")
        place = Position(max(1, failure.raw_line) + first_row - 1, failure.raw_column + 1)
        raise SourceError(f"syntax error: {message}", place) from None
    except libcst.CSTValidationError as failure:  # it has no position
        raise SourceError(f"syntax error: {failure}", Position(first_row, 1)) from None
    except RecursionError:
        raise SourceError("too deeply nested to be parsed", Position(first_row, 1)) from None


def lowered(text: str, layout: Layout) -> cst.Module:
    """The `syntax` tree of a whole file, parsed by libcst. Raises SourceError."""
    tree = parse(text, 1)
    places = MetadataWrapper(tree, unsafe_skip_copy=True).resolve(PositionProvider)
    module: cst.Module = _Lowering(places, layout).made(tree)
    return module


class _Lowering:
    """Converts libcst nodes to `syntax` nodes; no closure, which would keep libcst's tree in a reference cycle."""

    def __init__(self, places: Mapping[libcst.CSTNode, object], layout: Layout) -> None:
        self._places = places
        self._starts, self._end = layout.starts, len(layout.text)

    def made(self, node: libcst.CSTNode) -> Any:
        kind: type[cst.CSTNode] = next(
            vars(cst)[one.__name__] for one in type(node).__mro__ if one.__name__ in vars(cst)
        )
        twin = kind(*(self._value(getattr(node, name)) for name in kind.fields))
        place = self._places[node]
        assert isinstance(place, CodeRange)
        twin.at = (self._offset(place.start), self._offset(place.end))
        return twin

    def _value(self, held: object) -> Any:
        if isinstance(held, libcst.Dot):
            return "."
        if isinstance(held, libcst.CSTNode):
            return self.made(held)
        if isinstance(held, str) or held is None:
            return held
        return [self._value(each) for each in held] if isinstance(held, Sequence) else None

    def _offset(self, place: CodePosition) -> int:
        """The offset of libcst's position, which ends blanks without a line break in the row after the last one."""
        if place.line > len(self._starts):
            return self._end
        return self._starts[place.line - 1] + place.column


def pairs(node: cst.CSTNode, twin: libcst.CSTNode) -> Iterator[tuple[cst.CSTNode, libcst.CSTNode]]:
    """The nodes of a tree paired with those of libcst's tree of the same text, parents first."""
    todo = [(node, twin)]
    while todo:
        one, other = todo.pop()
        yield one, other
        for name in one.below:
            held, theirs = getattr(one, name), getattr(other, name)
            if isinstance(held, cst.CSTNode):
                todo.append((held, theirs))
            elif held:
                todo.extend(zip(held, theirs, strict=True))
