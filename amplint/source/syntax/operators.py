"""Operators, one node per use."""

from __future__ import annotations

from amplint.source.syntax.base import CSTNode


class BaseBinaryOp(CSTNode):
    """A binary operator."""


class BaseBooleanOp(CSTNode):
    """`and`, `or`"""


class BaseUnaryOp(CSTNode):
    """A unary operator."""


class BaseCompOp(CSTNode):
    """A comparison operator."""


class BaseAugOp(CSTNode):
    """An operator of an augmented assignment."""


class Add(BaseBinaryOp):
    """`+`"""


class Subtract(BaseBinaryOp):
    """`-`"""


class Multiply(BaseBinaryOp):
    """`*`"""


class Divide(BaseBinaryOp):
    """`/`"""


class FloorDivide(BaseBinaryOp):
    """`//`"""


class Modulo(BaseBinaryOp):
    """`%`"""


class Power(BaseBinaryOp):
    """`**`"""


class MatrixMultiply(BaseBinaryOp):
    """`@`"""


class LeftShift(BaseBinaryOp):
    """`<<`"""


class RightShift(BaseBinaryOp):
    """`>>`"""


class BitAnd(BaseBinaryOp):
    """`&`"""


class BitOr(BaseBinaryOp):
    """`|`"""


class BitXor(BaseBinaryOp):
    """`^`"""


class And(BaseBooleanOp):
    """`and`"""


class Or(BaseBooleanOp):
    """`or`"""


class Plus(BaseUnaryOp):
    """`+`"""


class Minus(BaseUnaryOp):
    """`-`"""


class BitInvert(BaseUnaryOp):
    """`~`"""


class Not(BaseUnaryOp):
    """`not`"""


class LessThan(BaseCompOp):
    """`<`"""


class GreaterThan(BaseCompOp):
    """`>`"""


class Equal(BaseCompOp):
    """`==`"""


class LessThanEqual(BaseCompOp):
    """`<=`"""


class GreaterThanEqual(BaseCompOp):
    """`>=`"""


class NotEqual(BaseCompOp):
    """`!=`"""


class In(BaseCompOp):
    """`in`"""


class Is(BaseCompOp):
    """`is`"""


class NotIn(BaseCompOp):
    """`not in`"""


class IsNot(BaseCompOp):
    """`is not`"""


class AddAssign(BaseAugOp):
    """`+=`"""


class SubtractAssign(BaseAugOp):
    """`-=`"""


class MultiplyAssign(BaseAugOp):
    """`*=`"""


class DivideAssign(BaseAugOp):
    """`/=`"""


class FloorDivideAssign(BaseAugOp):
    """`//=`"""


class ModuloAssign(BaseAugOp):
    """`%=`"""


class PowerAssign(BaseAugOp):
    """`**=`"""


class MatrixMultiplyAssign(BaseAugOp):
    """`@=`"""


class LeftShiftAssign(BaseAugOp):
    """`<<=`"""


class RightShiftAssign(BaseAugOp):
    """`>>=`"""


class BitAndAssign(BaseAugOp):
    """`&=`"""


class BitOrAssign(BaseAugOp):
    """`|=`"""


class BitXorAssign(BaseAugOp):
    """`^=`"""
