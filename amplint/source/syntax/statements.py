"""Statements and their parts."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.source.syntax.base import (
    Asynchronous,
    BaseCompoundStatement,
    BaseExpression,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    CSTNode,
)
from amplint.source.syntax.expressions import Annotation, Arg, Attribute, From, List, Name, Parameters, Tuple
from amplint.source.syntax.operators import BaseAugOp


class SimpleStatementLine(BaseStatement):
    """Small statements that share a line."""

    body: Sequence[BaseSmallStatement]


class IndentedBlock(BaseSuite):
    """A block with lines of its own."""

    body: Sequence[BaseStatement]


class SimpleStatementSuite(BaseSuite):
    """Small statements on the line of the colon."""

    body: Sequence[BaseSmallStatement]


class Del(BaseSmallStatement):
    """`del target`"""

    target: BaseExpression


class Pass(BaseSmallStatement):
    """`pass`"""


class Break(BaseSmallStatement):
    """`break`"""


class Continue(BaseSmallStatement):
    """`continue`"""


class Return(BaseSmallStatement):
    """`return value`"""

    value: BaseExpression | None


class Expr(BaseSmallStatement):
    """An expression statement."""

    value: BaseExpression


class AsName(CSTNode):
    """`as name`"""

    name: Name | Tuple | List


class ImportAlias(CSTNode):
    """`name as asname` of an import"""

    name: Attribute | Name
    asname: AsName | None


class ImportStar(CSTNode):
    """`*` of an import"""


class Import(BaseSmallStatement):
    """`import names`"""

    names: Sequence[ImportAlias]


class ImportFrom(BaseSmallStatement):
    """`from module import names`; `relative` are the dots before the module."""

    module: Attribute | Name | None
    names: Sequence[ImportAlias] | ImportStar
    relative: Sequence[str]


class AssignTarget(CSTNode):
    """`target =`"""

    target: BaseExpression


class Assign(BaseSmallStatement):
    """`... = ... = value`"""

    targets: Sequence[AssignTarget]
    value: BaseExpression


class AnnAssign(BaseSmallStatement):
    """`target: annotation = value`"""

    target: BaseExpression
    annotation: Annotation
    value: BaseExpression | None


class AugAssign(BaseSmallStatement):
    """`target += value`"""

    target: BaseExpression
    operator: BaseAugOp
    value: BaseExpression


class Raise(BaseSmallStatement):
    """`raise exc from ...`"""

    exc: BaseExpression | None
    cause: From | None


class Assert(BaseSmallStatement):
    """`assert test, msg`"""

    test: BaseExpression
    msg: BaseExpression | None


class NameItem(CSTNode):
    """A declared name."""

    name: Name


class Global(BaseSmallStatement):
    """`global names`"""

    names: Sequence[NameItem]


class Nonlocal(BaseSmallStatement):
    """`nonlocal names`"""

    names: Sequence[NameItem]


class Decorator(CSTNode):
    """`@decorator`"""

    decorator: BaseExpression


class TypeVar(CSTNode):
    """`name: bound`"""

    name: Name
    bound: BaseExpression | None


class TypeVarTuple(CSTNode):
    """`*name`"""

    name: Name


class ParamSpec(CSTNode):
    """`**name`"""

    name: Name


class TypeParam(CSTNode):
    """`param = default`"""

    param: TypeVar | TypeVarTuple | ParamSpec
    default: BaseExpression | None


class TypeParameters(CSTNode):
    """`[params]`"""

    params: Sequence[TypeParam]


class TypeAlias(BaseSmallStatement):
    """`type name[type_parameters] = value`"""

    name: Name
    value: BaseExpression
    type_parameters: TypeParameters | None


class FunctionDef(BaseCompoundStatement):
    """`def name(params) -> returns: body`"""

    name: Name
    params: Parameters
    body: BaseSuite
    decorators: Sequence[Decorator]
    returns: Annotation | None
    asynchronous: Asynchronous | None
    type_parameters: TypeParameters | None


class ClassDef(BaseCompoundStatement):
    """`class name(bases, keywords): body`"""

    name: Name
    body: BaseSuite
    bases: Sequence[Arg]
    keywords: Sequence[Arg]
    decorators: Sequence[Decorator]
    type_parameters: TypeParameters | None


class Else(CSTNode):
    """`else: body`"""

    body: BaseSuite


class Finally(CSTNode):
    """`finally: body`"""

    body: BaseSuite


class If(BaseCompoundStatement):
    """`if test: body`; `orelse` is an `If` for `elif`."""

    test: BaseExpression
    body: BaseSuite
    orelse: If | Else | None


class While(BaseCompoundStatement):
    """`while test: body`"""

    test: BaseExpression
    body: BaseSuite
    orelse: Else | None


class For(BaseCompoundStatement):
    """`for target in iter: body`"""

    target: BaseExpression
    iter: BaseExpression
    body: BaseSuite
    orelse: Else | None
    asynchronous: Asynchronous | None


class WithItem(CSTNode):
    """`item as asname`"""

    item: BaseExpression
    asname: AsName | None


class With(BaseCompoundStatement):
    """`with items: body`"""

    items: Sequence[WithItem]
    body: BaseSuite
    asynchronous: Asynchronous | None


class ExceptHandler(CSTNode):
    """`except type as name: body`"""

    body: BaseSuite
    type: BaseExpression | None
    name: AsName | None


class ExceptStarHandler(CSTNode):
    """`except* type as name: body`"""

    body: BaseSuite
    type: BaseExpression
    name: AsName | None


class Try(BaseCompoundStatement):
    """`try: body`"""

    body: BaseSuite
    handlers: Sequence[ExceptHandler]
    orelse: Else | None
    finalbody: Finally | None


class TryStar(BaseCompoundStatement):
    """`try: body` with `except*`"""

    body: BaseSuite
    handlers: Sequence[ExceptStarHandler]
    orelse: Else | None
    finalbody: Finally | None
