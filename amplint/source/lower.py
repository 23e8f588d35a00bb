"""Lowering of Python's `ast` to nodes of `syntax`: statements."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import Any

from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.layout import Layout
from amplint.source.lower_expressions import new
from amplint.source.lower_patterns import PatternLowering

_SEPARATED = regex(r"[ \t\f]*;(?:[ \t\f]|\\(?:\r\n|\r|\n))*")
_CONTINUED = regex(r"[ \t\f]*(?:\\(?:\r\n|\r|\n)[ \t\f]*)*")


class Lowering(PatternLowering):
    """Lowers the `ast` of the text of `layout`."""

    def module(self, statements: Sequence[ast.stmt]) -> cst.Module:
        """The tree of some top-level statements."""
        node = new(cst.Module)
        node.at = None
        node.body = self._lines(statements)
        return node

    def _lines(self, statements: Sequence[ast.stmt]) -> list[cst.BaseStatement]:
        """The statements, grouped by line."""
        found: list[cst.BaseStatement] = []
        line: cst.SimpleStatementLine | None = None
        ended: ast.stmt | None = None
        for statement in statements:
            compound = _COMPOUND.get(type(statement))
            if compound is not None:
                found.append(compound(self, statement))
                line = None
                continue
            small = _SMALL[type(statement)](self, statement)
            if line is not None and ended is not None and self._same_line(ended, statement):
                line.body.append(small)  # type: ignore[attr-defined]
            else:
                line = new(cst.SimpleStatementLine)
                line.at = None
                line.body = [small]
                found.append(line)
            ended = statement
        return found

    def _same_line(self, one: ast.stmt, other: ast.stmt) -> bool:
        """Whether a small statement follows another one on the same logical line."""
        row = one.end_lineno or one.lineno
        if other.lineno == row:
            return True
        if not _ends_joined(self.layout.text, self.layout.starts[row]):
            return False
        start = self.layout.offset(row, one.end_col_offset or 0)
        end = self.layout.offset(other.lineno, other.col_offset)
        return _SEPARATED.fullmatch(self.layout.text, start, end) is not None

    def _suite(self, statements: Sequence[ast.stmt]) -> cst.BaseSuite:
        first = statements[0]
        small = _SMALL.get(type(first))
        if small is not None and self._continues(first):
            suite = new(cst.SimpleStatementSuite)
            suite.at = None
            suite.body = [_SMALL[type(each)](self, each) for each in statements]
            return suite
        block = new(cst.IndentedBlock)
        block.at = None
        block.body = self._lines(statements)
        return block

    def _continues(self, statement: ast.stmt) -> bool:
        """Whether a small statement is on the line of the colon before it."""
        start = self.layout.starts[statement.lineno - 1]
        text = self.layout.text
        before = text[start : start + statement.col_offset]
        if before and not before.isspace():
            return True
        if not _ends_joined(text, start):
            return False
        last = self.layout.before(self.layout.offset(statement.lineno, statement.col_offset))
        return _CONTINUED.fullmatch(text, last + 1, start + statement.col_offset) is not None

    def _if(self, n: ast.If) -> cst.If:
        node = new(cst.If)
        node.at = n
        node.test = self.expression(n.test)
        node.body = self._suite(n.body)
        orelse = n.orelse
        if not orelse:
            node.orelse = None
        elif type(orelse[0]) is ast.If and len(orelse) == 1 and self._is_elif(orelse[0]):
            node.orelse = self._if(orelse[0])
        else:
            node.orelse = self._else(orelse)
        return node

    def _is_elif(self, n: ast.If) -> bool:
        return self.layout.text.startswith("elif", self.layout.offset(n.lineno, n.col_offset))

    def _else(self, statements: Sequence[ast.stmt]) -> cst.Else | None:
        if not statements:
            return None
        node = new(cst.Else)
        node.at = None
        node.body = self._suite(statements)
        return node

    def _while(self, n: ast.While) -> cst.While:
        node = new(cst.While)
        node.at = n
        node.test = self.expression(n.test)
        node.body = self._suite(n.body)
        node.orelse = self._else(n.orelse)
        return node

    def _for(self, n: ast.For | ast.AsyncFor) -> cst.For:
        node = new(cst.For)
        node.at = n
        node.target = self.expression(n.target)
        node.iter = self.expression(n.iter)
        node.body = self._suite(n.body)
        node.orelse = self._else(n.orelse)
        node.asynchronous = cst.Asynchronous() if type(n) is ast.AsyncFor else None
        return node

    def _with(self, n: ast.With | ast.AsyncWith) -> cst.With:
        node = new(cst.With)
        node.at = n
        items = []
        for each in n.items:
            item = new(cst.WithItem)
            item.at = None
            item.item = self.expression(each.context_expr)
            item.asname = None if each.optional_vars is None else _as(self.expression(each.optional_vars))
            items.append(item)
        node.items = items
        node.body = self._suite(n.body)
        node.asynchronous = cst.Asynchronous() if type(n) is ast.AsyncWith else None
        return node

    def _try(self, n: Any) -> cst.Try | cst.TryStar:
        starred = type(n) is not ast.Try
        node: Any = new(cst.TryStar if starred else cst.Try)
        node.at = n
        node.body = self._suite(n.body)
        node.handlers = [self._handler(each, starred) for each in n.handlers]
        node.orelse = self._else(n.orelse)
        node.finalbody = None
        if n.finalbody:
            node.finalbody = new(cst.Finally)
            node.finalbody.at = None
            node.finalbody.body = self._suite(n.finalbody)
        return node  # type: ignore[no-any-return]

    def _handler(self, n: ast.ExceptHandler, starred: bool) -> cst.ExceptHandler | cst.ExceptStarHandler:
        node: Any = new(cst.ExceptStarHandler if starred else cst.ExceptHandler)
        node.at = n
        node.body = self._suite(n.body)
        node.type = None if n.type is None else self.expression(n.type)
        node.name = None if n.name is None else _as(self.name(n, n.name))
        return node  # type: ignore[no-any-return]

    def _function(self, n: ast.FunctionDef | ast.AsyncFunctionDef) -> cst.FunctionDef:
        node = new(cst.FunctionDef)
        node.at = n
        node.name = self.name(n, n.name)
        node.params = self.parameters(n.args)
        node.body = self._suite(n.body)
        node.decorators = self._decorators(n.decorator_list)
        node.returns = self.annotation(n.returns)
        node.asynchronous = cst.Asynchronous() if type(n) is ast.AsyncFunctionDef else None
        node.type_parameters = self._type_parameters(n)
        return node

    def _class(self, n: ast.ClassDef) -> cst.ClassDef:
        node = new(cst.ClassDef)
        node.at = n
        node.name = self.name(n, n.name)
        node.body = self._suite(n.body)
        arguments = self.arguments(n.bases, n.keywords)
        first = next((i for i, each in enumerate(arguments) if each.keyword or each.star == "**"), len(arguments))
        node.bases = arguments[:first]
        node.keywords = arguments[first:]
        node.decorators = self._decorators(n.decorator_list)
        node.type_parameters = self._type_parameters(n)
        return node

    def _decorators(self, found: Sequence[ast.expr]) -> list[cst.Decorator]:
        decorators = []
        for each in found:
            node = new(cst.Decorator)
            node.at = None
            node.decorator = self.expression(each)
            decorators.append(node)
        return decorators

    def _type_parameters(self, n: Any) -> cst.TypeParameters | None:
        found = getattr(n, "type_params", None)
        if not found:
            return None
        params = []
        for each in found:
            param: Any = new(getattr(cst, type(each).__name__))
            param.at = each
            param.name = self.name(each, each.name)
            if isinstance(param, cst.TypeVar):
                param.bound = self._optional(each.bound)
            holder = new(cst.TypeParam)
            holder.at = None
            holder.param = param
            holder.default = self._optional(getattr(each, "default_value", None))
            params.append(holder)
        node = new(cst.TypeParameters)
        node.at = None
        node.params = params
        return node

    def _type_alias(self, n: Any) -> cst.TypeAlias:
        node = new(cst.TypeAlias)
        node.at = n
        node.name = self.expression(n.name)  # type: ignore[assignment]
        node.value = self.expression(n.value)
        node.type_parameters = self._type_parameters(n)
        return node

    def _assign(self, n: ast.Assign) -> cst.Assign:
        node = new(cst.Assign)
        node.at = n
        targets = []
        for each in n.targets:
            target = new(cst.AssignTarget)
            target.at = None
            target.target = self.expression(each)
            targets.append(target)
        node.targets = targets
        node.value = self.expression(n.value)
        return node

    def _ann_assign(self, n: ast.AnnAssign) -> cst.AnnAssign:
        node = new(cst.AnnAssign)
        node.at = n
        node.target = self.expression(n.target)
        node.annotation = self.annotation(n.annotation)  # type: ignore[assignment]
        node.value = self._optional(n.value)
        return node

    def _aug_assign(self, n: ast.AugAssign) -> cst.AugAssign:
        node = new(cst.AugAssign)
        node.at = n
        node.target = self.expression(n.target)
        node.operator = _leaf(_AUGMENTING[type(n.op)])
        node.value = self.expression(n.value)
        return node

    def _expr(self, n: ast.Expr) -> cst.Expr:
        node = new(cst.Expr)
        node.at = n
        node.value = self.expression(n.value)
        return node

    def _return(self, n: ast.Return) -> cst.Return:
        node = new(cst.Return)
        node.at = n
        node.value = self._optional(n.value)
        return node

    def _raise(self, n: ast.Raise) -> cst.Raise:
        node = new(cst.Raise)
        node.at = n
        node.exc = self._optional(n.exc)
        node.cause = None
        if n.cause is not None:
            node.cause = new(cst.From)
            node.cause.at = None
            node.cause.item = self.expression(n.cause)
        return node

    def _assert(self, n: ast.Assert) -> cst.Assert:
        node = new(cst.Assert)
        node.at = n
        node.test = self.expression(n.test)
        node.msg = self._optional(n.msg)
        return node

    def _delete(self, n: ast.Delete) -> cst.Del:
        node = new(cst.Del)
        node.at = n
        layout, last = self.layout, n.targets[-1]
        end = layout.offset(n.end_lineno or 0, n.end_col_offset or 0)
        if len(n.targets) == 1 and layout.text[layout.before(end)] != ",":
            node.target = self.expression(last)
            return node
        bare = new(cst.Tuple)
        start = layout.after(layout.offset(n.lineno, n.col_offset) + len("del"))
        bare.at = (start, end)
        bare.elements = [self.element(each) for each in n.targets]
        node.target = bare
        return node

    def _import(self, n: ast.Import) -> cst.Import:
        node = new(cst.Import)
        node.at = n
        node.names = [self._alias(each) for each in n.names]
        return node

    def _import_from(self, n: ast.ImportFrom) -> cst.ImportFrom:
        node = new(cst.ImportFrom)
        node.at = n
        node.relative = ["."] * n.level
        node.module = None if n.module is None else self._dotted(n, n.module, 1)
        if n.names[0].name == "*":
            node.names = star = new(cst.ImportStar)
            star.at = n.names[0]
        else:
            node.names = [self._alias(each) for each in n.names]
        return node

    def _alias(self, n: ast.alias) -> cst.ImportAlias:
        node = new(cst.ImportAlias)
        node.at = n
        node.name = self._dotted(n, n.name, 0)
        node.asname = None
        if n.asname is not None:
            place = n.name.count(".") + 2
            node.asname = _as(self._word(n, n.asname, place))
        return node

    def _dotted(self, anchor: ast.AST, name: str, first: int) -> cst.Attribute | cst.Name:
        """The chain of names in `anchor`, from the word with index `first` on."""
        words = name.split(".")
        found: cst.Attribute | cst.Name = self._word(anchor, words[0], first)
        for place, word in enumerate(words[1:], first + 1):
            chain = new(cst.Attribute)
            chain.at = (anchor, 0, first, place)
            chain.value = found
            chain.attr = self._word(anchor, word, place)
            found = chain
        return found

    def _word(self, anchor: ast.AST, word: str, place: int) -> cst.Name:
        node = new(cst.Name)
        node.at = (anchor, 0, place, place)
        node.value = word if word.isascii() else self.written(node)
        return node

    def _names(self, n: ast.Global | ast.Nonlocal) -> cst.Global | cst.Nonlocal:
        node: Any = new(cst.Global if type(n) is ast.Global else cst.Nonlocal)
        node.at = n
        items = []
        for place, word in enumerate(n.names, 1):
            item = new(cst.NameItem)
            item.at = None
            item.name = self._word(n, word, place)
            items.append(item)
        node.names = items
        return node  # type: ignore[no-any-return]

    def _keyword(self, n: ast.stmt) -> cst.BaseSmallStatement:
        node = new(_KEYWORDS[type(n)])
        node.at = n
        return node

    def _match(self, n: ast.Match) -> cst.Match:
        node = new(cst.Match)
        node.at = n
        node.subject = self.expression(n.subject)
        cases = []
        for each in n.cases:
            case = new(cst.MatchCase)
            case.at = None
            case.pattern = self.pattern(each.pattern)
            case.body = self._suite(each.body)
            case.guard = self._optional(each.guard)
            cases.append(case)
        node.cases = cases
        return node

    def _optional(self, n: ast.expr | None) -> cst.BaseExpression | None:
        return None if n is None else self.expression(n)


def parse_expression(text: str) -> cst.BaseExpression:
    """The tree of a stand-alone expression. Raises SyntaxError."""
    return Lowering(Layout(text)).expression(ast.parse(text, mode="eval").body)


def _as(name: Any) -> cst.AsName:
    node = new(cst.AsName)
    node.at = None
    node.name = name
    return node


def _leaf(kind: type[Any]) -> Any:
    node = new(kind)
    node.at = None
    return node


def _ends_joined(text: str, end: int) -> bool:
    """Whether the row that ends at `end` is, or looks, joined with the next one."""
    return end > 1 and text[end - 1] in "\r\n" and (text[end - 2] == "\\" or text[end - 3 : end] == "\\\r\n")


_KEYWORDS: dict[type[ast.stmt], type[cst.BaseSmallStatement]] = {
    ast.Pass: cst.Pass,
    ast.Break: cst.Break,
    ast.Continue: cst.Continue,
}
_AUGMENTING: dict[type[ast.operator], type[cst.BaseAugOp]] = {
    ast.Add: cst.AddAssign,
    ast.Sub: cst.SubtractAssign,
    ast.Mult: cst.MultiplyAssign,
    ast.Div: cst.DivideAssign,
    ast.FloorDiv: cst.FloorDivideAssign,
    ast.Mod: cst.ModuloAssign,
    ast.Pow: cst.PowerAssign,
    ast.MatMult: cst.MatrixMultiplyAssign,
    ast.LShift: cst.LeftShiftAssign,
    ast.RShift: cst.RightShiftAssign,
    ast.BitAnd: cst.BitAndAssign,
    ast.BitOr: cst.BitOrAssign,
    ast.BitXor: cst.BitXorAssign,
}
_SMALL: dict[type[ast.stmt], Callable[[Lowering, Any], cst.BaseSmallStatement]] = {
    ast.Expr: Lowering._expr,
    ast.Assign: Lowering._assign,
    ast.AnnAssign: Lowering._ann_assign,
    ast.AugAssign: Lowering._aug_assign,
    ast.Return: Lowering._return,
    ast.Raise: Lowering._raise,
    ast.Assert: Lowering._assert,
    ast.Delete: Lowering._delete,
    ast.Import: Lowering._import,
    ast.ImportFrom: Lowering._import_from,
    ast.Global: Lowering._names,
    ast.Nonlocal: Lowering._names,
    ast.Pass: Lowering._keyword,
    ast.Break: Lowering._keyword,
    ast.Continue: Lowering._keyword,
}
_COMPOUND: dict[type[ast.stmt], Callable[[Lowering, Any], cst.BaseCompoundStatement]] = {
    ast.If: Lowering._if,
    ast.For: Lowering._for,
    ast.AsyncFor: Lowering._for,
    ast.While: Lowering._while,
    ast.With: Lowering._with,
    ast.AsyncWith: Lowering._with,
    ast.Try: Lowering._try,
    ast.FunctionDef: Lowering._function,
    ast.AsyncFunctionDef: Lowering._function,
    ast.ClassDef: Lowering._class,
    ast.Match: Lowering._match,
}
if sys.version_info >= (3, 11):
    _COMPOUND[ast.TryStar] = Lowering._try
if sys.version_info >= (3, 12):
    _SMALL[ast.TypeAlias] = Lowering._type_alias
