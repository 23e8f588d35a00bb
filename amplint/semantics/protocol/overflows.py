"""Scalers whose gradients a condition of the path has found to have overflowed."""

from __future__ import annotations

from dataclasses import replace

from amplint.semantics.events import GradState, OverflowKept
from amplint.semantics.memory.progress import Progress, on_path, scaler_state
from amplint.semantics.protocol import overflow_tests
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


def leave_overflow(machine: Machine, state: State) -> None:
    """Mark the scalers of gradients that a condition of the path has found to have overflowed, and that wait."""
    if not overflow_tests.occur(machine):
        return
    for gradients in {id(one): one for one in state[Progress].gradients.values()}.values():
        for one in on_path(machine, state, gradients).passes:
            waits = one.state is GradState.SCALED and one.consumed is None and one.outdated is None
            if waits and one.scaler is not None and one.backward is not None and not _is_checked(state, one.scaler):
                condition = overflow_tests.decided(machine, state, one.backward)
                if condition is not None:
                    known = replace(scaler_state(state, one.scaler), overflowed=condition)
                    state.change(Progress).scalers[one.scaler.symbol] = known


def _is_checked(state: State, scaler: Scaler) -> bool:
    """Whether the scaler has divided or stepped gradients since its last update, so that it refuses to do so again."""
    return any(stage.refuses for pair, stage in state[Progress].pairs.items() if pair[0] == scaler.symbol)


def emit_overflow(machine: Machine, state: State, node: cst.Call, scaler: Scaler) -> None:
    """The next backward pass has the scale that gradients have overflowed at."""
    known = scaler_state(state, scaler)
    if known.overflowed is not None:
        machine.emit(state, OverflowKept, node, scaler=scaler, condition=known.overflowed)
        state.change(Progress).scalers[scaler.symbol] = replace(known, overflowed=None)
