"""Lowering of Python's `ast` to nodes of `syntax`: the patterns of `match`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from amplint.source import syntax as cst
from amplint.source.lower_expressions import ExpressionLowering, new


class PatternLowering(ExpressionLowering):
    """Lowers patterns."""

    def pattern(self, n: ast.pattern) -> cst.MatchPattern:
        """The node of a pattern."""
        return _PATTERNS[type(n)](self, n)

    def _value(self, n: ast.MatchValue) -> cst.MatchValue:
        node = new(cst.MatchValue)
        node.at = None
        node.value = self.expression(n.value)
        return node

    def _singleton(self, n: ast.MatchSingleton) -> cst.MatchSingleton:
        node = new(cst.MatchSingleton)
        node.at = None
        node.value = new(cst.Name)
        node.value.at, node.value.value = n, str(n.value)
        return node

    def _sequence(self, n: ast.MatchSequence) -> cst.MatchSequence:
        start = self.layout.offset(n.lineno, n.col_offset)
        end = self.layout.offset(n.end_lineno or 0, n.end_col_offset or 0)
        listed = self.layout.text[start] != "(" or not self.layout.encloses(start, end)
        node = new(cst.MatchList if listed else cst.MatchTuple)
        node.at = n
        node.patterns = [
            self._star(each) if isinstance(each, ast.MatchStar) else self._element(each) for each in n.patterns
        ]
        return node

    def _element(self, n: ast.pattern) -> cst.MatchSequenceElement:
        node = new(cst.MatchSequenceElement)
        node.at = None
        node.value = self.pattern(n)
        return node

    def _star(self, n: ast.MatchStar) -> cst.MatchStar:
        node = new(cst.MatchStar)
        node.at = n
        node.name = None if n.name is None else self.name(n, n.name)
        return node

    def _mapping(self, n: ast.MatchMapping) -> cst.MatchMapping:
        node = new(cst.MatchMapping)
        node.at = n
        elements = []
        for key, pattern in zip(n.keys, n.patterns, strict=True):
            element = new(cst.MatchMappingElement)
            element.at = None
            element.key = self.expression(key)
            element.pattern = self.pattern(pattern)
            elements.append(element)
        node.elements = elements
        node.rest = None if n.rest is None else self.name(n, n.rest)
        return node

    def _class_pattern(self, n: ast.MatchClass) -> cst.MatchClass:
        node = new(cst.MatchClass)
        node.at = n
        node.cls = self.expression(n.cls)
        node.patterns = [self._element(each) for each in n.patterns]
        keywords = []
        for key, pattern in zip(n.kwd_attrs, n.kwd_patterns, strict=True):
            keyword = new(cst.MatchKeywordElement)
            keyword.at = None
            keyword.key = new(cst.Name)
            keyword.key.at, keyword.key.value = (pattern, 2, -1, -1), key
            if not key.isascii():
                keyword.key.value = self.written(keyword.key)
            keyword.pattern = self.pattern(pattern)
            keywords.append(keyword)
        node.kwds = keywords
        return node

    def _as_pattern(self, n: ast.MatchAs) -> cst.MatchAs:
        node = new(cst.MatchAs)
        node.at = n
        node.pattern = None if n.pattern is None else self.pattern(n.pattern)
        node.name = None if n.name is None else self.name(n, n.name)
        return node

    def _or(self, n: ast.MatchOr) -> cst.MatchOr:
        node = new(cst.MatchOr)
        node.at = n
        choices = []
        for each in n.patterns:
            choice = new(cst.MatchOrElement)
            choice.at = None
            choice.pattern = self.pattern(each)
            choices.append(choice)
        node.patterns = choices
        return node


_PATTERNS: dict[type[ast.pattern], Callable[[PatternLowering, Any], cst.MatchPattern]] = {
    ast.MatchValue: PatternLowering._value,
    ast.MatchSingleton: PatternLowering._singleton,
    ast.MatchSequence: PatternLowering._sequence,
    ast.MatchMapping: PatternLowering._mapping,
    ast.MatchClass: PatternLowering._class_pattern,
    ast.MatchAs: PatternLowering._as_pattern,
    ast.MatchOr: PatternLowering._or,
}
