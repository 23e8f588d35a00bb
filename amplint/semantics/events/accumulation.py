"""Events of gradient accumulation."""

from __future__ import annotations

import enum
from collections.abc import Set

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.source import syntax as cst


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

    `closes` means that it ran where a window was known to end, `mixed` that it did so on some joined paths only,
    `in_vain` that it found no gradients to clear.
    """

    job: Job
    node: cst.CSTNode
    loops: tuple[cst.CSTNode, ...] = ()
    iteration: tuple[int, ...] = ()
    certain: bool = True
    closes: bool = False
    mixed: bool = False
    in_vain: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Accumulation(Event):
    """A loop (or a function that is called for every micro-batch) adds up gradients until a window is full.

    `guard` is the condition that ends a window, None if `loop` runs over the micro-batches of one window, `every`
    what spells their number, `remainder` the expression `counter % every`. `backwards` holds each backward with whether
    its loss was divided by that number, None if that is unknown. `inside` is what runs on micro-batches that do
    not end the window, `closing` what runs on those that do. `counted` means that the condition counts them and is not
    a flag of a caller. `first` is how many micro-batches the first window holds where that is not their number.
    `others` means that another condition can end one too, `rescaled` that gradients are multiplied before the step.
    `parallel` makes the distributed model of a file that never switches its synchronisation off. `supposed` means that
    `guard` is any flag of a caller, so that `inside` holds only what no second call may do.
    `by_position` are backwards of losses that were divided by what counts the micro-batches instead of by how many
    there are. `of_models` are those of losses that a model out of sight returns as its only result. `alone` are
    undivided backwards of branches beside which another one divides. `discards` clears, before the last backward pass
    of a window, what the others have added up.
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
    supposed: bool = False
    by_position: Set[cst.CSTNode] = frozenset()
    of_models: Set[cst.CSTNode] = frozenset()
    alone: Set[cst.CSTNode] = frozenset()
    discards: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WindowLost(Event):
    """What `loop` leaves after its last full window, by `remainder`, is thrown away by `cleared` in the next epoch.

    Where nothing clears it, the next run of `loop` adds it to its first window.
    """

    loop: cst.For
    remainder: cst.BinaryOperation
    cleared: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SteppedWithin(Event):
    """A step on every micro-batch with what `backward` adds up, which `cleared` clears only where `guard` holds."""

    guard: cst.BaseExpression
    backward: cst.CSTNode
    cleared: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NeverCleared(Event):
    """A step in a loop with gradients that `backward` adds up and nothing ever clears; `optimizer` spells whose.

    A scaler takes a step that is `scaled`. `elsewhere` clears them on another path through the same round, and `before`
    does before the loop; both are None if nothing in the file does.
    """

    backward: cst.CSTNode
    optimizer: cst.BaseExpression
    scaled: bool
    elsewhere: cst.CSTNode | None
    before: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SyncSetLate(Event):
    """Whether a distributed model averages gradients is decided between its `forward` and its `backward` pass.

    That is `by_context`, `no_sync()` around the backward pass alone, or else by its attribute.
    """

    forward: cst.Call
    backward: cst.Call
    by_context: bool
