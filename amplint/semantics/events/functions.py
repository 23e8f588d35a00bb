"""Events of custom `torch.autograd.Function`s: the effect of autocast on their two passes."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CustomFunctionEvent(Event):
    """Something about a class that derives from `torch.autograd.Function`, called `name`.

    `announced` means that the reachable files mention autocast or a gradient scaler, `applied` is a call of it in a
    region that is or can be on, and `device` the type of device that region is for, CUDA where none is seen.
    """

    name: str
    announced: bool
    applied: cst.CSTNode | None = None
    device: str = "cuda"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Unpaired(CustomFunctionEvent):
    """One pass has `decorator`, which is `custom_fwd` or `custom_bwd` as `api`, the other one, `method`, not its kin.

    `api` is a qualified name, without a module where the decorator is known by its name only. `instead` is a decorator
    of the wrong kind in that place. `bound` means that `functools.partial` gives its arguments, `casts` that
    `custom_fwd` converts the inputs, so that forward runs with autocast off.
    """

    api: str
    decorator: cst.BaseExpression
    method: cst.FunctionDef
    instead: cst.BaseExpression | None
    casts: bool
    bound: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DecoratorRefused(CustomFunctionEvent):
    """`custom_fwd` or `custom_bwd`, called `api`, gets no `device_type` by name, which it needs.

    `by_position` is an argument in the place of the function, where a device type was meant.
    """

    api: str
    by_position: cst.Arg | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RunsAgain(CustomFunctionEvent):
    """`backward` runs what forward ran at `first` once more, in whatever autocast state it meets.

    That is what forward got, or the operation `op` of PyTorch.
    """

    first: cst.CSTNode
    backward: cst.FunctionDef
    op: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MixedBackward(CustomFunctionEvent):
    """Backward multiplies the gradient, which has the dtype of forward's result, by a weight saved as it came in.

    `forward` and `backward` are the passes, `product` what gave the result its dtype, `weight` how forward calls it.
    `managed` means that the passes enter or leave regions themselves, `certain` that the product raises whatever the
    region's dtype.
    """

    op: str
    weight: str
    product: cst.CSTNode
    managed: bool
    certain: bool
    forward: cst.FunctionDef
    backward: cst.FunctionDef


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LeftOut(CustomFunctionEvent):
    """Forward converts some tensors to the dtype of `like` for a kernel, and passes it another, `missing`, unconverted.

    The event is at the last conversion, `argument` is the kernel's.
    """

    missing: str
    like: str
    argument: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UncastKernelCall(CustomFunctionEvent):
    """Forward passes `first` and `second`, which can differ in dtype under autocast, or `first` alone, to a kernel,
    called `kernel`.

    Nothing casts for it. The event is at its call, `forward` is the pass, `buffer` where it makes the second one new.
    `with_out` means that it is an operation of PyTorch that is given its output, which autocast leaves alone,
    `decorated` that forward has `custom_fwd`, which casts nothing by itself.
    """

    kernel: str
    first: str
    second: str | None
    forward: cst.FunctionDef
    buffer: cst.CSTNode | None
    with_out: bool = False
    decorated: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffInBackward(CustomFunctionEvent):
    """`forward` computes the product at `first` with autocast on, `backward` its own, an `op`, with autocast off."""

    op: str
    first: cst.CSTNode
    forward: cst.FunctionDef
    backward: cst.FunctionDef


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KernelLaunched(Event):
    """A Triton `kernel`, by its name, is launched that `raises` for this reason, since it multiplies two dtypes."""

    kernel: str
    raises: str | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PassRaises(CustomFunctionEvent):
    """An operation of a pass, an `op`, raises for the `reason` where a caller has autocast on.

    The event is at the statement of the pass that leads there. The inputs named in `weights` are float32, the others in
    the dtype of the region; if `wide`, all are float32. `unsure` means that an unknown condition leads there, `low`
    that only this dtype of a region does. `decorated` passes have `custom_fwd` and `custom_bwd`, `curable` ones raise
    nothing once they have.
    """

    op: str
    reason: str
    in_backward: bool
    weights: tuple[str, ...]
    wide: bool
    unsure: bool
    low: str | None
    curable: bool
    decorated: bool
    forward: cst.FunctionDef
    backward: cst.FunctionDef
