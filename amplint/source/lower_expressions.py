"""Lowering of Python's `ast` to nodes of `syntax`: expressions."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.fstrings import Field, Literal, scan
from amplint.source.layout import Layout

Kind = TypeVar("Kind")
new: Callable[[type[Kind]], Kind] = object.__new__
"""Allocate a node without calling `__init__`, which would take most of the time."""

_OPENING = regex(r"([rRbBuUfF]{0,2})(\"\"\"|'''|\"|')")


class ExpressionLowering:
    """Lowers expressions."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def expression(self, n: ast.expr) -> cst.BaseExpression:
        """The node of an expression."""
        return _EXPRESSIONS[type(n)](self, n)

    def _text(self, n: Any) -> str:
        layout = self.layout
        start = layout.starts[n.lineno - 1]
        if layout.plain and n.lineno == n.end_lineno:
            return layout.text[start + n.col_offset : start + n.end_col_offset]
        return layout.text[layout.offset(n.lineno, n.col_offset) : layout.offset(n.end_lineno, n.end_col_offset)]

    def name(self, anchor: Any, value: str) -> cst.Name:
        """A name that `ast` stores as a string of `anchor`."""
        node = new(cst.Name)
        node.at = anchor
        node.value = value if value.isascii() else self.written(node)
        return node

    def written(self, node: cst.Name) -> str:
        """A name as spelled in the text: `ast` normalizes non-ASCII names."""
        from amplint.source.places import word_range

        start, end = word_range(self.layout, node)
        return self.layout.text[start:end]

    def _name(self, n: ast.Name) -> cst.Name:
        node = new(cst.Name)
        node.at = n
        value = n.id
        node.value = value if value.isascii() else self._text(n)
        return node

    def _attribute(self, n: ast.Attribute) -> cst.Attribute:
        node = new(cst.Attribute)
        node.at = n
        value = n.value
        node.value = _EXPRESSIONS[type(value)](self, value)
        node.attr = attr = new(cst.Name)
        attr.at = n
        word = n.attr
        attr.value = word if word.isascii() else self.written(attr)
        return node

    def _call(self, n: ast.Call) -> cst.Call:
        node = new(cst.Call)
        node.at = n
        func = n.func
        node.func = _EXPRESSIONS[type(func)](self, func)
        node.args = self.arguments(n.args, n.keywords)
        return node

    def arguments(self, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[cst.Arg]:
        """The arguments of a call or class, in the order of the text."""
        found: list[cst.Arg] = []
        for each in args:
            node = new(cst.Arg)
            node.keyword = None
            if type(each) is ast.Starred:
                node.at, node.star = each, "*"
                node.value = self.expression(each.value)
            else:
                node.at, node.star = None, ""
                node.value = _EXPRESSIONS[type(each)](self, each)
            found.append(node)
        for named in keywords:
            node = new(cst.Arg)
            node.at = named
            node.value = self.expression(named.value)
            if named.arg is None:
                node.keyword, node.star = None, "**"
            else:
                node.keyword, node.star = self.name(named, named.arg), ""
            found.append(node)
        if args and keywords and _start(args[-1]) > _start(keywords[0]):
            order = sorted([*enumerate(map(_start, args)), *enumerate(map(_start, keywords), len(args))], key=_second)
            found = [found[place] for place, _ in order]
        return found

    def _constant(self, n: ast.Constant) -> cst.BaseExpression:
        value = n.value
        kind = _NUMBERS.get(type(value))
        if kind is not None:
            node = new(kind)
            node.at = n
            node.value = self._text(n)
            return node
        if isinstance(value, (str, bytes)):
            return self._string(n)
        if value is ...:
            dots = new(cst.Ellipsis)
            dots.at = n
            return dots
        name = new(cst.Name)
        name.at = n
        name.value = str(value)
        return name

    def _string(self, n: Any) -> cst.BaseString:
        text = self._text(n)
        quote = text[-1]
        if text.count(quote) == 2 and (text[0] == quote or (text[1] == quote and text[0] not in "fF")):
            node = new(cst.SimpleString)
            node.at = n
            node.value = text
            return node
        start = self.layout.offset(n.lineno, n.col_offset)
        found = self._pieces(start, start + len(text))
        found.at = n
        return found

    def _pieces(self, place: int, end: int) -> cst.BaseString:
        """The strings from `place` to `end`."""
        pieces: list[cst.SimpleString | cst.FormattedString] = []
        while place < end:
            pieces.append(self._piece(place))
            place = self.layout.after(pieces[-1].at[1]) if pieces[-1].at[1] < end else end
        found: cst.SimpleString | cst.FormattedString | cst.ConcatenatedString = pieces.pop()
        while pieces:
            node = new(cst.ConcatenatedString)
            node.left, node.right = pieces.pop(), found
            node.at = (node.left.at[0], end)
            found = node
        return found

    def _piece(self, start: int) -> cst.SimpleString | cst.FormattedString:
        text = self.layout.text
        opening = _OPENING.match(text, start)
        assert opening is not None
        prefix, quote = opening[1].lower(), opening[2]
        if "f" in prefix:
            parts, end = scan(text, opening.end(), quote, "r" in prefix)
            node = new(cst.FormattedString)
            node.at = (start, end)
            node.parts = [self._part(each) for each in parts]
            node.start, node.end = text[start : opening.end()], quote
            return node
        plain = new(cst.SimpleString)
        end = self.layout.string_end(opening.end(), quote)
        plain.at = (start, end)
        plain.value = text[start:end]
        return plain

    def _part(self, part: Literal | Field) -> cst.FormattedStringText | cst.FormattedStringExpression:
        if isinstance(part, Literal):
            text = new(cst.FormattedStringText)
            text.at = (part.start, part.end)
            text.value = self.layout.text[part.start : part.end]
            return text
        node = new(cst.FormattedStringExpression)
        node.at = (part.opened, part.closed)
        node.expression = self.expression(self._embedded(part.start, part.end))
        node.conversion = part.conversion
        node.format_spec = None if part.spec is None else [self._part(each) for each in part.spec]
        return node

    def _embedded(self, start: int, end: int) -> ast.expr:
        """The `ast` of an expression in an f-string, for which not every version of Python has positions."""
        text = self.layout.text[start:end]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(f"({text}\n)", mode="eval").body
        if isinstance(tree, (ast.Tuple, ast.GeneratorExp)) and (tree.lineno, tree.col_offset) == (1, 0):
            tree.col_offset = 1
            rows = text.encode().replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            tree.end_lineno, tree.end_col_offset = len(rows), len(rows[-1]) + (len(rows) == 1)
        row, column = self.layout.place(start)
        if not self.layout.plain:
            column = len(self.layout.text[start - column : start].encode())
        for each in ast.walk(tree):
            if isinstance(each, (ast.expr, ast.keyword, ast.arg)):
                if each.lineno == 1:
                    each.col_offset += column - 1
                if each.end_lineno == 1 and each.end_col_offset is not None:
                    each.end_col_offset += column - 1
                each.lineno += row - 1
                each.end_lineno = (each.end_lineno or 1) + row - 1
        return tree

    def _opaque(self, n: ast.expr) -> cst.BaseExpression:
        """The node for syntax that is unknown to some supported versions of Python."""
        node = new(cst.BaseExpression)
        node.at = n
        return node

    def _comparison(self, n: ast.Compare) -> cst.Comparison:
        node = new(cst.Comparison)
        node.at = n
        node.left = self.expression(n.left)
        targets = []
        for op, comparator in zip(n.ops, n.comparators, strict=True):
            target = new(cst.ComparisonTarget)
            target.at = None
            target.operator = operator = new(_COMPARING[type(op)])
            operator.at = None
            target.comparator = self.expression(comparator)
            targets.append(target)
        node.comparisons = targets
        return node

    def _binary(self, n: ast.BinOp) -> cst.BinaryOperation:
        node = new(cst.BinaryOperation)
        node.at = n
        node.left = self.expression(n.left)
        node.operator = operator = new(_BINARY[type(n.op)])
        operator.at = None
        node.right = self.expression(n.right)
        return node

    def _boolean(self, n: ast.BoolOp) -> cst.BooleanOperation:
        kind = cst.And if type(n.op) is ast.And else cst.Or
        left = self.expression(n.values[0])
        for each in n.values[1:]:
            node = new(cst.BooleanOperation)
            node.at = None
            node.left = left
            node.operator = operator = new(kind)
            operator.at = None
            node.right = self.expression(each)
            left = node
        left.at = n
        return left  # type: ignore[return-value]

    def _unary(self, n: ast.UnaryOp) -> cst.UnaryOperation:
        node = new(cst.UnaryOperation)
        node.at = n
        node.operator = operator = new(_UNARY[type(n.op)])
        operator.at = None
        node.expression = self.expression(n.operand)
        return node

    def _subscript(self, n: ast.Subscript) -> cst.Subscript:
        node = new(cst.Subscript)
        node.at = n
        node.value = self.expression(n.value)
        inner = n.slice
        each = inner.elts if isinstance(inner, ast.Tuple) and inner.elts and not self._enclosed(inner) else [inner]
        node.slice = [self._subscript_element(one) for one in each]
        return node

    def _enclosed(self, n: ast.Tuple) -> bool:
        start = self.layout.offset(n.lineno, n.col_offset)
        if self.layout.text[start] != "(":
            return False
        return self.layout.encloses(start, self.layout.offset(n.end_lineno or 0, n.end_col_offset or 0))

    def _subscript_element(self, n: ast.expr) -> cst.SubscriptElement:
        node = new(cst.SubscriptElement)
        node.at = None
        if isinstance(n, ast.Slice):
            part = new(cst.Slice)
            part.at = n
            part.lower = None if n.lower is None else self.expression(n.lower)
            part.upper = None if n.upper is None else self.expression(n.upper)
            part.step = None if n.step is None else self.expression(n.step)
            node.slice = part
            return node
        index = new(cst.Index)
        index.at, index.star = None, None
        if isinstance(n, ast.Starred):
            index.at, index.star, n = n, "*", n.value
        index.value = self.expression(n)
        node.slice = index
        return node

    def element(self, n: ast.expr) -> cst.BaseElement:
        """An item of a list, tuple or set."""
        if type(n) is ast.Starred:
            return self._starred(n)
        node = new(cst.Element)
        node.at = None
        node.value = _EXPRESSIONS[type(n)](self, n)
        return node

    def _starred(self, n: ast.Starred) -> cst.StarredElement:
        node = new(cst.StarredElement)
        node.at = n
        node.value = self.expression(n.value)
        return node

    def _tuple(self, n: ast.Tuple) -> cst.Tuple:
        node = new(cst.Tuple)
        node.at = n
        node.elements = [self.element(each) for each in n.elts]
        return node

    def _list(self, n: ast.List) -> cst.List:
        node = new(cst.List)
        node.at = n
        node.elements = [self.element(each) for each in n.elts]
        return node

    def _set(self, n: ast.Set) -> cst.Set:
        node = new(cst.Set)
        node.at = n
        node.elements = [self.element(each) for each in n.elts]
        return node

    def _dict(self, n: ast.Dict) -> cst.Dict:
        node = new(cst.Dict)
        node.at = n
        elements: list[cst.BaseDictElement] = []
        for key, value in zip(n.keys, n.values, strict=True):
            if key is None:
                starred = new(cst.StarredDictElement)
                starred.at = None
                starred.value = self.expression(value)
                elements.append(starred)
                continue
            item = new(cst.DictElement)
            item.at = None
            item.key = self.expression(key)
            item.value = self.expression(value)
            elements.append(item)
        node.elements = elements
        return node

    def _comprehension(self, n: ast.GeneratorExp | ast.ListComp | ast.SetComp) -> cst.BaseSimpleComp:
        node = new(_COMPREHENSIONS[type(n)])
        node.at = n
        node.elt = self.expression(n.elt)
        node.for_in = self._loops(n.generators)
        return node

    def _dict_comprehension(self, n: ast.DictComp) -> cst.DictComp:
        node = new(cst.DictComp)
        node.at = n
        node.key = self.expression(n.key)
        node.value = self.expression(n.value)
        node.for_in = self._loops(n.generators)
        return node

    def _loops(self, found: Sequence[ast.comprehension]) -> cst.CompFor:
        inner: cst.CompFor | None = None
        for each in reversed(found):
            node = new(cst.CompFor)
            node.at = None
            node.target = self.expression(each.target)
            node.iter = self.expression(each.iter)
            conditions = []
            for test in each.ifs:
                condition = new(cst.CompIf)
                condition.at = None
                condition.test = self.expression(test)
                conditions.append(condition)
            node.ifs = conditions
            node.inner_for_in = inner
            node.asynchronous = cst.Asynchronous() if each.is_async else None
            inner = node
        assert inner is not None
        return inner

    def _if_expression(self, n: ast.IfExp) -> cst.IfExp:
        node = new(cst.IfExp)
        node.at = n
        node.test = self.expression(n.test)
        node.body = self.expression(n.body)
        node.orelse = self.expression(n.orelse)
        return node

    def _await(self, n: ast.Await) -> cst.Await:
        node = new(cst.Await)
        node.at = n
        node.expression = self.expression(n.value)
        return node

    def _yield(self, n: ast.Yield) -> cst.Yield:
        node = new(cst.Yield)
        node.at = n
        node.value = None if n.value is None else self.expression(n.value)
        return node

    def _yield_from(self, n: ast.YieldFrom) -> cst.Yield:
        node = new(cst.Yield)
        node.at = n
        node.value = source = new(cst.From)
        source.at = None
        source.item = self.expression(n.value)
        return node

    def _named(self, n: ast.NamedExpr) -> cst.NamedExpr:
        node = new(cst.NamedExpr)
        node.at = n
        node.target = self.expression(n.target)
        node.value = self.expression(n.value)
        return node

    def _lambda(self, n: ast.Lambda) -> cst.Lambda:
        node = new(cst.Lambda)
        node.at = n
        node.params = self.parameters(n.args)
        node.body = self.expression(n.body)
        return node

    def parameters(self, n: ast.arguments) -> cst.Parameters:
        """The parameters of a function or lambda."""
        node = new(cst.Parameters)
        node.at = None
        plain = len(n.posonlyargs) + len(n.args) - len(n.defaults)
        defaults: list[ast.expr | None] = [*[None] * plain, *n.defaults]
        split = len(n.posonlyargs)
        node.posonly_params = [*map(self._parameter, n.posonlyargs, defaults)]
        node.params = [*map(self._parameter, n.args, defaults[split:])]
        if n.vararg is not None:
            node.star_arg = self._parameter(n.vararg, None, "*")
        elif n.kwonlyargs:
            node.star_arg = new(cst.ParamStar)
            node.star_arg.at = None
        else:
            node.star_arg = None
        node.kwonly_params = [*map(self._parameter, n.kwonlyargs, n.kw_defaults)]
        node.star_kwarg = None if n.kwarg is None else self._parameter(n.kwarg, None, "**")
        return node

    def _parameter(self, n: ast.arg, default: ast.expr | None, star: str = "") -> cst.Param:
        node = new(cst.Param)
        node.at = n
        node.name = self.name(n, n.arg)
        node.annotation = self.annotation(n.annotation)
        node.default = None if default is None else self.expression(default)
        node.star = star
        return node

    def annotation(self, n: ast.expr | None) -> cst.Annotation | None:
        """An annotation."""
        if n is None:
            return None
        node = new(cst.Annotation)
        node.at = None
        node.annotation = self._starred(n) if isinstance(n, ast.Starred) else self.expression(n)
        return node


def _start(n: ast.expr | ast.keyword) -> tuple[int, int]:
    return n.lineno, n.col_offset


def _second(pair: tuple[int, tuple[int, int]]) -> tuple[int, int]:
    return pair[1]


_NUMBERS: dict[type, type[cst.BaseNumber]] = {int: cst.Integer, float: cst.Float, complex: cst.Imaginary}
_COMPREHENSIONS: dict[type[ast.expr], type[cst.BaseSimpleComp]] = {
    ast.GeneratorExp: cst.GeneratorExp,
    ast.ListComp: cst.ListComp,
    ast.SetComp: cst.SetComp,
}
_BINARY: dict[type[ast.operator], type[cst.BaseBinaryOp]] = {
    ast.Add: cst.Add,
    ast.Sub: cst.Subtract,
    ast.Mult: cst.Multiply,
    ast.Div: cst.Divide,
    ast.FloorDiv: cst.FloorDivide,
    ast.Mod: cst.Modulo,
    ast.Pow: cst.Power,
    ast.MatMult: cst.MatrixMultiply,
    ast.LShift: cst.LeftShift,
    ast.RShift: cst.RightShift,
    ast.BitAnd: cst.BitAnd,
    ast.BitOr: cst.BitOr,
    ast.BitXor: cst.BitXor,
}
_UNARY: dict[type[ast.unaryop], type[cst.BaseUnaryOp]] = {
    ast.USub: cst.Minus,
    ast.UAdd: cst.Plus,
    ast.Invert: cst.BitInvert,
    ast.Not: cst.Not,
}
_COMPARING: dict[type[ast.cmpop], type[cst.BaseCompOp]] = {
    ast.Eq: cst.Equal,
    ast.NotEq: cst.NotEqual,
    ast.Lt: cst.LessThan,
    ast.LtE: cst.LessThanEqual,
    ast.Gt: cst.GreaterThan,
    ast.GtE: cst.GreaterThanEqual,
    ast.Is: cst.Is,
    ast.IsNot: cst.IsNot,
    ast.In: cst.In,
    ast.NotIn: cst.NotIn,
}
_EXPRESSIONS: dict[type[ast.expr], Callable[[ExpressionLowering, Any], cst.BaseExpression]] = {
    ast.Name: ExpressionLowering._name,
    ast.Attribute: ExpressionLowering._attribute,
    ast.Call: ExpressionLowering._call,
    ast.Constant: ExpressionLowering._constant,
    ast.JoinedStr: ExpressionLowering._string,
    ast.Compare: ExpressionLowering._comparison,
    ast.BinOp: ExpressionLowering._binary,
    ast.BoolOp: ExpressionLowering._boolean,
    ast.UnaryOp: ExpressionLowering._unary,
    ast.Subscript: ExpressionLowering._subscript,
    ast.Starred: ExpressionLowering._starred,
    ast.Tuple: ExpressionLowering._tuple,
    ast.List: ExpressionLowering._list,
    ast.Set: ExpressionLowering._set,
    ast.Dict: ExpressionLowering._dict,
    ast.GeneratorExp: ExpressionLowering._comprehension,
    ast.ListComp: ExpressionLowering._comprehension,
    ast.SetComp: ExpressionLowering._comprehension,
    ast.DictComp: ExpressionLowering._dict_comprehension,
    ast.IfExp: ExpressionLowering._if_expression,
    ast.Await: ExpressionLowering._await,
    ast.Yield: ExpressionLowering._yield,
    ast.YieldFrom: ExpressionLowering._yield_from,
    ast.NamedExpr: ExpressionLowering._named,
    ast.Lambda: ExpressionLowering._lambda,
}
if hasattr(ast, "TemplateStr"):
    _EXPRESSIONS[ast.TemplateStr] = ExpressionLowering._opaque
