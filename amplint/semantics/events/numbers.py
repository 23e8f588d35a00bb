"""Numbers that meet tensors, and conversions to half."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.events.operations import Evidence
from amplint.semantics.values.values import Autocast, Number, Tensor, Value
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TensorOp(Event):
    """A tensor operation by PyTorch's name (`masked_fill`, `softmax`) or its operator's (`Add`, `Multiply`).

    `tensor` is the operand that decides. Where a Python number beyond what float16 holds meets it, `number` is that
    number; for `softmax` and `Subtract` it can be the infinity the operand was filled with. Such events come only where
    the tensor can be float16: `why` says so and `half` is where that began. `module` is where the `torch.nn` object was
    made that runs the operation, and `arguments` what it is called with.
    """

    op: str
    tensor: Tensor
    number: Number | None = None
    why: str = ""
    half: cst.CSTNode | None = None
    arguments: tuple[tuple[cst.Arg, Value], ...] = ()
    module: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FarConstant(Event):
    """A constant of another file, nearly infinite by its `name`, is put into what can be float16, at `place`."""

    name: str
    place: cst.BaseExpression


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StaysHalf(Event):
    """An operation runs in the region `off`, begun by `off_with`, on nothing but what came into it unconverted.

    `place` is the operand, whose variable the region mentions at `first`. It is `certain` to be half since `half`, or
    may be, where the caller has `given` it or where other values are converted in the same statement (`Index.lifted`).
    A layer has `refused` it, since its weights are float32.
    """

    op: str
    place: cst.BaseExpression
    first: cst.BaseExpression
    certain: bool
    given: bool
    off: Autocast
    off_with: cst.CSTNode
    half: cst.CSTNode | None
    refused: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InputsStayHalf(Event):
    """The region or function `off` switches autocast off and computes with `name` unconverted.

    It converts nothing, and `node` switches autocast off, or other results `beside`, and `node` is what it passes on.
    """

    name: str
    off: cst.With | cst.FunctionDef
    beside: cst.BaseExpression | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CastBack(Event):
    """A matrix product runs under autocast on nothing but tensors that were converted to float32, some from half.

    It is `assumed` that a region of the caller is on where no region is in visible code: the result is then converted
    back.
    """

    op: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RandomCompared(Event):
    """Random numbers between 0 and 1 that were drawn in `dtype`, for the reason `half`, are compared.

    A `dtype` of None is that of another tensor, which can be half.
    """

    dtype: str | None
    half: Evidence


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AnglesCast(Event):
    """A matrix product makes angles, of positions and frequencies, in a function that does not switch autocast off."""

    op: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PositionsConverted(Event):
    """Positions are cast to the dtype of another tensor; `by` multiplies them by frequencies afterwards."""

    by: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FrequenciesRounded(Event):
    """Frequencies are computed in half or rounded to it; `by` multiplies positions by them afterwards.

    `follows` says that their dtype is that of another tensor or an argument, `few` that the positions are rows or
    columns of an image.
    """

    half: Evidence
    by: cst.CSTNode
    follows: bool
    few: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TimestepsCast(Event):
    """The timesteps of a diffusion model are converted to bfloat16, or to the dtype of another tensor."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfCast(Event):
    """A tensor is converted to a half dtype that is written out; `dtype` is that dtype.

    `stored` means that it leaves the GPU right before or behind, so that it is kept rather than computed with.
    """

    dtype: str
    stored: bool
