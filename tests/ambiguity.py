"""Regular expressions that backtrack exponentially, found in their position automata.

A pattern is exponentially ambiguous if a position of it reaches itself by two paths that read the same text (Weber and
Seidl, "On the degree of ambiguity of finite automata", 1991). Look-arounds and anchors are taken to hold always.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import networkx

if sys.version_info >= (3, 11):
    from re import _compiler as compiler
    from re import _constants as ops
    from re import _parser as parser
else:
    import sre_compile as compiler
    import sre_constants as ops
    import sre_parse as parser

_CHARACTERS = (*map(chr, range(128)), "é", "中")
_MANY = 8
"""A part that may be repeated more often than this is repeated without bound."""
_Ends: TypeAlias = tuple[list[int], list[int], bool]
"""The first and the last positions of a part, and whether it matches the empty text."""


class _Positions:
    """The positions of a pattern: the characters that each reads, and those that can follow it, one for each path."""

    def __init__(self) -> None:
        self.reads: list[frozenset[str]] = []
        self.follow: list[list[int]] = []
        self.inner: list[tuple[Any, int]] = []

    def sequence(self, items: Iterable[Any], flags: int) -> _Ends:
        """Add parts that follow each other."""
        return self._joined(self._part(operator, value, flags) for operator, value in items)

    def _joined(self, parts: Iterable[_Ends]) -> _Ends:
        first: list[int] = []
        last: list[int] = []
        empty = True
        for begins, ends, may_be_empty in parts:
            self._link(last, begins)
            first = first + begins if empty else first
            last = last + ends if may_be_empty else ends
            empty = empty and may_be_empty
        return first, last, empty

    def _link(self, ends: Sequence[int], begins: Sequence[int]) -> None:
        for end in ends:
            self.follow[end].extend(begins)

    def _part(self, operator: Any, value: Any, flags: int) -> _Ends:
        if operator in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            return self._repeated(*value, flags)
        if operator is ops.BRANCH:
            choices = [self.sequence(choice, flags) for choice in value[1]]
            firsts, lasts, empty = zip(*choices, strict=True)
            return [*itertools.chain(*firsts)], [*itertools.chain(*lasts)], any(empty)
        if operator is ops.SUBPATTERN:
            return self.sequence(value[3], (flags | value[1]) & ~value[2])
        if operator in (ops.ASSERT, ops.ASSERT_NOT):
            self.inner.append((value[1], flags))
        if operator in (ops.ASSERT, ops.ASSERT_NOT, ops.AT, ops.GROUPREF):
            return [], [], True
        self.reads.append(_read(operator, value, flags))
        self.follow.append([])
        position = len(self.reads) - 1
        return [position], [position], False

    def _repeated(self, least: int, most: int, body: Any, flags: int) -> _Ends:
        if most <= _MANY:
            parts = [self.sequence(body, flags) for _ in range(most)]
            return self._joined((b, e, empty or n >= least) for n, (b, e, empty) in enumerate(parts))
        begins, ends, empty = self.sequence(body, flags)
        self._link(ends, begins)
        return begins, ends, empty or least == 0


def _read(operator: Any, value: Any, flags: int) -> frozenset[str]:
    """The characters that a part of one character matches."""
    one = compiler.compile(parser.SubPattern(parser.State(), [(operator, value)]), flags)
    return frozenset(filter(one.fullmatch, _CHARACTERS))


def backtracks_exponentially(pattern: str | bytes, flags: int) -> bool:
    """Whether `pattern`, or a look-around in it, is exponentially ambiguous."""
    tree = parser.parse(pattern if isinstance(pattern, str) else pattern.decode("latin-1"), flags)
    waiting = [(tree, tree.state.flags)]
    while waiting:
        positions = _Positions()
        positions.sequence(*waiting.pop())
        if _ambiguous(positions):
            return True
        waiting += positions.inner
    return False


def _ambiguous(positions: _Positions) -> bool:
    follow = {position: set(after) for position, after in enumerate(positions.follow)}
    for loop in networkx.strongly_connected_components(networkx.DiGraph(follow)):
        if any(positions.follow[a].count(b) > 1 for a in loop for b in follow[a] & loop):
            return True
        pairs = networkx.DiGraph()
        for a, b in itertools.product(loop, repeat=2):
            nexts = itertools.product(follow[a] & loop, follow[b] & loop)
            pairs.add_edges_from(((a, b), (c, d)) for c, d in nexts if positions.reads[c] & positions.reads[d])
        for component in networkx.strongly_connected_components(pairs):
            if any(a == b for a, b in component) and any(a != b for a, b in component):
                return True
    return False
