"""Events about single tensor operations: which dtypes meet, why a value is half, what the result is."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Set

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst

SQUARES = "squares"
"""Products of a tensor with itself."""
LIFTED_SQUARES = "squares that autocast computes in float32"
"""Squares by a power, computed outside of layers, whose model alone would have to be half."""
LENGTHS = "lengths"
"""Norms, and what they are multiplied by."""
LENGTH_PRODUCTS = "products of lengths"
"""Products of two norms, or the square of one."""
SCORES = "scores"
"""Products of all rows of one tensor with all rows of another."""
SCALED_LATE = "scaled late"
"""Such products, divided afterwards by what is to keep them small."""
INTEGERS = "integers"
"""Positions, indices and counts, which may be more than float16 and bfloat16 can distinguish."""
COORDINATES = "coordinates"
"""Positions that the function which makes them turns into a grid or into angles."""
UNIFORM = "uniform"
"""Random numbers between 0 and 1, drawn in the dtype of the tensor."""
FREQUENCIES = "frequencies"
"""Powers of a base, one for each channel, that positions are multiplied by."""
SIDES = "sides"
"""Whole numbers that float16 holds exactly, such as those up to the height or width of an image."""
USUALLY_FEW = "usually few"
"""A range that is short enough for bfloat16 by the defaults of parameters."""
PAST = {"bfloat16": "past 256", "float16": "past 2048"}
"""Dtype -> whole numbers known to go past what it counts exactly."""
ANGLES = "angles"
"""Positions times frequencies."""
FLAGS = "flags"
"""Zeros and ones, converted from a mask: what adds them up counts."""
INVERTED = "inverted"
"""What is left of 1: of a mask, the other elements."""
ONE = "one"
"""Nothing but ones."""
ZEROS = "zeros"
"""Made of zeros, into which nothing but whole numbers has been put since."""


class Because(enum.Enum):
    """Why a value is half, the most certain first.

    ANNOUNCED means that the code around only provides for it, ASSUMED that there is no evidence and the rule was
    selected explicitly.
    """

    CAST = "cast"
    PARAMETERS = "parameters"
    POLICY = "policy"
    REGION = "region"
    ANNOUNCED = "announced"
    ASSUMED = "assumed"


class How(enum.Enum):
    """What shows that an operation should run in float32 although nothing converts what goes into it."""

    HALF = "its input is half"
    CONVERTED_BACK = "its result is converted to the dtype of another tensor"
    WEIGHT = "its input is a parameter of the module, which is converted with it"
    ROUTING = "its result chooses among experts"
    OUTPUT = "its input comes out of something that is converted to half"
    GRADIENT = "its input is a gradient, in the dtype of parameters that the function is given"
    KERNEL = "it is a zero that a kernel adds gradients to in the backward pass of a custom function"
    BACKWARD = "it adds up gradients in the backward pass of a custom function"
    ELSEWHERE = "another branch converts the same tensor to float32"
    NARROWED = "its input was float32, and is converted back before it"
    DRAWN = "its result, probabilities, is added up or drawn from"
    CANCELS = "it takes the square of a mean from a mean of squares"
    AREA = "it multiplies the sides of a box"
    OWN_SUM = "it divides weights by their own sum"
    COMPLEMENT = "its result, a probability, is taken from 1 for a power or a logarithm"
    COMPARED = "its result goes into a divergence of distributions, or is a probability whose logarithm is taken"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a value is, or can be, half.

    `dtypes` are the half dtypes it can have, `text` describes the event at `node`, where it became half. It is none but
    for the `guesses`.
    """

    because: Because
    dtypes: Set[str]
    text: str
    node: cst.CSTNode | None
    guesses: tuple[Guessed, ...] = ()


@dataclass(frozen=True, slots=True)
class Operand:
    """What goes into an operation: its expression, its value, and why it is half, None if nothing says so.

    `made` is the call that made it without being asked for a dtype.
    """

    node: cst.BaseExpression
    value: Value
    half: Evidence | None = None
    made: cst.Call | None = None

    @property
    def dtype(self) -> str | None:
        """The dtype of a tensor, None if it is unknown or this is no tensor."""
        return self.value.dtype if isinstance(self.value, Tensor) else None


def best(operands: Iterable[Operand]) -> Evidence | None:
    """The evidence of the first operand that is half, one that is assumed to be only where there is no other."""
    found = [operand.half for operand in operands if operand.half is not None]
    return min(found, key=lambda half: half.because is Because.ASSUMED, default=None)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Operation(Event):
    """A tensor operation runs: a function, method or operator, or the call of a `torch.nn` object.

    `op` is the operation's plain name (`matmul` for `@`, `linear` for a `Linear`, `add` for `+` and `add_`). `operands`
    are the tensors and numbers that go into it, the object of a method first, before autocast converts them, `result`
    is what comes out, half for the reason in `becomes`. `module` is where the object was made that runs it, `weights`
    are its parameters, where those are known to be half. `raises` says why PyTorch refuses to run it on these dtypes,
    None if it does not, or where that is unknown. `asked` means that an operand is half, and a function being run
    asks for dtypes before: it provides for callers in unseen code, which may have a region. `unrecorded` means that
    autograd does not record it, as far as modes show, where something in it is half.
    """

    op: str
    operands: tuple[Operand, ...]
    result: Tensor
    arguments: Arguments
    in_place: bool = False
    module: cst.CSTNode | None = None
    weights: Operand | None = None
    raises: str | None = None
    becomes: Evidence | None = None
    asked: bool = False
    unrecorded: bool = False

    @property
    def half(self) -> Evidence | None:
        """Why an operand is half: the first that is."""
        return best(self.operands)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Sensitive(Event):
    """`op`, which should run in float32, runs outside of any region on `operand`, which can be half.

    `how` is the evidence in the code around it.
    """

    op: str
    operand: Operand
    how: How


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaledLate(Event):
    """Products of all rows with all rows, which are or can be float16 for the reason `half`, are scaled down at `node`.

    They are computed first.
    """

    half: Evidence


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfSum(Event):
    """A loop adds to a half sum; `addend` is the half number that makes it so, None if it was half before.

    The sum is one for each place in a tensor where `windows` of that overlap.
    """

    half: Evidence
    addend: cst.BaseExpression | None
    windows: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfAverage(Event):
    """The running average of weights that an object keeps is converted to `dtype` when the object is made."""

    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AverageAlike(Event):
    """An average of weights begins at `node` with copies of them, which nothing converts; `by` moves it."""

    by: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WeightsAveraged(Event):
    """A running average moves by `share` of the way to weights; it is kept in `dtype`, since `cast` made them so."""

    dtype: str
    share: float
    cast: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class InputsDiffer(Event):
    """Another library's `op` gets inputs of two dtypes, some `wide` and one `half`, which nothing converts for it."""

    op: str
    wide: tuple[Operand, ...]
    half: Operand


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LossUnlifted(Event):
    """The inputs of `loss` are not converted to float32, in a file that uses half at `beside`, as far as it shows.

    It is `lifted` where another loss of the file gets what is converted, and `pretrained` where `beside` is a
    base of the class around it, whose models are loaded in any dtype.
    """

    loss: str
    beside: cst.CSTNode
    lifted: bool
    pretrained: bool = False
