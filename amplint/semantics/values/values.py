"""Abstract values: what the interpreter knows about the things a script handles."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TypeAlias

from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source


@dataclass(frozen=True, slots=True)
class Unknown:
    """Something nothing is known about but its identity."""

    symbol: int


@dataclass(frozen=True, slots=True)
class Option:
    """A module, or the class of one, that a value is where the path has assumed `facts`."""

    value: Module | Ref
    facts: frozenset[tuple[int | tuple[str, int], Const]] = frozenset()


@dataclass(frozen=True, slots=True)
class Several(Unknown):
    """Something of which it is known what it can be; it might be something else, too, where it is `open`."""

    options: tuple[Option, ...]
    open: bool


@dataclass(frozen=True, slots=True)
class Const:
    """None, a bool, a number or a string.

    `written` is where a number stands in the code that a variable of the module, an attribute or a default holds.
    """

    value: bool | int | float | str | None
    written: cst.BaseExpression | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True)
class Ref:
    """A module, class, function or constant of a library, by its qualified name (`torch.amp.GradScaler`)."""

    name: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """Another module of the linted tree, by the name it was imported under."""

    source: Source
    name: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function, method or lambda of the file; `frame` is where its free names live."""

    chunk: Chunk
    node: cst.FunctionDef | cst.Lambda | None
    frame: int
    owner: Class | None = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the file."""

    chunk: Chunk
    node: cst.ClassDef | None
    frame: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the file; its attributes live in the state."""

    symbol: int
    cls: Class


@dataclass(frozen=True, slots=True)
class Method:
    """A method looked up on a value; for a function of the file `function` is set."""

    owner: Value
    name: str
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """`functools.partial(callee, ...)`; each argument as its node, value, keyword and stars."""

    callee: Value
    given: tuple[tuple[cst.Arg, Value, str | None, str], ...]


@dataclass(frozen=True, slots=True)
class Scaler:
    """A gradient scaler. `created` is the constructor call when it was seen, `loops` the loops around it."""

    symbol: int
    enabled: Value
    created: cst.CSTNode | None = None
    loops: tuple[cst.CSTNode, ...] = ()
    cls: str = ""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer. `cls` is its qualified class name when known, `owner` the symbol whose parameters it updates."""

    symbol: int
    cls: str = ""
    owner: int | None = None
    loops: tuple[cst.CSTNode, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trained:
    """What an optimizer updates.

    `model` is the symbol of the model it was given the parameters of, and nothing else; `origins` are the symbols of
    whatever went into what it was given. `plain` tells that its class is PyTorch's and leaves unscaling to the scaler.
    `epsilon` is what it adds to its denominators in the parameters' dtype, where that is known, and `decay` the share
    of each weight that a step takes away.
    """

    model: int | None
    origins: frozenset[int]
    plain: bool
    epsilon: float | None = None
    decay: float | None = None


@dataclass(frozen=True, slots=True)
class Manager:
    """An object of a framework that scales losses and steps optimizers itself: an `Accelerator`, a `Fabric`.

    `kind` is the framework, `precision` the dtype of its regions (float32 for none, None where it is not known), and
    `accumulates` tells that it may divide the loss by a number of micro-batches: `steps`, where it was given that.
    """

    symbol: int
    kind: str
    precision: str | None
    accumulates: bool
    steps: Value | None = None


@dataclass(frozen=True, slots=True)
class Autocast:
    """An autocast context. `devices` and `dtypes` hold what is possible; None means unknown.

    `defaulted` tells that no dtype was given, so that the device decides it.
    """

    devices: frozenset[str] | None
    dtypes: frozenset[str] | None
    enabled: Value
    node: cst.CSTNode
    defaulted: bool = False

    @property
    def is_float16_on_cuda(self) -> bool:
        """Whether the region, should it run on CUDA, certainly computes in float16."""
        return (self.dtypes == frozenset({"float16"}) or self.defaulted) and "cuda" in (self.devices or {"cuda"})


@dataclass(frozen=True, slots=True)
class GradMode:
    """`torch.no_grad()`, `torch.inference_mode()`, by which it is `inference`, or `torch.set_grad_enabled(flag)`."""

    enabled: Value
    inference: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A context that cannot be looked into, by the last name of what made it."""

    name: str


@dataclass(frozen=True, slots=True)
class NewThread:
    """The border of a thread: what was entered before it began is not on inside.

    `target` is what it runs and `handed` the expression that hands it over, if any.
    """

    target: str
    handed: cst.BaseExpression | None = None


@dataclass(frozen=True, slots=True)
class Neutral:
    """A context that changes nothing here (`nullcontext`, `no_sync`), or an `ExitStack`."""

    stack: bool = False


@dataclass(frozen=True, slots=True)
class Entered:
    """What a `@contextmanager` function of the file has entered when it yields, each with the node that entered it.

    `finishes` tells that it goes on with calls of the protocol once the block it wraps is done.
    """

    contexts: tuple[tuple[Autocast | GradMode | Opaque | NewThread, cst.CSTNode], ...]
    finishes: bool


@dataclass(frozen=True, slots=True)
class Device:
    """A `torch.device` of one of these types, None for any."""

    types: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class OneOf:
    """A string that is one of these."""

    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number that meets a tensor: its value, what stands for it there, and the expression of that tensor.

    `written` is where the number itself stands, if that is somewhere else.
    """

    value: float
    node: cst.BaseExpression
    beside: cst.BaseExpression | None = None
    written: cst.BaseExpression | None = None

    @property
    def place(self) -> cst.BaseExpression:
        """Where the number stands in the code."""
        return self.written or self.node


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    `dtype` is None when unknown, `among` then holds what it can be, where that is known; `rank` counts its dimensions
    as far as they are known (see `torchlib.promotion`) and `device` is the type of the device it is certainly on. All
    this holds where the regions that can be on are on.
    `supposed` tells that it has that dtype if the tensors that it comes from are such as autocast converts, neither
    float64 nor integers.
    `why_half` is the node that made it half (a cast, a factory, a parameter). `scaled` is the scaler whose scale it
    carries and `plain` the symbol it had before. `traits` names what else matters: `causal` (a mask built by tril or
    triu), `positions` (by arange), `ones`, `sigmoid` (the call is `made`). `infinity` was put into some of its
    elements; `floor` is the small number that keeps it from 0.
    """

    symbol: int
    dtype: str | None = None
    why_half: cst.CSTNode | None = None
    scaled: Scaler | None = None
    plain: int | None = None
    traits: frozenset[str] = frozenset()
    made: cst.CSTNode | None = None
    infinity: Number | None = None
    floor: Number | None = None
    among: frozenset[str] | None = None
    rank: int | None = None
    device: str | None = None
    supposed: bool = False

    def joined(self, other: Tensor, symbol: int) -> Tensor:
        """What is known of a tensor that is this one on one path and `other` on another."""
        return Tensor(
            symbol,
            self.dtype if self.dtype == other.dtype else None,
            self.why_half if self.dtype == other.dtype else None,
            self.scaled if self.scaled == other.scaled else None,
            self.plain if self.plain == other.plain else None,
            self.traits & other.traits,
            self.made if self.made is other.made else None,
            self.infinity or other.infinity,
            self.floor if self.floor == other.floor else None,
            self.dtypes | other.dtypes if self.dtypes and other.dtypes and self.dtype != other.dtype else None,
            self.rank if self.rank == other.rank else None,
            self.device if self.device == other.device else None,
            self.supposed or other.supposed,
        )

    @property
    def dtypes(self) -> frozenset[str] | None:
        """What its dtype can be, None for anything."""
        return frozenset({self.dtype}) if self.dtype is not None else self.among


@dataclass(frozen=True, slots=True)
class Module:
    """An object of a `torch.nn` class, by the class's qualified name.

    `parts` are those of a `Sequential`; `dtype` is what its parameters were made in, None where that is not known.
    """

    symbol: int
    cls: str
    made: cst.CSTNode | None = None
    parts: tuple[Value, ...] = ()
    dtype: str | None = None


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path with slashes, relative to the folder of the linted file."""

    name: str


@dataclass(frozen=True, slots=True)
class FileText:
    """An open file, or what is in it; `path` is as it was given."""

    path: FilePath | Const


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple, list or dict display whose members are known; `keys` is None for sequences."""

    values: tuple[Value, ...]
    keys: tuple[Value, ...] | None = None


Value: TypeAlias = (
    Unknown | Const | Ref | Function | Class | Instance | Method | Scaler | Optimizer | Autocast | GradMode | Neutral
    | Entered | Device | OneOf | Tensor | Module | Items
    | Partial | Namespace | Manager | FilePath | FileText
)  # fmt: skip

PERHAPS_SCALED = "perhaps scaled"
NONE = Const(None)
TRUE = Const(True)
FALSE = Const(False)


def number(value: Value | None) -> float | None:
    """A Python number, neither a bool nor NaN."""
    if not isinstance(value, Const) or not isinstance(value.value, (int, float)) or isinstance(value.value, bool):
        return None
    if isinstance(value.value, float) and not math.isfinite(value.value):
        return None if math.isnan(value.value) else value.value
    return value.value if abs(value.value) <= 1e308 else 1e308 if value.value > 0 else -1e308


def standing(value: Value, node: cst.BaseExpression, beside: cst.BaseExpression | None = None) -> Number | None:
    """The number that `node` stands for, which meets the tensor `beside`; None for anything else."""
    constant = number(value)
    if not isinstance(value, Const) or constant is None:
        return None
    return Number(constant, node, beside, value.written)


def is_scalar(value: Value) -> bool:
    """Whether `value` is a Python number or a bool."""
    return isinstance(value, Const) and isinstance(value.value, (int, float))
