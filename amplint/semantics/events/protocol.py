"""Events of scalers, optimizers and gradients."""

from __future__ import annotations

import enum
from collections.abc import Set

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import TRUE, Autocast, Manager, Optimizer, Scaler, Value
from amplint.source import syntax as cst

BFLOAT16, FLOAT16 = frozenset({"bfloat16"}), frozenset({"float16"})
WIDE = frozenset({"bfloat16", "float32", "float64"})
"""The floating dtypes whose gradients need no scaling."""


class OptState(enum.Enum):
    """Where an optimizer stands with a scaler since the last `update`; PyTorch's own names, and one for neither."""

    READY = "ready"
    UNSCALED = "unscaled"
    STEPPED = "stepped"
    UNKNOWN = "unknown"


class GradState(enum.Enum):
    """What an optimizer's gradients are: MIXED ones are sums of several fates, of which nothing is reported."""

    NONE = "none"
    RAW = "raw"
    SCALED = "scaled"
    UNSCALED = "unscaled"
    MIXED = "mixed"
    UNKNOWN = "unknown"


_OF_PASSES = (GradState.RAW, GradState.SCALED, GradState.UNSCALED)
"""States of gradients whose passes are known."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of one optimizer.

    `backward` made them, `scaler` is whose scale they carry or carried, `consumed` the step that has used them,
    `outdated` an `update` that ran since they were made, `cleared` the `zero_grad` behind NONE, `raw` the plain
    backward of RAW ones, `discarded` a `scale` whose result that plain backward ignored, or which scaled nothing,
    `manager` the framework's object that made UNKNOWN ones and has not unscaled them, `clipped` what has clipped
    UNKNOWN ones, `again` the pass on the scaled loss that has used up the graph before a plain backward. `taken` means
    that another optimizer, which no scaler steps, has stepped with the gradients of a plain pass. `earlier`
    holds the gradients of earlier passes these have been added to, where their fate is another.
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
    clipped: cst.CSTNode | None = None
    again: cst.CSTNode | None = None
    taken: bool = False
    earlier: tuple[Gradients, ...] = ()

    @property
    def passes(self) -> tuple[Gradients, ...]:
        """What is known of each backward pass, the latest first."""
        return (self, *self.earlier) if self.state in _OF_PASSES else ()

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

    `unchecked` means that `unscale_` found no gradients to check for inf and NaN.
    """

    state: OptState
    node: cst.CSTNode | None = None
    iteration: tuple[int, ...] = ()
    unchecked: bool = False

    @property
    def refuses(self) -> bool:
        """Whether PyTorch refuses another `unscale_`, or `step` where that one was a step."""
        return self.state in (OptState.UNSCALED, OptState.STEPPED)


@dataclass(frozen=True, slots=True)
class RanRegion:
    """An autocast region that a loss can come from.

    `scaler_on` says whether the scaler of the backward pass is on wherever the region is (None: it can be either), and
    `alike` that both are switched by nothing but flags a user sets; where the loss is not scaled, that a float16 region
    is on whatever such flags say. `together` are the regions that can have run in the same configuration, this one
    among them. `distant` means that another file decides whether the region is on, or that it ran before the loop
    around the backward pass. A region is `optional` that a setting about precision switches, undecided there.
    """

    context: Autocast
    scaler_on: bool | None
    alike: bool
    together: tuple[Autocast, ...]
    distant: bool = False
    optional: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Backward(Event):
    """A backward pass.

    `loss` is what it runs on, `regions` are those in which work was done since the last one, gradients recorded.
    It is `of_leaf` where it runs on a new tensor, such as to start the autograd engine, and `of_zero` where the loss is
    multiplied by 0, such as to reach parameters that took no part.
    """

    loss: Value
    scaler: Scaler | None = None
    regions: tuple[RanRegion, ...] = ()
    of_leaf: bool = False
    of_zero: bool = False

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
    def scales_unknown(self) -> bool:
        """Whether the scaler is on whatever the dtype, which comes from out of sight, of each region of the loss is."""
        always = self.scaler is not None and self.scaler.enabled == TRUE
        return bool(self.regions) and all(
            region.context.dtypes is None and not region.context.defaulted and (always or region.scaler_on is True)
            for region in self.regions
        )

    @property
    def may_scale_bfloat16(self) -> bool:
        """Whether the loss can have been computed in bfloat16, and cannot in float16, while the scaler is on."""
        on = [region.context for region in self.regions if region.scaler_on is not False]
        return any(context.dtypes == BFLOAT16 for context in on) and not any(map(_can_be_float16, on))

    @property
    def may_scale_float16(self) -> bool:
        """Whether the loss can have been computed in float16 while the scaler is on."""
        return any(_can_be_float16(region.context) and region.scaler_on is not False for region in self.regions)

    @property
    def is_float16(self) -> bool:
        """Whether the loss was computed in regions for float16 alone."""
        return bool(self.regions) and all(region.context.dtypes == FLOAT16 for region in self.regions)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DelegatedBackward(Event):
    """A method called `backward` of unseen code gets a loss, and runs backward on it."""


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

    `for_bfloat16` means that a flag named so is what switches it on, `also_bfloat16` that one for float16 does as well,
    `never_read` that the variable it goes to is not used for anything, `ruled_out` that it is off on this path because
    of a comparison with float16, `only_float16` that it is constructed or on only where such a comparison holds.
    `positional` are the arguments without names, with their values.
    """

    call: cst.Call
    scaler: Scaler
    for_bfloat16: bool = False
    also_bfloat16: bool = False
    never_read: bool = False
    ruled_out: bool = False
    only_float16: bool = False
    positional: tuple[tuple[cst.Arg, Value], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PairEvent(Event):
    """A call on a scaler that concerns one optimizer.

    `latest` is the last `unscale_` or `step` with this scaler since its `updated` call. `inner_loop` is the outermost
    loop that makes the scaler anew each time round while the optimizer lives on, and `loop_binds` the names that loop
    binds. `foreign` is the latest pass scaled by what is certainly another scaler.
    `inside_window` means that an `Accumulation` already holds an `unscale_` of this stage among what runs inside it,
    `first` that nothing is scaled before, and `behind` is a pass on the scaled loss of a plain one that follows the
    call.
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
    first: bool
    behind: cst.CSTNode | None

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
class SteppedAnother(Event):
    """`scaler.step(...)` of the optimizer named `taken` in an iteration whose `unscaled` call is for `meant` alone.

    Nothing ever steps `meant`, and nothing unscales `taken`; or `absent`: an attribute that nothing else names.
    """

    unscaled: cst.CSTNode
    meant: str
    taken: str
    absent: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfUnscaled(Event):
    """A scaler unscales the gradients of float16 parameters; `cast` made them float16."""

    scaler: Scaler
    cast: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerMeetsShards(Event):
    """A scaler made in visible code serves the optimizer of a model that `wrapped` has sharded with FSDP."""

    scaler: Scaler
    wrapped: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerRecordsRead(Event):
    """Code reads the internal records of `scaler`, which say for each optimizer where inf or NaN was found."""

    scaler: Scaler


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerUpdate(Event):
    """`scaler.update()`.

    `checked` says whether an `unscale_` or `step` ran since the last update, or settings leave out all of them.
    `previous` is that update when it ran in the same loop iteration, and `pending` a scaled backward whose gradients no
    step has used yet.
    """

    scaler: Scaler
    checked: bool
    previous: cst.CSTNode | None
    pending: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OptimizerStep(Event):
    """`optimizer.step()` called directly; a `closure` has made the gradients.

    `disputed` means that it and backward are chosen by conditions that may be one. `overlooked` is the `unscale_` whose
    search for inf and NaN the path has not asked about.
    """

    call: cst.Call
    optimizer: Optimizer
    optimizer_node: cst.BaseExpression
    gradients: Gradients
    closure: bool
    disputed: bool
    overlooked: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class GradientUse(Event):
    """Gradients are clipped, measured or changed. `mutates` distinguishes clipping from reading.

    `hidden` means that an inherited method does so, which may unscale them first, `partial` that a condition behind it
    counts micro-batches and decides whether they are stepped with.
    """

    gradients: Gradients
    stage: Stage
    mutates: bool
    what: str
    optimizers: tuple[int, ...]
    hidden: bool
    partial: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedEarly(Event):
    """Gradients of unknown state are clipped, and only then unscaled by `unscaled`, which can be the scaler's step.

    `certain` means that they cannot have been unscaled before.
    """

    unscaled: cst.CSTNode
    certain: bool
