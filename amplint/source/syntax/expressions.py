"""Expressions and their parts."""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from typing import Any

from amplint.source.syntax.base import Asynchronous, BaseExpression, CSTNode
from amplint.source.syntax.operators import BaseBinaryOp, BaseBooleanOp, BaseCompOp, BaseUnaryOp


class BaseNumber(BaseExpression):
    """A numeric literal; `value` is its text."""

    value: str

    @property
    def evaluated_value(self) -> Any:
        """The number."""
        return self.at.value if isinstance(self.at, ast.Constant) else ast.literal_eval(self.value)


@functools.lru_cache(maxsize=4096)
def _evaluated(text: str) -> str | bytes:
    found: str | bytes = ast.literal_eval(text)
    return found


class BaseString(BaseExpression):
    """A string or bytes in any form."""


class BaseList(BaseExpression):
    """`[...]`"""


class BaseSet(BaseExpression):
    """`{...}`"""


class BaseDict(BaseExpression):
    """`{...: ...}`"""


class BaseComp(BaseExpression):
    """A comprehension or a generator expression."""

    for_in: CompFor


class BaseSimpleComp(BaseComp):
    """A comprehension other than that of a dictionary."""

    elt: BaseExpression
    for_in: CompFor


class Name(BaseExpression):
    """A variable, or one of the words `None`, `True` and `False`."""

    value: str


class Attribute(BaseExpression):
    """`value.attr`"""

    value: BaseExpression
    attr: Name


class Ellipsis(BaseExpression):
    """`...`"""


class Integer(BaseNumber):
    """`1`"""


class Float(BaseNumber):
    """`1.0`"""


class Imaginary(BaseNumber):
    """`1j`"""


class SimpleString(BaseString):
    """A single string that is no f-string; `value` is its text with prefix and quotes."""

    value: str

    @property
    def evaluated_value(self) -> str | bytes:
        """The value of the literal."""
        return _evaluated(self.value)

    @property
    def quote(self) -> str:
        """The quotes around it."""
        text = self.value.lstrip("rRbBuUfF")
        return text[:3] if text[:3] in ('"' * 3, "'" * 3) else text[:1]

    @property
    def raw_value(self) -> str:
        """The text between the quotes."""
        width = len(self.quote)
        return self.value.lstrip("rRbBuUfF")[width:-width]


class FormattedStringText(CSTNode):
    """Literal text of an f-string; `value` is the text."""

    value: str


class FormattedStringExpression(CSTNode):
    """`{expression!conversion:format_spec}`"""

    expression: BaseExpression
    conversion: str | None
    format_spec: Sequence[FormattedStringText | FormattedStringExpression] | None


class FormattedString(BaseString):
    """An f-string; `start` and `end` are its quotes, the former with the prefix."""

    parts: Sequence[FormattedStringText | FormattedStringExpression]
    start: str
    end: str

    @property
    def quote(self) -> str:
        """The quotes around it."""
        return self.end


class ConcatenatedString(BaseString):
    """Adjacent string literals: the first, and all others."""

    left: SimpleString | FormattedString
    right: SimpleString | FormattedString | ConcatenatedString

    @property
    def evaluated_value(self) -> str | bytes | None:
        """The concatenated value; None with an f-string among them."""
        if isinstance(self.left, FormattedString) or isinstance(self.right, FormattedString):
            return None
        left, right = self.left.evaluated_value, self.right.evaluated_value
        return None if right is None else left + right  # type: ignore[operator]


class ComparisonTarget(CSTNode):
    """`operator comparator`"""

    operator: BaseCompOp
    comparator: BaseExpression


class Comparison(BaseExpression):
    """`left < ... < ...`"""

    left: BaseExpression
    comparisons: Sequence[ComparisonTarget]


class UnaryOperation(BaseExpression):
    """`-expression`, `not expression`"""

    operator: BaseUnaryOp
    expression: BaseExpression


class BinaryOperation(BaseExpression):
    """`left + right`"""

    left: BaseExpression
    operator: BaseBinaryOp
    right: BaseExpression


class BooleanOperation(BaseExpression):
    """`left and right`; of three operands the first two are `left`."""

    left: BaseExpression
    operator: BaseBooleanOp
    right: BaseExpression


class BaseSlice(CSTNode):
    """The content of a subscript's brackets."""


class Index(BaseSlice):
    """An index; `star` is `*` for `x[*indices]`."""

    value: BaseExpression
    star: str | None


class Slice(BaseSlice):
    """`lower:upper:step`"""

    lower: BaseExpression | None
    upper: BaseExpression | None
    step: BaseExpression | None


class SubscriptElement(CSTNode):
    """One index or slice of several."""

    slice: BaseSlice


class Subscript(BaseExpression):
    """`value[slice]`"""

    value: BaseExpression
    slice: Sequence[SubscriptElement]


class Annotation(CSTNode):
    """`: annotation`, `-> annotation`"""

    annotation: BaseExpression


class ParamStar(CSTNode):
    """The `*` before keyword-only parameters."""


class Param(CSTNode):
    """A parameter; `star` is empty, `*` or `**`."""

    name: Name
    annotation: Annotation | None
    default: BaseExpression | None
    star: str


class Parameters(CSTNode):
    """The parameters of a function or lambda."""

    params: Sequence[Param]
    star_arg: Param | ParamStar | None
    kwonly_params: Sequence[Param]
    star_kwarg: Param | None
    posonly_params: Sequence[Param]


class Lambda(BaseExpression):
    """`lambda params: body`"""

    params: Parameters
    body: BaseExpression


class Arg(CSTNode):
    """An argument; `star` is empty, `*` or `**`."""

    value: BaseExpression
    keyword: Name | None
    star: str


class Call(BaseExpression):
    """`func(*args)`"""

    func: BaseExpression
    args: Sequence[Arg]


class Await(BaseExpression):
    """`await expression`"""

    expression: BaseExpression


class IfExp(BaseExpression):
    """`body if test else orelse`"""

    test: BaseExpression
    body: BaseExpression
    orelse: BaseExpression


class From(CSTNode):
    """`from item`, of `yield` and `raise`"""

    item: BaseExpression


class Yield(BaseExpression):
    """`yield value`"""

    value: BaseExpression | From | None


class BaseElement(CSTNode):
    """An item of a list, tuple or set."""

    value: BaseExpression


class Element(BaseElement):
    """A plain item."""


class StarredElement(BaseElement, BaseExpression):
    """`*value`"""


class BaseDictElement(CSTNode):
    """An item of a dictionary."""

    value: BaseExpression


class DictElement(BaseDictElement):
    """`key: value`"""

    key: BaseExpression
    value: BaseExpression


class StarredDictElement(BaseDictElement):
    """`**value`"""


class Tuple(BaseExpression):
    """`elements`, in parentheses or without"""

    elements: Sequence[BaseElement]


class List(BaseList):
    """`[elements]`"""

    elements: Sequence[BaseElement]


class Set(BaseSet):
    """`{elements}`"""

    elements: Sequence[BaseElement]


class Dict(BaseDict):
    """`{elements}`"""

    elements: Sequence[BaseDictElement]


class CompIf(CSTNode):
    """`if test` in a comprehension"""

    test: BaseExpression


class CompFor(CSTNode):
    """`for target in iter` in a comprehension, with what follows it"""

    target: BaseExpression
    iter: BaseExpression
    ifs: Sequence[CompIf]
    inner_for_in: CompFor | None
    asynchronous: Asynchronous | None


class GeneratorExp(BaseSimpleComp):
    """`(elt for_in)`; an only argument needs no parentheses."""


class ListComp(BaseList, BaseSimpleComp):
    """`[elt for_in]`"""

    elt: BaseExpression
    for_in: CompFor


class SetComp(BaseSet, BaseSimpleComp):
    """`{elt for_in}`"""

    elt: BaseExpression
    for_in: CompFor


class DictComp(BaseDict, BaseComp):
    """`{key: value for_in}`"""

    key: BaseExpression
    value: BaseExpression
    for_in: CompFor


class NamedExpr(BaseExpression):
    """`target := value`"""

    target: BaseExpression
    value: BaseExpression
