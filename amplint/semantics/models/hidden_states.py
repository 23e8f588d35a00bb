"""Hidden states of models that were loaded in half: tensors in the dtype of the weights."""

from __future__ import annotations

from amplint.semantics.events import Because
from amplint.semantics.models.loading import LoadedModels, loads_models
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.models import Models, runs_forward
from amplint.semantics.models.parameters import path_in_model
from amplint.semantics.python.containers import record_each
from amplint.semantics.python.expressions import indices, single
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Const, Tensor, Unknown, Value
from amplint.semantics.words import SUBMODEL
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import HIDDEN_STATES, LAYER_STATES, STATES_FIRST, returns_states

_RETURNS_TUPLE = "return_dict"


class HiddenStates(Tracker):
    """Tracks what models of transformers return, outside of any region, in the half dtype that they were loaded in.

    `half` holds that dtype and the call that loaded the model, for outputs whose first element, if `first`, and whose
    lists of states have it.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.half: dict[int, tuple[str, cst.CSTNode]] = {}
        self.first: set[int] = set()

    def is_needed(self) -> bool:
        """Whether the program loads models of libraries."""
        return loads_models(self.machine)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the hidden states among the fields of an output."""
        loads = bool(self.machine[LoadedModels].loaded) and isinstance(result, Unknown)
        stored = self._weights(state, call) if loads else None
        if stored is None or innermost(self.machine, state)[0] is not None:
            return
        (dtype, loaded), is_base = stored
        self.machine[Tensors].half_because.setdefault(loaded, Because.PARAMETERS)
        output = symbol_of(self.machine, result)
        for field, rank in HIDDEN_STATES.items():
            state.set_attribute(output, field, self._tensor(output, field, dtype, loaded, rank))
        self.half[output] = dtype, loaded
        for field in LAYER_STATES:
            states = self.machine.unknown("attribute", field, parts=(output,)).symbol
            self.half[states] = dtype, loaded
            record_each(state, states, self._tensor(states, "each", dtype, loaded, 3))
        if is_base and call.arguments.value(_RETURNS_TUPLE) != FALSE:
            self.first.add(output)

    def subscript_value(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """The states behind one of the layers, or the first element of an output."""
        known = self.half.get(owner.symbol) if self.half and isinstance(owner, Unknown) else None
        if known is None or not isinstance(owner, Unknown):
            return None
        key = single(indices(self.machine, state, node))
        if not isinstance(key, Const) or type(key.value) is not int:
            return None
        of_layers = self.machine.symbols.key(owner.symbol)[:1] == ("attribute",)
        if not of_layers and not (owner.symbol in self.first and key.value == 0):
            return None
        return self._tensor(owner.symbol, f"[{key.value}]", *known, 3 if of_layers else None)

    def _tensor(self, output: int, field: str, dtype: str, loaded: cst.CSTNode, rank: int | None) -> Tensor:
        symbol = self.machine.unknown("states", field, parts=(output,)).symbol
        return Tensor(symbol, dtype, loaded, rank=rank)

    def _weights(self, state: State, call: Call) -> tuple[tuple[str, cst.CSTNode], bool] | None:
        """The half dtype of the model that `call` runs, and whether the states come first in what it returns."""
        if call.entered not in (None, "object"):
            return None
        if Models in call.notes:
            if not runs_forward(call, call.notes[Models][1]):
                return None
            names, whole = path_in_model(self.machine, symbol_of(self.machine, call.notes[Models][0]))
        elif isinstance(call.callee, Unknown):
            names, whole = path_in_model(self.machine, call.callee.symbol)
        else:
            return None
        known = state[ModelStates].known.get(whole, Model())
        kind, *more = self.machine.symbols.key(whole)
        made = str(more[0]) if kind == "call" else ""
        if known.stored is None or known.computed is not None or not returns_states(made):
            return None
        if not all(map(SUBMODEL.search, names)):
            return None
        return known.stored, bool(names) or STATES_FIRST.search(made) is not None
