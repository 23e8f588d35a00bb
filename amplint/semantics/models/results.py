"""Results of calls, for codemods."""

from __future__ import annotations

from amplint.semantics.events import Returned
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Items, Value
from amplint.source import syntax as cst


class Results(Tracker):
    """Emits the results of calls, as the other trackers leave them; containers that are changed in place are unknown.

    Which ones are is known by their first members, so that more may be unknown than need be.
    """

    methods = frozenset({"append", "extend", "insert", "update", "setdefault"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._changed = set[int]()

    def is_needed(self) -> bool:
        """Whether a codemod asks for the event."""
        return Returned.kind in self.machine.wanted

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """Record a change of a container."""
        if isinstance(owner, Items):
            self._changed.add(symbol_of(self.machine, owner))

    def method(self, state: State, call: Call) -> None:
        """Record a change of a container."""
        if isinstance(call.owner, Items):
            self._changed.add(symbol_of(self.machine, call.owner))

    def call_returned(self, state: State, call: Call, result: Value) -> None:
        """Emit the result of a call."""
        self.machine.emit(state, Returned, call.node, result=self._known(result))

    def _known(self, value: Value) -> Value:
        if not isinstance(value, Items):
            return value
        if symbol_of(self.machine, value) in self._changed:
            return self.machine.unknown("changed")
        return Items(tuple(map(self._known, value.values)), value.keys)
