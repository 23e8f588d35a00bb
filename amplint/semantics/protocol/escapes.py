"""Escapes of scalers, optimizers and gradients: what unseen code may have done to them."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.semantics.accumulation import windows
from amplint.semantics.events import Job, OptState, Stage
from amplint.semantics.memory import undone
from amplint.semantics.memory.gradients import NO_GRADIENTS
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress, ScalerState
from amplint.semantics.memory.undone import Obligations
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    NONE,
    Function,
    Instance,
    Items,
    Manager,
    Method,
    Optimizer,
    Scaler,
    Unknown,
    Value,
)
from amplint.semantics.words import KEEPS_RECORDS, SCHEDULER_CLASS, SETS_RATES


def forget(machine: Machine, state: State, values: Iterable[Value], name: str = "") -> None:
    """`values` are passed to unseen code: its effect on scalers and optimizers among them is unknown.

    A function whose `name` says that it saves, loads or logs only reads them, and a scheduler sets rates.
    """
    if KEEPS_RECORDS.search(name):
        values = [value for value in values if not isinstance(value, (Scaler, Optimizer))]
    elif SETS_RATES.search(name) or SCHEDULER_CLASS.search(name):
        values = [value for value in values if not isinstance(value, Optimizer)]
    values = list(values)
    if any(isinstance(value, Optimizer) for value in values):
        machine[Obligations].optimizer_escaped = True
    for value in values:
        machine.interactions += isinstance(value, (Scaler, Optimizer, Method))
        if isinstance(value, Scaler) or (isinstance(value, Method) and isinstance(value.owner, Scaler)):
            machine[Obligations].record_escape()
            forget_protocol(state)
            return
        if isinstance(value, Manager):
            forget_gradients(state)
        elif isinstance(value, Optimizer):
            state.change(Progress).gradients[value.symbol] = NO_GRADIENTS
            if machine.statement is not None:
                windows.note(machine, state, Job.RESCALE, machine.statement)
        elif isinstance(value, Items):
            forget(machine, state, value.values)
        elif isinstance(value, (Instance, Unknown)):
            held = state.heap.get(value.symbol, {}).values()
            if any(isinstance(item, (Scaler, Function)) for item in held) or undone.holds_scaler(
                machine, state, value.symbol
            ):
                machine[Obligations].record_escape()
                forget_protocol(state)
                return


def escape_to_base(machine: Machine, state: State, owner: Value) -> None:
    """A method that `owner` inherits from an unseen base may use what it holds."""
    escaped = machine[Obligations].scaler_escaped
    forget(machine, state, [owner])
    machine[Obligations].escaped_to_base = (
        machine[Obligations].escaped_to_base or machine[Obligations].scaler_escaped != escaped
    )
    machine[Obligations].scaler_escaped = escaped


def forget_protocol(state: State) -> None:
    """Gradients, stages and updates are unknown from here on."""
    used = {known.scaler.symbol for known in state[Progress].gradients.values() if known.scaler is not None}
    state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *state[Progress].gradients], NO_GRADIENTS)
    used |= {*(pair[0] for pair in state[Progress].pairs), *state[Progress].scalers}
    for scaler in used:
        state.change(Progress).pairs[scaler, ANY_OPTIMIZER] = Stage(OptState.UNKNOWN)
    state.change(Progress).pairs = {pair: Stage(OptState.UNKNOWN) for pair in state[Progress].pairs}
    state.change(Progress).scalers = {scaler: ScalerState(checked=True) for scaler in used}


def gradient_set(machine: Machine, state: State, value: Value) -> None:
    """`parameter.grad = value`; values computed from gradients keep their scale unless divided by it."""
    symbol = symbol_of(machine, value)
    from_them = machine.symbols.involves(symbol, "attribute", "grad")
    if value != NONE and (not from_them or machine.symbols.involves(symbol, "scale of")):
        forget_gradients(state)


def forget_gradients(state: State) -> None:
    """Unseen code ran backward or changed the gradients."""
    state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *state[Progress].gradients], NO_GRADIENTS)
    state[Progress].unskipped = frozenset()
