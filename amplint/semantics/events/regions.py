"""Autocast contexts that are made and entered."""

from __future__ import annotations

from dataclasses import field

from amplint.premises import Premise
from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Autocast, Value
from amplint.source import syntax as cst
from amplint.torchlib.versions import Wanted


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastCreated(Event):
    """An autocast context is constructed from these arguments (parameter name -> node and value).

    `by_use` means that the device type is a device because what it belongs to is used like a model or a tensor,
    `indexed` that it is the text of a device, which can hold an index: its premises without evidence, None for no text.
    `torch` then are the versions of PyTorch that the project requires. `needs_type` means that the callee takes a
    device type, on this path or, by another import of its name, on the usual one. `float32_elsewhere` is what makes the
    dtype float32 where the region is on and the device is not CUDA.
    """

    api: str
    arguments: dict[str, tuple[cst.Arg, Value]] = field(hash=False)
    positional: tuple[str, ...] = ()
    context: Autocast
    certain: bool = True
    by_use: bool = False
    indexed: tuple[Premise, ...] | None = None
    torch: Wanted | None = None
    needs_type: bool = True
    float32_elsewhere: cst.BaseExpression | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastUnused(Event):
    """An autocast object that is never entered: a bare statement, or the class `api` itself as a context."""

    called: bool
    api: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NoContext(Event):
    """`api` is entered as a context and returns none, or what is no class is `called` as if it made one: all raise.

    What is called is a context, or the `module` with the class.
    """

    api: str
    called: bool
    module: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastEntered(Event):
    """A region begins."""

    context: Autocast


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DeviceFixed(Event):
    """A region, or a `scaler`, is constructed for one `device` type, while the work around it runs on `chosen`, any
    device.

    `name` is the expression of that device, or the code that runs on its caller's device if none is `chosen`. A call
    that `asks` constructs nothing: it queries the dtype of the regions for that device. One chosen by what is
    `by_availability` is for CUDA on every machine that has it, and one that is `listed` for the CPU on all devices that
    the list `chosen` leaves out. What is computed there goes on `to_numpy`, as far as the function around shows.
    """

    device: str
    chosen: cst.BaseExpression | None
    name: str
    scaler: bool = False
    asks: bool = False
    by_availability: bool = False
    listed: bool = False
    to_numpy: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DisabledForOneDevice(Event):
    """A region that switches autocast off, or `casts` to float32, names one `device` type, in a file whose work runs
    where its callers say.
    """

    device: str
    casts: bool = False
