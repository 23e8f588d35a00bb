"""What happens in a script, told to the rules: one class per kind of event, with the state just before it."""

from __future__ import annotations

import enum
import re
from collections.abc import Set
from dataclasses import dataclass, field
from typing import ClassVar

import libcst as cst

from amplint.semantics.state import Step
from amplint.semantics.values import TRUE, Autocast, Manager, Number, Optimizer, Scaler, Tensor, Value


class OptState(enum.Enum):
    """Where an optimizer stands with a scaler since the last `update`; PyTorch's own names, and one for neither."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"
    UNKNOWN = "unknown"


class GradState(enum.Enum):
    """What an optimizer's gradients are."""

    NONE = "none"
    RAW = "raw"
    SCALED = "scaled"
    UNSCALED = "unscaled"
    MIXED = "mixed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one optimizer.

    `backward` made them, `scaler` is whose scale they carry or carried, `consumed` the step that has used them,
    `outdated` an `update` that ran since they were made, `cleared` the `zero_grad` behind NONE, `raw` the plain
    backward of RAW ones, `discarded` a `scale` whose result that plain backward ignored, `manager` the framework's
    object that made UNKNOWN ones and has not unscaled them. `earlier` holds the gradients of earlier passes these have
    been added to, where their fate is another.
    """

    state: GradState
    scaler: Scaler | None = None
    backward: cst.CSTNode | None = None
    consumed: cst.CSTNode | None = None
    outdated: cst.CSTNode | None = None
    cleared: cst.CSTNode | None = None
    raw: cst.CSTNode | None = None
    discarded: cst.CSTNode | None = None
    manager: Manager | None = None
    earlier: tuple[Gradients, ...] = ()

    @property
    def passes(self) -> tuple[Gradients, ...]:
        """What is known of each backward pass, the latest first."""
        return () if self.state in (GradState.NONE, GradState.UNKNOWN) else (self, *self.earlier)

    @property
    def scalers(self) -> Set[int]:
        """The symbols of the scalers whose scale the passes carry or carried."""
        return {one.scaler.symbol for one in (self, *self.earlier) if one.scaler is not None}

    def carries(self, scaler: Scaler) -> bool:
        """Whether the latest pass was scaled by `scaler`."""
        return self.scaler is not None and self.scaler.symbol == scaler.symbol


@dataclass(frozen=True, slots=True)
class Stage:
    """How far a (scaler, optimizer) pair is, the call that brought it there and the loop iteration it happened in.

    `unchecked` tells that `unscale_` found no gradients to check for inf and NaN.
    """

    state: OptState
    node: cst.CSTNode | None = None
    iteration: tuple[int, ...] = ()
    unchecked: bool = False

    @property
    def refuses(self) -> bool:
        """Whether PyTorch refuses another `unscale_`, or `step` where that one was a step."""
        return self.state in (OptState.UNSCALED, OptState.STEPPED)


STEPS_TOLD = 8
BFLOAT16 = frozenset({"bfloat16"})
WIDE = frozenset({"bfloat16", "float32", "float64"})
"""The floating dtypes whose gradients need no scaling."""


@dataclass(frozen=True, slots=True)
class Index:
    """Where a file uses its scalers, optimizers and losses, by their symbols; complete once the file is interpreted.

    `scalers` and `optimizers` hold the expressions that name them in protocol calls, `partners` the optimizers that a
    scaler steps, and the others the calls: `unscales` and `steps` by optimizer, `updates` by scaler, `backwards` by
    loss, `halves` are calls of `.half()` and `lowered` all conversions to a half dtype that is written out, `made`
    construct optimizers. `lifted` holds, by its statement in a region that is off, a conversion to float32 of a value
    that came into the region.
    """

    scalers: dict[int, list[cst.BaseExpression]] = field(default_factory=dict)
    optimizers: dict[int, list[cst.BaseExpression]] = field(default_factory=dict)
    partners: dict[int, list[int]] = field(default_factory=dict)
    unscales: dict[int, list[cst.Call]] = field(default_factory=dict)
    steps: dict[int, list[cst.Call]] = field(default_factory=dict)
    updates: dict[int, list[cst.Call]] = field(default_factory=dict)
    backwards: dict[int, list[cst.Call]] = field(default_factory=dict)
    lifted: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    halves: list[cst.Call] = field(default_factory=list)
    lowered: list[cst.Call] = field(default_factory=list)
    made: dict[int, cst.Call] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RanRegion:
    """An autocast region that a loss can come from.

    `scaler_on` tells whether the scaler of the backward pass is on wherever the region is (None: it can be either), and
    `alike` that both are switched by nothing but flags a user sets. `together` are the regions that can have run in the
    same configuration, this one among them. `distant` tells that another file decides whether the region is on.
    """

    context: Autocast
    scaler_on: bool | None
    alike: bool
    together: tuple[Autocast, ...]
    distant: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Event:
    """Base of all events.

    `node` is the call or statement, `statement` the statement it stands in, `region` the innermost autocast context
    that is or can be on and `region_with` what entered it, `steps` the latest protocol calls and branches in the order
    of execution, `decisions` the conditions among them that could have turned out otherwise. `idle` holds the calls
    known to do no tensor work; like `index`, it is complete once the file is interpreted. `entered_from` is set for
    what happens in another file: the call in the linted one that leads there. `assumed` tells that nothing says that a
    dtype is half, without which this is no event.
    """

    kind: ClassVar[str]
    node: cst.CSTNode
    statement: cst.CSTNode
    region: Autocast | None = None
    region_with: cst.CSTNode | None = None
    steps: tuple[Step, ...] = ()
    decisions: Set[cst.CSTNode] = frozenset()
    idle: Set[cst.CSTNode] = frozenset()
    index: Index = field(default_factory=Index)
    entered_from: cst.CSTNode | None = None
    assumed: bool = False

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def steps_from(self, node: cst.CSTNode | None) -> tuple[Step, ...]:
        """The steps worth telling, beginning with the last one at `node`, all of them where it is not among them."""
        return tuple(step for step in self._since(node) if step[1])[-STEPS_TOLD:]

    def _since(self, node: cst.CSTNode | None) -> tuple[Step, ...]:
        for position in range(len(self.steps) - 1, -1, -1):
            if self.steps[position][0] is node:
                return self.steps[position:]
        return self.steps


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Backward(Event):
    """A backward pass.

    `loss` is what it runs on, `regions` are those in which work was done since the last one, gradients recorded.
    """

    loss: Value
    scaler: Scaler | None = None
    regions: tuple[RanRegion, ...] = ()

    @property
    def scales_bfloat16(self) -> bool:
        """Whether the scaler is on, in some configuration, although the loss was computed in bfloat16 only."""
        always = self.scaler is not None and self.scaler.enabled == TRUE
        return any(
            region.context.dtypes == BFLOAT16
            and (always or region.scaler_on is True)
            and not any(_can_be_float16(other) for other in region.together)
            for region in self.regions
        )

    @property
    def may_scale_float16(self) -> bool:
        """Whether the loss can have been computed in float16 while the scaler is on."""
        return any(_can_be_float16(region.context) and region.scaler_on is not False for region in self.regions)


def _can_be_float16(region: Autocast) -> bool:
    return region.dtypes is None or not region.dtypes <= WIDE


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleDiscarded(Event):
    """The result of `scaler.scale(loss)` is not what backward runs on; `loss` is the symbol of the loss itself."""

    scaler: Scaler
    loss: int


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerCreated(Event):
    """A gradient scaler is constructed.

    `for_bfloat16` tells that a flag named so is what switches it on, `never_read` that the variable it goes to is not
    used for anything.
    """

    call: cst.Call
    scaler: Scaler
    for_bfloat16: bool = False
    never_read: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PairEvent(Event):
    """A call on a scaler that concerns one optimizer.

    `latest` is the last `unscale_` or `step` with this scaler since its `updated` call. `inner_loop` is the outermost
    loop that makes the scaler anew each time round while the optimizer lives on, and `loop_binds` the names that loop
    binds. `foreign` is the latest pass scaled by what is certainly another scaler.
    `inside_window` tells that an `Accumulation` already holds an `unscale_` of this stage among what runs inside it.
    """

    scaler: Scaler
    optimizer: Optimizer
    optimizer_node: cst.BaseExpression
    stage: Stage
    gradients: Gradients
    same_iteration: bool
    updated: cst.CSTNode | None
    latest: cst.CSTNode | None
    inner_loop: cst.CSTNode | None
    loop_binds: Set[str]
    inside_window: bool
    foreign: Gradients | None

    @property
    def divides(self) -> bool:
        """Whether the call is known to divide the gradients by the scale: only the first one since `update` does."""
        return self.stage.state is OptState.READY


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Unscale(PairEvent):
    """`scaler.unscale_(optimizer)`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerStep(PairEvent):
    """`scaler.step(optimizer)`; `closure` is the closure passed on, if any."""

    closure: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfUnscaled(Event):
    """A scaler unscales the gradients of float16 parameters; `cast` made them float16."""

    scaler: Scaler
    cast: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerMeetsShards(Event):
    """A scaler made in sight serves the optimizer of a model that `wrapped` has sharded with FSDP."""

    scaler: Scaler
    wrapped: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerUpdate(Event):
    """`scaler.update()`.

    `checked` tells whether an `unscale_` or `step` ran since the last update, `previous` is that update when it ran in
    the same loop iteration, and `pending` a scaled backward whose gradients no step has used yet.
    """

    scaler: Scaler
    checked: bool
    previous: cst.CSTNode | None
    pending: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OptimizerStep(Event):
    """`optimizer.step()` called directly; a `closure` has made the gradients.

    `overlooked` is the `unscale_` whose search for inf and NaN the path has not asked about.
    """

    call: cst.Call
    optimizer: Optimizer
    optimizer_node: cst.BaseExpression
    gradients: Gradients
    closure: bool
    overlooked: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GradientUse(Event):
    """Gradients are clipped, measured or changed. `mutates` tells clipping from reading."""

    gradients: Gradients
    stage: Stage
    mutates: bool
    what: str
    optimizers: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastCreated(Event):
    """An autocast context is constructed from these arguments (parameter name -> node and value)."""

    api: str
    arguments: dict[str, tuple[cst.Arg, Value]] = field(hash=False)
    positional: tuple[str, ...] = ()
    context: Autocast
    certain: bool = True


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastUnused(Event):
    """An autocast object that is never entered: a bare statement, or the class `api` itself as a context."""

    called: bool
    api: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastEntered(Event):
    """A region begins."""

    context: Autocast


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
class StaysHalf(Event):
    """An operation runs in the region `off`, begun by `off_with`, on nothing but what came into it unconverted.

    `place` is the operand, whose variable the region mentions at `first`. It is `certain` to be half since `half`, or
    may be, where the caller has `given` it or where other values are converted in the same statement (`Index.lifted`).
    """

    op: str
    place: cst.BaseExpression
    first: cst.BaseExpression
    certain: bool
    given: bool
    off: Autocast
    off_with: cst.CSTNode
    half: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CastBack(Event):
    """A matrix product runs under autocast on nothing but tensors that were converted to float32, some from half."""

    op: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfCast(Event):
    """A tensor is converted to a half dtype that is written out; `dtype` is that dtype."""

    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ApiUse(Event):
    """A library name is imported or used; `name` is its qualified name."""

    name: str


class Job(enum.Enum):
    """What one call does to gradients, as far as the rhythm of accumulation is concerned."""

    BACKWARD = "backward"
    UNSCALE = "unscale"
    CLIP = "clip"
    RESCALE = "rescale"
    STEP = "step"
    UPDATE = "update"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Work:
    """A call that does such a job, in which round of which loops, and whether every joined path has done it.

    `closes` tells that it ran where a window was known to end, `in_vain` that it found no gradients to clear.
    """

    job: Job
    node: cst.CSTNode
    loops: tuple[cst.CSTNode, ...] = ()
    iteration: tuple[int, ...] = ()
    certain: bool = True
    closes: bool = False
    in_vain: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Accumulation(Event):
    """A loop (or a function that is called for every micro-batch) adds up gradients until a window is full.

    `guard` is the condition that ends a window, None where `loop` runs over the micro-batches of one window, `every`
    what spells their number, `remainder` the expression `counter % every`. `backwards` holds each backward with whether
    its loss was divided by that number, None where that cannot be told. `inside` is what runs on micro-batches that do
    not end the window, `closing` what runs on those that do. `counted` tells that the condition counts them and is not
    a flag of a caller. `first` is how many micro-batches the first window holds where that is not their number.
    `others` tells that another condition can end one too, `rescaled` that gradients are multiplied before the step.
    `parallel` makes the distributed model of a file that never switches its synchronisation off.
    """

    loop: cst.CSTNode
    guard: cst.BaseExpression | None
    every: cst.BaseExpression | None
    remainder: cst.BinaryOperation | None
    backwards: tuple[tuple[cst.CSTNode, bool | None], ...]
    inside: tuple[Work, ...]
    closing: tuple[Work, ...]
    counted: bool = True
    first: int | None = None
    others: bool = False
    rescaled: bool = False
    parallel: cst.Call | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WindowLost(Event):
    """What `loop` leaves after its last full window, by `remainder`, is thrown away by `cleared` in the next epoch."""

    loop: cst.For
    remainder: cst.BinaryOperation
    cleared: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScriptEnd(Event):
    """The whole file has been followed; `complete` tells that no part of it was given up for want of time.

    For rules that speak of what a script never does: they keep what earlier events told and report here. `may_scale`
    tells that a word in the file speaks of scaling losses, or of a framework that may do so, `names_cuda` that one
    speaks of CUDA.
    """

    complete: bool
    may_scale: bool = True
    names_cuda: bool = False
