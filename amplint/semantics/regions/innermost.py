"""The innermost autocast region at a point of a path."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.facts import is_on
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import Autocast, NewThread, Value
from amplint.source import syntax as cst


def innermost(machine: Machine, state: State) -> tuple[Autocast | None, cst.CSTNode | None]:
    """The innermost autocast region that is or can be on, and the node that entered it."""
    return innermost_of(machine, state, state.regions)


def innermost_of(
    machine: Machine, state: State, regions: Sequence[Region]
) -> tuple[Autocast | None, cst.CSTNode | None]:
    """The innermost autocast region among nested `regions` that is or can be on within all of them."""
    off: set[str] = set()
    for region in reversed(regions):
        context = region.context
        if isinstance(context, NewThread):
            break
        if not isinstance(context, Autocast):
            continue
        devices = context.devices or frozenset({"?"})
        if is_off(machine, state, context.enabled):
            off |= devices
        elif "?" in off or devices <= off:
            continue
        else:
            return context, region.entered_by
    return None, None


def is_off(machine: Machine, state: State, enabled: Value) -> bool:
    """Whether a flag is known to be false on this path."""
    return is_on(machine.symbols, machine.assumed(state), enabled) is False
