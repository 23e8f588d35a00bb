"""Objects that hold a model sharded by FSDP, set by another method than uses it: their scalers, and their clipping."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import ScalerMeetsShards, Shards, ShardsClipped
from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.models.origins import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.facts import Facts
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Class, Instance, Scaler, Value
from amplint.source import syntax as cst


class HeldShards(Tracker):
    """Tracks, by class, the scalers and the sharded models that its objects hold, and the clipping of held models.

    Each is stored with the facts of its path: a pair with contradicting facts is not reported.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.scalers: dict[Class, list[tuple[Scaler, Facts]]] = {}
        self.sharded: dict[Class, list[tuple[str, Shards, Facts]]] = {}
        self.clips: list[tuple[cst.Call, Class, str, bool, Facts]] = []

    def is_needed(self) -> bool:
        """Whether a selected rule handles one of the events."""
        return not self.machine.wanted.isdisjoint({ScalerMeetsShards.kind, ShardsClipped.kind})

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Record a scaler or a sharded model stored in an attribute."""
        if isinstance(owner, Instance):
            if isinstance(value, Scaler):
                self.scalers.setdefault(owner.cls, []).append((value, dict(state.facts)))
            elif state[ModelStates].known:
                model = state[ModelStates].known.get(root(self.machine, symbol_of(self.machine, value)))
                if model is not None and model.shards is not None and model.sharded is not None:
                    held = target.attr.value, model.shards, dict(state.facts)
                    self.sharded.setdefault(owner.cls, []).append(held)
        return None

    def clipped(self, state: State, node: cst.Call, model: int, own: bool) -> None:
        """Record that the norm of the gradients of an object's `model` is limited, by its `own` method or PyTorch."""
        key, parts = self.machine.symbols.key(model), self.machine.symbols.parts(model)
        me = state.frames[state.frame].get("self")
        if key[0] == "attribute" and isinstance(me, Instance) and parts == (me.symbol,):
            self.clips.append((node, me.cls, str(key[1]), own, dict(state.facts)))

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report scalers that step in an object with a sharded model, and the clipping of its gradients."""
        for node, cls, name, own, assumed in self.clips:
            for attribute, shards, also in self.sharded.get(cls, ()):
                if attribute == name and _agree(assumed, also) and self.machine.program.main.owns(node):
                    self.machine.emit(State(), ShardsClipped, node, call=node, shards=shards, own=own)
        training = {scaler.created for scaler, _ in self.machine[Ledger].training.values()}
        held = (
            (made, wrapped)
            for cls in self.sharded
            for made in self.scalers.get(cls, ())
            for wrapped in self.sharded[cls]
        )
        for (scaler, assumed), (_, shards, also) in held:
            steps = scaler.created in training and scaler.enabled != FALSE
            if steps and scaler.created is not None and _agree(assumed, also):
                self.machine.emit(State(), ScalerMeetsShards, scaler.created, scaler=scaler, wrapped=shards.node)


def _agree(assumed: Facts, also: Facts) -> bool:
    """Whether no condition has one outcome on one path and another on the other."""
    return all(also.get(fact, value) == value for fact, value in assumed.items())
