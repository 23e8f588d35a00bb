"""Weights of models that were loaded in half: tensors in that dtype, as the embeddings that they look up."""

from __future__ import annotations

from amplint.semantics.events import Because
from amplint.semantics.models.loading import LoadedModels, loads_models
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.origins import held_by, root
from amplint.semantics.models.parameters import Parameters
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Module, Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import EMBEDDINGS

_WEIGHTS = frozenset({"weight", "bias"})
_LAYERS = (Unknown, Module)


class StoredWeights(Tracker):
    """Tracks the weights of layers of models that a library has loaded in half, and what embeddings return."""

    def is_needed(self) -> bool:
        """Whether the program loads models of libraries."""
        return loads_models(self.machine)

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """The weight or the bias of a layer."""
        if name not in _WEIGHTS or not self.machine[LoadedModels].loaded or not isinstance(owner, _LAYERS):
            return None
        stored = self._stored(state, owner.symbol)
        if stored is None or name in state.heap.get(owner.symbol, ()):
            return None
        symbol = self.machine.unknown("attribute", name, parts=(owner.symbol,)).symbol
        return Tensor(symbol, *stored, rank=None if name == "weight" else 1)

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """The embeddings of tokens, which no region converts."""
        if not self.machine[LoadedModels].loaded or not isinstance(call.callee, _LAYERS) or not call.arguments.given:
            return None
        layer = call.callee.symbol
        kind, *names = self.machine.symbols.key(layer)
        if kind != "embedding" and (kind != "attribute" or names[0] not in EMBEDDINGS):
            return None
        stored = self._stored(state, layer)
        return Tensor(result.symbol, *stored, rank=3) if stored is not None and isinstance(result, Unknown) else None

    def _stored(self, state: State, layer: int) -> tuple[str, cst.CSTNode] | None:
        """The half dtype of a layer of a loaded model, and the call that loaded it."""
        seen = set[int]()
        while (whole := root(self.machine, layer)) not in self.machine[LoadedModels].loaded:
            above = held_by(self.machine, whole)
            if above is None or whole in seen or whole in self.machine[Parameters].lifted:
                return None
            seen.add(whole)
            layer = above
        if not seen or whole in self.machine[Parameters].mixed:
            return None
        stored = state[ModelStates].known.get(whole, Model()).stored
        if stored is not None:
            self.machine[Tensors].half_because.setdefault(stored[1], Because.PARAMETERS)
        return stored
