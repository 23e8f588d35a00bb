"""What happens with the loss scale and with what depends on it."""

from __future__ import annotations

from collections.abc import Set

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SchedulerStep(Event):
    """`scheduler.step()` in the iteration in which `stepped`, a call on the scaler `scaler`, steps an optimizer.

    `waits` means that a condition since then can know whether the step was skipped, or one before that it was not.
    """

    call: cst.Call
    scaler: int
    stepped: cst.CSTNode
    waits: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NeverUpdated(Event):
    """`scaler.step()` in a method or function that is called from unseen code, with a scaler that nothing updates.

    It is a method of a class that makes the scaler and whose bases are not all in visible code unless it is `whole`.
    """

    scaler: Scaler
    whole: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OverflowKept(Event):
    """A scaled backward pass behind gradients that `condition` found to have overflowed, with no update in between."""

    scaler: Scaler
    condition: cst.CSTNode


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerMadeAnew(Event):
    """A scaler lives no longer than one call of a function, or one round of a loop, and its optimizer does.

    `around` is that function, which unseen code calls, or that loop, which binds `loop_binds`; `used` is
    where the scaler steps, or is passed on together with the optimizer. `once` means that it steps a single time.
    """

    scaler: Scaler
    around: cst.CSTNode
    used: cst.CSTNode
    loop_binds: Set[str]
    once: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaleLogged(Event):
    """`scaler.get_scale()` goes straight into a log, in every iteration in which the scaler steps or updates."""

    scaler: Scaler
