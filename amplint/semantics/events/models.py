"""Events about what autocast reaches: forward passes of models, work in threads, forms of operations."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Set

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Autocast, NewThread, Scaler
from amplint.semantics.words import LOSS
from amplint.source import syntax as cst


class Recipe(enum.Enum):
    """What is known of autocast at a forward pass: a region that is or can be on, none at all, or neither for sure."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class Purpose(enum.Enum):
    """The purpose of a forward pass, inferred from modes, gradients, backward passes and the names of functions."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OutputInHalf(Event):
    """A model gives `output` in a region, and nothing shows that it is not half; only for rules selected explicitly.

    Of several that the call at the event's node is unpacked to, this is the one at `target`, else None. `is_tensor` is
    whether the code of the model shows a tensor.
    """

    output: int
    is_tensor: bool
    target: cst.BaseExpression | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Forward(Event):
    """A model runs; a forward pass within that of another model is part of the latter and no event of its own.

    `model` is equal for equal models and `name` is its expression here. `training` is the mode set by `train()` or
    `eval()` and `gradients` whether operations are recorded, None if that is unknown. `entered` is the node that
    entered the region of an `autocast` that is on, `way` the running functions, None for the top level, each with its
    active call, and `half` is whether the weights of the model were cast, perhaps on another path. `weights_cast` is
    the call that certainly cast them, `inputs_cast` those that cast the inputs to half. `statistics` is whether one of
    its layers keeps running statistics in the dtype of the weights. `place` is the type of the device that the model is
    certainly on, and `seen` whether its code is, which may enter a region by itself. `trained` is, for an evaluation in
    a file that does not train, the half dtype of the regions in all files of the project that do, "" if they differ.
    """

    model: Hashable
    name: str
    training: bool | None
    gradients: bool | None
    purpose: Purpose
    autocast: Recipe
    entered: cst.CSTNode | None
    way: tuple[tuple[cst.CSTNode | None, cst.CSTNode], ...]
    half: bool
    weights_cast: cst.CSTNode | None
    inputs_cast: tuple[cst.CSTNode, ...]
    statistics: bool
    place: str | None
    seen: bool = True
    trained: str = ""

    @property
    def is_of_loss(self) -> bool:
        """Whether it is named after a loss, which has no weights as a rule."""
        return LOSS.search(self.name.rpartition(".")[2]) is not None

    def parting(self, taken: Set[cst.CSTNode]) -> tuple[cst.CSTNode | None, cst.CSTNode] | None:
        """The last call on the way here that is not among `taken`, with its function; None if all of them are."""
        return next(((function, call) for function, call in reversed(self.way) if call not in taken), None)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnseenForward(Forward):
    """A method of `self` runs that only subclasses define, and that by its name runs a model."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ForwardOutside(Event):
    """Backward ran on a loss whose only forward pass, at `node`, ran in no region, and something else in `inside`."""

    inside: Autocast


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StaleForward(Event):
    """The call or assignment at `node` changes the weights of a model that has run in the region since `entered`.

    The model runs again there at `forward`, on half copies of the old weights. It is `certain` that the region is on.
    """

    forward: cst.Call
    entered: cst.CSTNode | None
    certain: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OutdatedForward(Event):
    """A model runs behind a `step` of an optimizer of its weights, in the same region as before it."""

    step: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LoopInRegion(Event):
    """A framework's training loop runs as a whole in the autocast region since `entered`, which caches half weights.

    It is `certain` that the region is on, and that the loop trains float32 weights.
    """

    entered: cst.CSTNode | None
    certain: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CompiledIsland(Event):
    """A compiled function switches autocast off while `outer` is on around it, since `outer_with`."""

    outer: Autocast
    outer_with: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FlashInFloat32(Event):
    """A model runs in float32, outside of any region, whose attention, as `made` has chosen, takes half alone."""

    made: cst.Call


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaledWithoutRegion(Event):
    """Backward ran at `backward` on a scaled loss of the forward pass at `node`, and no reachable text mentions half.

    `seen` means that the model is in visible code, too.
    """

    scaler: Scaler
    backward: cst.CSTNode
    seen: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RegionMissed(Event):
    """The call at `node` starts a thread, whose `work` autocast would cast, without the autocast of its caller.

    `lost` is the region that is on, `lost_with` began it. Both are None if the caller's regions are in unseen code and
    the thread takes over its gradient mode instead, with `work`. `thread` is the kind of thread.
    """

    work: cst.CSTNode
    lost: Autocast | None
    lost_with: cst.CSTNode | None
    thread: NewThread


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NotCast(Event):
    """An operation that autocast would run in half, in a form that it leaves alone, while a region is on.

    `target` receives the result: the tensor of an in-place method, or what is passed as `out`. `single` is an operand
    that is float32, `half` one that is half, with which the operation raises.
    """

    op: str
    target: cst.BaseExpression
    single: cst.BaseExpression
    half: cst.BaseExpression | None
