"""Positions of nodes, computed on demand: from `ast` for most, from the text for the others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.layout import Layout

Range: TypeAlias = tuple[int, int]
"""A half-open range of offsets."""

_WORD = regex(r"[^\x00-/:-@\[-^`{-\x7f]+")
_LAST_WORD = regex(r"[^\x00-/:-@\[-^`{-\x7f]+[\x00-/:-@\[-^`{-\x7f]*\Z")


class Places:
    """The positions of the nodes of a tree of the text of `layout`; `parents` maps nodes to their parents.

    Positions are libcst's: they exclude parentheses around an expression and include those of its parts.
    """

    def __init__(self, layout: Layout, parents: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        self._layout = layout
        self._parents = parents

    def find(self, node: cst.CSTNode) -> Range:
        """The range of `node`."""
        at = node.at
        if type(at) is tuple and len(at) == 2:
            return at
        special = _SPECIAL.get(type(node))
        if special is not None:
            return special(self, node)
        if at is None:
            return self._of_parts(node)
        start, end = self._known(at)
        if isinstance(node, _WITH_BLOCK) and self._layout.text[end - 1] == ";":
            end = self._layout.before(end - 1) + 1
        return start, end

    def outer(self, node: cst.CSTNode) -> Range:
        """The range of `node` with its own parentheses."""
        pairs = self.parentheses(node)
        return (pairs[-1][0], pairs[-1][1] + 1) if pairs else self.find(node)

    def parentheses(self, node: cst.CSTNode) -> list[Range]:
        """The offsets of the pairs of parentheses around `node` that are its own, innermost first."""
        if isinstance(node, (cst.MatchValue, cst.MatchSingleton)):
            node = node.value
        if not isinstance(node, (cst.BaseExpression, cst.MatchPattern)) or _is_bare_name(node):
            return []
        layout = self._layout
        start, end = self.find(node)
        closes: int | None = None
        found = []
        while (opening := layout.before(start)) >= 0 and layout.blanked[opening] == "(":
            closing = layout.after(end)
            if closing >= len(layout.blanked) or layout.blanked[closing] != ")":
                break
            if closes is None:
                closes = self._foreign(node)
            if closing == closes or (closes == _BEFORE_COLON and layout.blanked[layout.after(closing + 1)] == ":"):
                break
            found.append((opening, closing))
            start, end = opening, closing + 1
        return found

    def _foreign(self, node: cst.CSTNode) -> int:
        """The offset of a closing parenthesis that may follow `node` and is not its own."""
        above = self._parents.get(node)
        if isinstance(above, (cst.MatchValue, cst.MatchSingleton)):
            above = self._parents.get(above)
        around = self._parents.get(above) if above is not None else None
        if isinstance(above, cst.Arg):
            if isinstance(around, cst.Call):
                return self._known(around.at)[1] - 1
            if isinstance(around, cst.ClassDef):
                return _BEFORE_COLON
        if isinstance(above, cst.MatchSequenceElement) and isinstance(around, cst.MatchClass):
            return self._known(around.at)[1] - 1
        if isinstance(above, cst.MatchKeywordElement) and isinstance(around, cst.MatchClass):
            return self._known(around.at)[1] - 1
        if isinstance(above, cst.MatchSequenceElement) and isinstance(around, cst.MatchTuple):
            return self.find(around)[1] - 1
        if isinstance(above, cst.WithItem) and isinstance(around, cst.With):
            alone = len(around.items) == 1 and above.asname is None
            return _BEFORE_COLON if alone and not isinstance(node, _ALWAYS_ENCLOSED) else -1
        return -1

    def _known(self, at: Any) -> Range:
        layout = self._layout
        if type(at) is tuple:
            return at if len(at) == 2 else _words(layout, *at)
        return layout.offset(at.lineno, at.col_offset), layout.offset(at.end_lineno, at.end_col_offset)

    def _of_parts(self, node: cst.CSTNode) -> Range:
        starts, ends = [], []
        for name in node.below:
            value = getattr(node, name)
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(each, cst.CSTNode) and not isinstance(each, cst.Asynchronous):
                    start, end = self.outer(each)
                    starts.append(start)
                    ends.append(end)
        if not starts:
            above = self._parents.get(node)
            return self.find(above) if above is not None else (0, len(self._layout.text))
        return min(starts), max(ends)

    def _name(self, node: cst.Name) -> Range:
        return word_range(self._layout, node)

    def _tuple(self, node: cst.Tuple | cst.GeneratorExp) -> Range:
        """The range within the parentheses, which `ast` includes."""
        start, end = self._known(node.at)
        return self._inside(start, end) if self._layout.encloses(start, end) else (start, end)

    def _inside(self, start: int, end: int) -> Range:
        first = self._layout.after(start + 1)
        return (first, first) if first == end - 1 else (first, self._layout.before(end - 1) + 1)

    def _match_sequence(self, node: cst.MatchSequence) -> Range:
        start, end = self._known(node.at)
        enclosed = self._layout.text[start] == "(" and self._layout.encloses(start, end)
        return self._inside(start, end) if enclosed else (start, end)

    def _match_value(self, node: cst.MatchValue | cst.MatchSingleton) -> Range:
        return self.outer(node.value)

    def _after_word(self, node: cst.CSTNode) -> Range:
        """The range of a node that begins with a keyword or sign before its children."""
        start, end = self._of_parts(node)
        if isinstance(node, (cst.Else, cst.Finally)):
            word = "else" if isinstance(node, cst.Else) else "finally"
            return self._layout.blanked.rindex(word, 0, start), end
        return self._word_before(start), end

    def _word_before(self, start: int) -> int:
        last = self._layout.before(start)
        bare = self._layout.blanked
        while last and (bare[last - 1].isalnum() or bare[last - 1] == "_") and (bare[last].isalnum()):
            last -= 1
        return last

    def _comp_for(self, node: cst.CompFor) -> Range:
        start, end = self._of_parts(node)
        start = self._layout.blanked.rindex("for", 0, self.outer(node.target)[0])
        return (self._word_before(start) if node.asynchronous is not None else start), end

    def _starred_dict_element(self, node: cst.StarredDictElement) -> Range:
        start, end = self._of_parts(node)
        return self._layout.blanked.rindex("**", 0, start), end

    def _param(self, node: cst.Param) -> Range:
        start, end = self.find(node.name)
        return (self._layout.blanked.rindex(node.star, 0, start) if node.star else start), end

    def _type_parameters(self, node: cst.TypeParameters) -> Range:
        start, end = self._of_parts(node)
        return self._layout.blanked.rindex("[", 0, start), self._layout.blanked.index("]", end) + 1

    def _param_star(self, node: cst.ParamStar) -> Range:
        above = self._parents[node]
        assert isinstance(above, cst.Parameters)
        start = self._layout.blanked.rindex("*", 0, self.find(above.kwonly_params[0])[0])
        return start, start + 1

    def _asynchronous(self, node: cst.Asynchronous) -> Range:
        start = self.find(self._parents[node])[0]
        return start, start + len("async")

    def _operator(self, node: cst.CSTNode) -> Range:
        above = self._parents[node]
        if isinstance(above, cst.ComparisonTarget):
            whole = self._parents[above]
            assert isinstance(whole, cst.Comparison)
            place = whole.comparisons.index(above)
            left: cst.CSTNode = whole.comparisons[place - 1].comparator if place else whole.left
        elif isinstance(above, cst.UnaryOperation):
            start = self.find(above)[0]
            return start, start + (3 if isinstance(node, cst.Not) else 1)
        else:
            left = above.target if isinstance(above, cst.AugAssign) else above.left  # type: ignore[attr-defined]
        words = (type(node).__doc__ or "").strip("`").split()
        start = self._layout.blanked.index(words[0], self.outer(left)[1])
        return start, self._layout.blanked.index(words[-1], start) + len(words[-1])

    def _module(self, node: cst.Module) -> Range:
        return self._of_parts(node) if node.body else (0, 0)


def word_range(layout: Layout, node: cst.Name) -> Range:
    """The range of a name, which may be a word of an `ast` node."""
    at = node.at
    if type(at) is tuple:
        return at if len(at) == 2 else _words(layout, *at)
    start, end = layout.offset(at.lineno, at.col_offset), layout.offset(at.end_lineno, at.end_col_offset)
    kind = type(at)
    if kind in _WHOLE:
        return start, end
    if kind is ast.Attribute:
        found = _LAST_WORD.search(layout.blanked, max(start, end - 1000), end) if not layout.plain else None
        return (found.start() if found else end - len(at.attr)), end
    if kind is ast.MatchAs and at.pattern is not None:
        return _words(layout, at, 1, 1, 1)
    return _words(layout, at, *_WORD_OF.get(kind, (0, 0, 0)))


def _words(layout: Layout, anchor: Any, mode: int, first: int, last: int) -> Range:
    """The range of these words, counted from `anchor` (0), its end (1) or before it (2)."""
    if mode == 1:
        anchor = getattr(anchor, "type", None) or getattr(anchor, "pattern", None) or anchor
        if isinstance(anchor, ast.MatchMapping):
            inner = anchor.patterns[-1] if anchor.patterns else None
            if inner is None:
                place = layout.offset(anchor.lineno, anchor.col_offset)
            else:
                place = layout.offset(inner.end_lineno, inner.end_col_offset)
        else:
            place = layout.offset(anchor.end_lineno, anchor.end_col_offset)
    else:
        place = layout.offset(anchor.lineno, anchor.col_offset)
    if mode == 2:
        found = _LAST_WORD.search(layout.blanked, max(0, place - 1000), place)
        assert found is not None
        word = _WORD.match(layout.blanked, found.start())
        assert word is not None
        return word.span()
    start = end = place
    for index, found in enumerate(_WORD.finditer(layout.blanked, place)):
        if index == first:
            start = found.start()
        if index == last:
            end = found.end()
            break
    return start, end


def _is_bare_name(node: cst.CSTNode) -> bool:
    """Whether a node is a name in another node, and no expression."""
    return isinstance(node, cst.Name) and type(node.at) not in _WHOLE and not _is_range(node.at)


def _is_range(at: object) -> bool:
    return type(at) is tuple and len(at) == 2


_BEFORE_COLON = -2
_WITH_BLOCK = (cst.BaseCompoundStatement, cst.ExceptHandler, cst.ExceptStarHandler)
_ALWAYS_ENCLOSED = (cst.Yield, cst.GeneratorExp, cst.NamedExpr)
_WHOLE = frozenset({ast.Name, ast.Constant, ast.MatchSingleton})
_WORD_OF: dict[type, tuple[int, int, int]] = {
    ast.FunctionDef: (0, 1, 1),
    ast.AsyncFunctionDef: (0, 2, 2),
    ast.ClassDef: (0, 1, 1),
    ast.ExceptHandler: (1, 1, 1),
    ast.MatchMapping: (1, 0, 0),
}
_SPECIAL: dict[type[cst.CSTNode], Callable[[Places, Any], Range]] = {
    cst.Name: Places._name,
    cst.Tuple: Places._tuple,
    cst.GeneratorExp: Places._tuple,
    cst.MatchTuple: Places._match_sequence,
    cst.MatchList: Places._match_sequence,
    cst.Else: Places._after_word,
    cst.Finally: Places._after_word,
    cst.From: Places._after_word,
    cst.AsName: Places._after_word,
    cst.CompIf: Places._after_word,
    cst.MatchCase: Places._after_word,
    cst.Decorator: Places._after_word,
    cst.CompFor: Places._comp_for,
    cst.StarredDictElement: Places._starred_dict_element,
    cst.Param: Places._param,
    cst.ParamStar: Places._param_star,
    cst.TypeParameters: Places._type_parameters,
    cst.Asynchronous: Places._asynchronous,
    cst.Module: Places._module,
    cst.MatchValue: Places._match_value,
    cst.MatchSingleton: Places._match_value,
}
for _base in (cst.BaseBinaryOp, cst.BaseBooleanOp, cst.BaseUnaryOp, cst.BaseCompOp, cst.BaseAugOp):
    _SPECIAL.update(dict.fromkeys(_base.__subclasses__(), Places._operator))
