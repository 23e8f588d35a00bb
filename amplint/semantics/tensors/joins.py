"""Concatenations and products of tensors whose result is cast to half."""

from __future__ import annotations

from amplint.semantics.events import Narrowed
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.tensors import converts_to, follows
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES

_MIXES = operations_with("joins") | {"mul"}


class Joins(Tracker):
    """The nodes of concatenations and products by the symbol of their result, where that can be float32."""

    methods = frozenset({"half", "bfloat16", "to", "type", "type_as"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.made: dict[int, cst.CSTNode] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return Narrowed.kind in self.machine.wanted

    def method(self, state: State, call: Call) -> Value | None:
        """Emit `Narrowed` for a cast to half, or to the dtype of another tensor."""
        if not self.made or call.owner is None:
            return None
        changes, dtype = converts_to(self.machine, call.name, call.arguments)
        other = call.name == "type_as" or any(follows(self.machine, one) for one in call.arguments.given)
        if (changes and dtype in HALF_DTYPES) or other:
            for symbol in self.machine.symbols.derivation(symbol_of(self.machine, call.owner)):
                if symbol in self.made:
                    self.machine.emit(state, Narrowed, self.made[symbol], by=call.node)
        return None


def ran(machine: Machine, op: str, node: cst.CSTNode, result: Tensor) -> None:
    """Record `result` of `op` if it is a join or product that may be float32."""
    if op in _MIXES and result.dtype not in HALF_DTYPES:
        machine[Joins].made[result.symbol] = node
