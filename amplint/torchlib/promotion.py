"""PyTorch's type promotion of operands with different dtypes.

Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from amplint.records import dataclass

FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGRAL = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64"})
SOME_DIMENSIONS = -1
"""The rank of a tensor that has at least one dimension."""
NUMBER = -2
"""The rank of a Python number, which widens a dtype only by its kind."""
_DIMENSIONED, _ZERO_DIMENSIONS, _NUMBER = range(3)
_INTEGERS = ("bool", "int8", "int16", "int32", "int64")


@dataclass(frozen=True, slots=True)
class Typed:
    """An operand's possible dtypes, None for any, and its rank, None if unknown.

    `supposed` dtypes are those it has if the tensors it is computed from are of a kind that autocast casts.
    """

    dtypes: frozenset[str] | None
    rank: int | None = None
    supposed: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """One possibility for an operand: its dtype, and whether it is a tensor, a zero-dimensional one, or a number."""

    dtype: str
    category: int

    @classmethod
    def dimensioned(cls, dtype: str) -> Operand:
        """A tensor with dimensions."""
        return cls(dtype, _DIMENSIONED)

    @property
    def is_number(self) -> bool:
        """Whether it is a Python number."""
        return self.category == _NUMBER

    @property
    def is_castable(self) -> bool:
        """Whether autocast casts it: tensors of floating dtypes but float64."""
        return not self.is_number and self.dtype in FLOATING and self.dtype != "float64"


def possible_operands(operand: Typed) -> list[Operand]:
    """The possible operands; empty if the dtype can be anything."""
    if operand.rank is None:
        categories = [_DIMENSIONED, _ZERO_DIMENSIONS]
    else:
        categories = [{NUMBER: _NUMBER, 0: _ZERO_DIMENSIONS}.get(operand.rank, _DIMENSIONED)]
    return [Operand(*one) for one in itertools.product(sorted(operand.dtypes or ()), categories)]


def promote(left: str, right: str) -> str:
    """The smallest dtype to which both can be promoted."""
    if left == right:
        return left
    if left in FLOATING and right in FLOATING:
        halves = {left, right} == {"float16", "bfloat16"}
        return "float32" if halves else max(left, right, key=FLOATING.index)
    if left in FLOATING or right in FLOATING:
        return left if left in FLOATING else right
    if "uint8" in (left, right):
        other = left if right == "uint8" else right
        return {"bool": "uint8", "int8": "int16"}.get(other, other)
    return max(left, right, key=_INTEGERS.index)


def result_type(operands: Iterable[Operand]) -> str:
    """The dtype of an elementwise operation on `operands`, at least one.

    Zero-dimensional tensors, and numbers below them, widen it only to another kind: integers to floating.
    """
    found: dict[int, str] = {}
    for operand in operands:
        known = found.get(operand.category)
        found[operand.category] = operand.dtype if known is None else promote(known, operand.dtype)
    result: str | None = None
    for category in (_NUMBER, _ZERO_DIMENSIONS, _DIMENSIONED):
        if category in found:
            result = found[category] if result is None else _combined(found[category], result)
    assert result is not None
    return result


def _combined(higher: str, lower: str) -> str:
    """The dtype of a higher category, combined with one of a lower category."""
    if higher in FLOATING:
        return higher
    return promote(higher, lower) if higher == "bool" or lower in FLOATING else higher


def can_hold(kept: str, result: str) -> bool:
    """Whether PyTorch can write a result of dtype `result` into a tensor of dtype `kept`."""
    if result in FLOATING:
        return kept in FLOATING
    return kept != "bool" or result == "bool"
