"""Seams between dtypes: half tensors that meet something which does not take them."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.events.operations import Operand
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ToNumpy(Event):
    """`operand`, which is or can be half, is passed to NumPy by its method `numpy` or the function `by`."""

    operand: Operand
    by: str = "numpy"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Narrowed(Event):
    """What a join of tensors made is converted `by` a call to half, or to the dtype of another tensor."""

    by: cst.Call


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ConversionDiscarded(Event):
    """The statement at `node` converts a tensor, to `dtype` if that is known, and does not keep the result.

    The tensor `is_parameter` where it is one of a module, which refuses a plain tensor in its place.
    """

    dtype: str | None
    is_parameter: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfRefused(Event):
    """`op`, which PyTorch does not have for these half dtypes, runs on `operand`, which is or can be of one of them.

    `late` is the conversion of the result to float32, where that is the evidence that the operand can be half.
    `if_small` means that PyTorch has it for large operands: `cdist` computes more than 25 rows by a matrix product.
    """

    op: str
    operand: Operand
    late: cst.Call | None = None
    if_small: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InputUnconverted(Event):
    """The input at `node` is not converted to the dtype of the `model` that it is for, which code at `beside` reads.

    Without a `model` it is an item of a batch, of which `beside` converts another one to a dtype that is chosen.
    """

    model: str
    beside: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ParameterApart(Event):
    """The parameter or layer that `made` creates has the size of the given `layer` and not its dtype."""

    made: cst.Call
    layer: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LiftedResult(Event):
    """What a function returns at `node` is float32 by `converted`, the conversion of an argument, and stays so.

    `because` says why it is meant to have the dtype of the argument.
    """

    converted: cst.Call
    because: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FixedHalf(Event):
    """`op` refuses unequal dtypes and meets `half`, which is half in any case, beside an operand of unknown dtype."""

    op: str
    half: Operand


@dataclass(frozen=True, kw_only=True)
class Clash(Event):
    """`op` meets `steady`, float32 or of the dtype that its module has, and `half`, if that is half.

    `refusal` says why PyTorch raises then; where it does not, the result is float32. `converted` is the conversion that
    makes `steady` float32, if one does, beside another that follows the dtype of a tensor. An unseen caller made it
    (`from_caller`), or it is computed from statistics that its module has `kept`.
    """

    op: str
    steady: Operand
    half: Operand
    refusal: str | None
    converted: cst.Call | None = None
    from_caller: bool = False
    kept: bool = False
