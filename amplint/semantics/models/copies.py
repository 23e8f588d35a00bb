"""Deep copies of models, whose casts leave the original as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from amplint.semantics.models.model_states import change
from amplint.semantics.models.parameters import stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Module, Unknown, Value
from amplint.source import syntax as cst


def copied(machine: Machine, state: State, node: cst.Call, value: Instance | Module) -> Value:
    """A copy of a model, made at `node`, with copies of all of its layers."""
    made = machine.identity(state, node)
    symbols: dict[int, int] = {}

    def twin(part: Value) -> Value:
        if not isinstance(part, (Instance, Module)):
            return part
        if part.symbol not in symbols:
            inner = machine.symbols.intern("copied", made, parts=(part.symbol,))
            symbols[part.symbol] = inner if symbols else made
            if part.symbol in state.heap:
                held = {name: twin(value) for name, value in state.heap[part.symbol].items()}
                state.heap[symbols[part.symbol]] = held
        if isinstance(part, Module):
            return replace(part, symbol=symbols[part.symbol], parts=tuple(map(twin, part.parts)))
        return replace(part, symbol=symbols[part.symbol])

    return twin(value)


class Copies(Tracker):
    """Tracks deep copies of models."""

    def library(self) -> Mapping[str, Handler]:
        """`copy.deepcopy`."""
        return {"copy.deepcopy": self._deepcopy}

    def _deepcopy(self, state: State, call: Call) -> Value | None:
        value = call.arguments.values[0] if call.arguments.given else None
        stored = stored_in(self.machine, state, symbol_of(self.machine, value)) if value is not None else None
        if isinstance(value, (Instance, Module)):
            twin: Value = copied(self.machine, state, call.node, value)
        elif stored is not None:
            twin = Unknown(self.machine.identity(state, call.node))
        else:
            return None
        if stored is not None:
            change(state, symbol_of(self.machine, twin), frozen=stored)
        return twin
