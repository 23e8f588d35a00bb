"""Callees of calls, for codemods."""

from __future__ import annotations

from amplint.semantics.events import Called
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Function, Module, Optimizer, Ref, Scaler, Tensor, Unknown, Value
from amplint.source import syntax as cst

_OF_LIBRARIES = (Module, Optimizer, Ref, Scaler, Tensor)


def runs(machine: Machine, state: State, node: cst.CSTNode | None, function: Function) -> None:
    """Emit `Called` for `function` at `node`."""
    if node is not None and Called.kind in machine.wanted:
        machine.emit(state, Called, node, function=node_of(function))


def emit_library_call(machine: Machine, state: State, node: cst.Call, callee: Value, owner: Value | None) -> None:
    """Emit `Called` without a function, where `callee` or `owner` is known to belong to a library."""
    if Called.kind in machine.wanted and any(_is_of_library(machine, value) for value in (callee, owner)):
        machine.emit(state, Called, node, function=None)


def _is_of_library(machine: Machine, value: Value | None) -> bool:
    if isinstance(value, Unknown):
        kind, *details = machine.symbols.key(value.symbol)
        return kind == "call" and "." in str(details[0])
    return isinstance(value, _OF_LIBRARIES)


class Callees(Tracker):
    """Emits the callees of calls."""

    def is_needed(self) -> bool:
        """Whether a codemod asks for the event."""
        return Called.kind in self.machine.wanted

    def function_called(self, state: State, node: cst.CSTNode | None, function: Function) -> None:
        """Handle a call of a visible function."""
        runs(self.machine, state, node, function)

    def unseen_begins(self, state: State, call: Call) -> None:
        """Handle an unseen call, perhaps of a library."""
        emit_library_call(self.machine, state, call.node, call.callee, call.owner)
