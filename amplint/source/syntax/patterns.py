"""`match` and its patterns."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.source.syntax.base import BaseCompoundStatement, BaseExpression, BaseSuite, CSTNode
from amplint.source.syntax.expressions import Name


class MatchPattern(CSTNode):
    """A pattern."""


class MatchCase(CSTNode):
    """`case pattern if guard: body`"""

    pattern: MatchPattern
    body: BaseSuite
    guard: BaseExpression | None


class Match(BaseCompoundStatement):
    """`match subject: cases`; it has no block of its own."""

    subject: BaseExpression
    cases: Sequence[MatchCase]


Match.fields = Match.below = ("subject", "cases")


class MatchValue(MatchPattern):
    """A value."""

    value: BaseExpression


class MatchSingleton(MatchPattern):
    """`None`, `True` or `False`"""

    value: Name


class MatchSequenceElement(CSTNode):
    """An item of a sequence."""

    value: MatchPattern


class MatchStar(CSTNode):
    """`*name`"""

    name: Name | None


class MatchSequence(MatchPattern):
    """Patterns for the items of a sequence."""

    patterns: Sequence[MatchSequenceElement | MatchStar]


class MatchList(MatchSequence):
    """`[patterns]`, and without brackets"""


class MatchTuple(MatchSequence):
    """`(patterns)`"""


class MatchMappingElement(CSTNode):
    """`key: pattern`"""

    key: BaseExpression
    pattern: MatchPattern


class MatchMapping(MatchPattern):
    """`{elements, **rest}`"""

    elements: Sequence[MatchMappingElement]
    rest: Name | None


class MatchKeywordElement(CSTNode):
    """`key=pattern`"""

    key: Name
    pattern: MatchPattern


class MatchClass(MatchPattern):
    """`cls(patterns, kwds)`"""

    cls: BaseExpression
    patterns: Sequence[MatchSequenceElement]
    kwds: Sequence[MatchKeywordElement]


class MatchAs(MatchPattern):
    """`pattern as name`"""

    pattern: MatchPattern | None
    name: Name | None


class MatchOrElement(CSTNode):
    """One of several patterns."""

    pattern: MatchPattern


class MatchOr(MatchPattern):
    """`patterns | ...`"""

    patterns: Sequence[MatchOrElement]
