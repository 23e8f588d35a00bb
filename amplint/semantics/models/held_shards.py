"""Objects that hold a scaler and, set by another method, a model sharded by FSDP."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import ScalerMeetsShards
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.models.parameters import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.facts import Facts
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Class, Instance, Scaler, Value
from amplint.source import syntax as cst


class HeldShards(Tracker):
    """Tracks, by class, the scalers and the sharded models that its objects hold.

    Each is stored with the facts of its path: a pair with contradicting facts is not reported.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.scalers: dict[Class, list[tuple[Scaler, Facts]]] = {}
        self.sharded: dict[Class, list[tuple[cst.CSTNode, Facts]]] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return ScalerMeetsShards.kind in self.machine.wanted

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Record a scaler or a sharded model stored in an attribute."""
        if isinstance(owner, Instance):
            if isinstance(value, Scaler):
                self.scalers.setdefault(owner.cls, []).append((value, dict(state.facts)))
            elif state[ModelStates].known:
                model = state[ModelStates].known.get(root(self.machine, symbol_of(self.machine, value)))
                if model is not None and model.sharded is not None:
                    self.sharded.setdefault(owner.cls, []).append((model.sharded, dict(state.facts)))
        return None

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report scalers that step in an object with a sharded model."""
        training = {scaler.created for scaler, _ in self.machine[Ledger].training.values()}
        held = (
            (made, wrapped)
            for cls in self.sharded
            for made in self.scalers.get(cls, ())
            for wrapped in self.sharded[cls]
        )
        for (scaler, assumed), (wrapped, also) in held:
            together = all(also.get(fact, value) == value for fact, value in assumed.items())
            if together and scaler.created in training and scaler.created is not None and scaler.enabled != FALSE:
                self.machine.emit(State(), ScalerMeetsShards, scaler.created, scaler=scaler, wrapped=wrapped)
