"""Abstract values: the interpreter's knowledge about a script's objects."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import field
from typing import TypeAlias

from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source


@dataclass(frozen=True, slots=True)
class Unknown:
    """An unknown value with an identity."""

    symbol: int


@dataclass(frozen=True, slots=True)
class Option:
    """A module, an object or function of the tree, or a class, that a value is under the assumptions `facts`."""

    value: Module | Ref | Class | Function | Instance
    facts: frozenset[tuple[int | tuple[str, int], Const]] = frozenset()


@dataclass(frozen=True, slots=True)
class Several(Unknown):
    """One of several possible values; if `open`, possibly another one."""

    options: tuple[Option, ...]
    open: bool


@dataclass(frozen=True, slots=True)
class Const:
    """None, a bool, a number or a string.

    `written` is the definition site of a number in a module variable, an attribute or a default.
    """

    value: bool | int | float | str | None
    written: cst.BaseExpression | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


@dataclass(frozen=True, slots=True, eq=False)
class Among(Const):
    """One of several constants, as a fact about a value."""

    options: tuple[Const, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Among) and set(self.options) == set(other.options)

    def __hash__(self) -> int:
        return hash(frozenset(self.options))


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
    """A function, method or lambda of the file; `frame` is the frame of its free variables.

    A `bare` function is the argument of its decorators, which are not applied to it again.
    """

    chunk: Chunk
    node: cst.FunctionDef | cst.Lambda | None
    frame: int
    owner: Class | None = None
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the file."""

    chunk: Chunk
    node: cst.ClassDef | None
    frame: int


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the file; its attributes are in the state."""

    symbol: int
    cls: Class


@dataclass(frozen=True, slots=True)
class Method:
    """A bound method; for a function of the file `function` is set."""

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
    """A gradient scaler. `created` is the constructor call if it was seen, `loops` the loops around it."""

    symbol: int
    enabled: Value
    created: cst.CSTNode | None = None
    loops: tuple[cst.CSTNode, ...] = ()
    cls: str = ""

    @property
    def may_be_none(self) -> bool:
        """Whether it is one by its use alone."""
        return self.created is None


@dataclass(frozen=True, slots=True)
class Optimizer:
    """An optimizer. `cls` is its qualified class name if known, `owner` the symbol whose parameters it updates."""

    symbol: int
    cls: str = ""
    owner: int | None = None
    loops: tuple[cst.CSTNode, ...] | None = None

    @property
    def may_be_none(self) -> bool:
        """Whether it is one by its use alone."""
        return not self.cls


@dataclass(frozen=True, slots=True)
class Trained:
    """The parameters of an optimizer.

    `model` is the symbol of the model, if it got the parameters of exactly one; `origins` are the symbols of all values
    that went into the argument. `plain` says that its class is PyTorch's and leaves unscaling to the scaler. `epsilon`
    is what it adds to denominators in the parameters' dtype, if known, and `decay` the share of each weight that a step
    subtracts. `copies` says that it may update float32 copies. `models` are all models whose parameters it got, as far
    as they are known.
    """

    model: int | None
    origins: frozenset[int]
    plain: bool
    epsilon: float | None = None
    decay: float | None = None
    copies: bool = False
    models: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Manager:
    """An object of a framework that scales losses and steps optimizers itself: an `Accelerator`, a `Fabric`.

    `kind` is the framework, `precision` the dtype of its regions (float32 for none, None if unknown), and `accumulates`
    says that it may divide the loss by the number of micro-batches: `steps`, if it was given. `may_be_none` holds for
    one that is given by unseen code.
    """

    symbol: int
    kind: str
    precision: str | None
    accumulates: bool
    steps: Value | None = None
    may_be_none: bool = False


@dataclass(frozen=True, slots=True)
class Autocast:
    """An autocast context. `devices` and `dtypes` are the possible ones; None means unknown.

    `defaulted` says that no dtype was given, so that the device decides it.
    """

    devices: frozenset[str] | None
    dtypes: frozenset[str] | None
    enabled: Value
    node: cst.CSTNode
    defaulted: bool = False

    @property
    def is_float16_on_cuda(self) -> bool:
        """Whether the region certainly computes in float16 if it runs on CUDA."""
        return (self.dtypes == frozenset({"float16"}) or self.defaulted) and "cuda" in (self.devices or {"cuda"})


@dataclass(frozen=True, slots=True)
class GradMode:
    """`torch.no_grad()`, `torch.inference_mode()` (`inference`), or `torch.set_grad_enabled(flag)`."""

    enabled: Value
    inference: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """An unknown context, by the last name of its constructor."""

    name: str


@dataclass(frozen=True, slots=True)
class NewThread:
    """The boundary of a thread: contexts entered before are not active in it.

    `target` is the function it runs and `argument` the one that passes it, if any.
    """

    target: str
    argument: cst.BaseExpression | None = None


@dataclass(frozen=True, slots=True)
class Neutral:
    """A context without effect on autocast (`nullcontext`, `no_sync`), or an `ExitStack`."""

    stack: bool = False


@dataclass(frozen=True, slots=True)
class Entered:
    """The contexts that a `@contextmanager` function of the file has entered at its yield, each with its node.

    `finishes` says that it continues with calls of the protocol after the wrapped block.
    """

    contexts: tuple[tuple[Autocast | GradMode | Opaque | NewThread, cst.CSTNode], ...]
    finishes: bool


@dataclass(frozen=True, slots=True)
class Device:
    """A `torch.device` of one of these types, None for any."""

    types: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several strings."""

    options: frozenset[str]


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number combined with a tensor: its value, its expression, and the tensor's expression.

    `written` is the definition site of the number, if that is elsewhere, and `limit_of` the name of the tensor whose
    dtype it is a limit of, if that is assumed to be float32.
    """

    value: float
    node: cst.BaseExpression
    beside: cst.BaseExpression | None = None
    written: cst.BaseExpression | None = None
    limit_of: str | None = None

    @property
    def place(self) -> cst.BaseExpression:
        """The definition site of the number."""
        return self.written or self.node


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor.

    `dtype` is None if unknown; `among` are then the possible dtypes, if known. `rank` is the number of dimensions as
    far as known (see `torchlib.promotion`) and `device` the type of the device it is certainly on. All of this assumes
    that regions that may be enabled are.

    `supposed` says that it has that dtype if the tensors it is computed from are of a kind that autocast casts, neither
    float64 nor integers.

    `why_half` is the node that made it half (a cast, a factory, a parameter). `scaled` is the scaler whose scale it
    carries and `plain` its symbol before scaling. `traits` are further properties: `causal` (a mask built by tril or
    triu), `positions` (by arange), `ones`, `sigmoid` (the call is `made`). `infinity` was written into some of its
    elements; `floor` is the epsilon that keeps it from 0.
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
        """The join of this tensor and `other`."""
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
    def kind(self) -> Hashable:
        """What a call can depend on besides its identity."""
        return (Tensor, self.dtype, self.among, self.rank, self.device, self.scaled, self.traits)

    def includes(self, value: Value) -> bool:
        """Whether what is known of its dtype and rank holds for `value`, too."""
        if not isinstance(value, Tensor):
            return self.dtype is None
        return self.dtype in (None, value.dtype) and self.rank in (None, value.rank)

    @property
    def each(self) -> Tensor | None:
        """The representative element of a tensor of losses, which carry its scale; None without one."""
        return self if self.scaled is not None else None

    @property
    def dtypes(self) -> frozenset[str] | None:
        """Its possible dtypes, None for any."""
        return frozenset({self.dtype}) if self.dtype is not None else self.among


@dataclass(frozen=True, slots=True)
class Module:
    """An object of a `torch.nn` class, by the class's qualified name.

    `parts` are those of a `Sequential`; `dtype` is the initial dtype of its parameters, None if unknown.
    """

    symbol: int
    cls: str
    made: cst.CSTNode | None = None
    parts: tuple[Value, ...] = ()
    dtype: str | None = None

    @property
    def each(self) -> Value | None:
        """The representative part, None if the parts differ."""
        return _alike(self.parts)


@dataclass(frozen=True, slots=True)
class FilePath:
    """A path with slashes, relative to the folder of the linted file."""

    name: str


@dataclass(frozen=True, slots=True)
class FileText:
    """An open file, or its content; `path` is as it was given."""

    path: FilePath | Const


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple, list or dict display with known members; `keys` is None for sequences."""

    values: tuple[Value, ...]
    keys: tuple[Value, ...] | None = None

    @property
    def each(self) -> Value | None:
        """The representative element of a sequence, None if its elements differ."""
        return _alike(self.values) if self.keys is None else None

    def merged(self, other: Items) -> Items:
        """A dictionary with the items of both, those of `other` where a key is in both."""
        pairs = dict(zip((*(self.keys or ()), *(other.keys or ())), (*self.values, *other.values), strict=True))
        return Items(tuple(pairs.values()), tuple(pairs))

    def with_item(self, key: Const, value: Value) -> Items:
        """A dictionary with `value` at `key`."""
        return self.merged(Items((value,), (key,)))

    def without(self, key: Const) -> Items:
        """A dictionary without `key`."""
        pairs = [pair for pair in zip(self.keys or (), self.values, strict=True) if pair[0] != key]
        return Items(tuple(value for _, value in pairs), tuple(one for one, _ in pairs))


def _alike(values: tuple[Value, ...]) -> Value | None:
    """The first of `values` if all of them are losses of one scale, or objects of one class."""
    if values and all(isinstance(value, Tensor) and value.scaled is not None for value in values):
        return values[0] if len({value.scaled for value in values if isinstance(value, Tensor)}) == 1 else None
    kinds = {value.cls if isinstance(value, (Instance, Module)) else None for value in values}
    return values[0] if len(kinds) == 1 and None not in kinds else None


def settings(value: Value | None) -> Items | None:
    """`value`, if it is a dictionary of plain values by known keys."""
    if not isinstance(value, Items) or value.keys is None:
        return None
    return value if all(isinstance(one, _PLAIN) for one in value.values) else None


_PLAIN = (Const, Ref, OneOf, Device, Unknown)
"""The kinds of values of settings."""

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


def number_operand(value: Value, node: cst.BaseExpression, beside: cst.BaseExpression | None = None) -> Number | None:
    """The number that `node` evaluates to, combined with the tensor `beside`; None for anything else."""
    constant = number(value)
    if not isinstance(value, Const) or constant is None:
        return None
    return Number(constant, node, beside, value.written)


def is_scalar(value: Value) -> bool:
    """Whether `value` is a Python number or a bool."""
    return isinstance(value, Const) and isinstance(value.value, (int, float))
