"""Gradients that Accelerate unscales a second time before a step, which its scaler refuses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from amplint.premises import Premise
from amplint.semantics.events import UnscaledAgain
from amplint.semantics.frameworks.micro_batches import MicroBatches
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import Iteration, Part, State
from amplint.semantics.values.values import Manager, Optimizer, Value
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import CLIPPING, UNSCALING


class ManagedUnscales(Part):
    """The call that has unscaled the gradients of a manager since the latest step, by the manager's symbol.

    None behind a second one, which raises.
    """

    __slots__ = ("calls",)

    def __init__(self, calls: Mapping[int, cst.Call | None] | None = None) -> None:
        self.calls = calls or {}

    def copy(self) -> ManagedUnscales:
        """An independent copy."""
        return ManagedUnscales(self.calls)

    def key(self, now: Iteration) -> Hashable:
        """The managers, each with its call."""
        return frozenset(self.calls.items())

    def symbols(self) -> Iterable[int]:
        """The managers."""
        return self.calls

    def joined_with(self, other: ManagedUnscales) -> ManagedUnscales:
        """The calls of both paths."""
        return ManagedUnscales(dict(self.calls.items() & other.calls.items()))


class UnscaledTwice(Tracker):
    """Tracks calls of an `Accelerator` that unscale the gradients of all its optimizers at once."""

    part = ManagedUnscales

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return UnscaledAgain.kind in self.machine.wanted

    def call_begins(self, state: State, call: Call) -> None:
        """Emit the event for a second call, and forget the first one at a step."""
        manager = call.owner
        if call.name == "step":
            _forget(state)
        elif isinstance(manager, Manager) and manager.kind == "accelerate" and _unscales_all(call):
            self._unscaled(state, call, manager)

    def _unscaled(self, state: State, call: Call, manager: Manager) -> None:
        if manager.precision not in (None, "float16"):
            return
        calls = state[ManagedUnscales].calls
        before = calls.get(manager.symbol)
        if manager.symbol not in calls:
            state.change(ManagedUnscales).calls = {**calls, manager.symbol: call.node}
        elif before is not None and not self.machine[MicroBatches].is_within_window(state, manager):
            premises = () if manager.precision is not None else (Premise.FLOAT16_CHOSEN,)
            self.machine.emit(state, UnscaledAgain, call.node, before=before, premises=premises)
            state.change(ManagedUnscales).calls = {**calls, manager.symbol: None}

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Unseen code that is passed an optimizer or a manager may step."""
        if any(isinstance(value, (Optimizer, Manager)) for value in values):
            _forget(state)

    def forget(self, state: State) -> None:
        """Unseen code may step."""
        _forget(state)


def _unscales_all(call: Call) -> bool:
    """Whether a method of an `Accelerator` unscales the gradients of all its optimizers."""
    return call.name in CLIPPING or (call.name == UNSCALING and not call.arguments.given)


def _forget(state: State) -> None:
    if state[ManagedUnscales].calls:
        state.change(ManagedUnscales).calls = {}
