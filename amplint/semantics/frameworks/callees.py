"""Telling what calls run."""

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
    """Tell that the call at `node` runs `function`."""
    if node is not None and Called.kind in machine.wanted:
        machine.emit(state, Called, node, function=node_of(function))


def leaves(machine: Machine, state: State, node: cst.Call, callee: Value, owner: Value | None) -> None:
    """Tell that the call at `node` runs what is in a library, where that is known of its `callee` or `owner`."""
    if Called.kind in machine.wanted and any(_is_of_library(machine, value) for value in (callee, owner)):
        machine.emit(state, Called, node, function=None)


def _is_of_library(machine: Machine, value: Value | None) -> bool:
    if isinstance(value, Unknown):
        kind, *details = machine.symbols.key(value.symbol)
        return kind == "call" and "." in str(details[0])
    return isinstance(value, _OF_LIBRARIES)


class Callees(Tracker):
    """Tells what calls run."""

    def is_needed(self) -> bool:
        """Only codemods ask what calls run."""
        return Called.kind in self.machine.wanted

    def function_called(self, state: State, node: cst.CSTNode | None, function: Function) -> None:
        """A function of the tree."""
        runs(self.machine, state, node, function)

    def unseen_begins(self, state: State, call: Call) -> None:
        """Something in a library may run."""
        leaves(self.machine, state, call.node, call.callee, call.owner)
