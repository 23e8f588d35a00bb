"""A script's own gradient scalers beside a framework, which scales losses itself or takes out no scale."""

from __future__ import annotations

from amplint.premises import Premise
from amplint.semantics.events import ScalerBeside
from amplint.semantics.frameworks.deepspeed import DeepSpeed
from amplint.semantics.frameworks.frameworks import leaves_backward, manager_of
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    TRUE,
    Const,
    Instance,
    Items,
    Manager,
    Optimizer,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import RETURNED_LOSS, TRAINER_STEP

_TAKES_OUT = frozenset({"unscale_", "optimizer_step", "configure_gradient_clipping", "on_before_optimizer_step"})
"""Names in a Lightning module that may take a scale out of gradients."""


class OwnScalers(Tracker):
    """Tracks scaled losses, and steps by a scaler, that reach a framework."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return ScalerBeside.kind in self.machine.wanted

    def call_begins(self, state: State, call: Call) -> None:
        """Emit the event for a step of a prepared optimizer, and for a backward pass on a scaled loss."""
        first = next(iter(call.arguments.values), None)
        if call.name == "step" and isinstance(call.owner, Scaler) and isinstance(first, (Optimizer, Unknown)):
            manager = manager_of(self.machine, first.symbol)
            if manager is not None:
                self._beside(state, call.node, call.owner, manager)
        elif call.name == "backward" and isinstance(first, Tensor) and first.scaled is not None:
            if isinstance(call.owner, Manager):
                self._beside(state, call.node, first.scaled, call.owner)
            elif isinstance(call.owner, Unknown) and self.machine[DeepSpeed].is_engine(call.owner.symbol):
                self._emit(state, call.node, first.scaled, "deepspeed")

    def function_returns(self, state: State, value: Value) -> None:
        """Emit the event for a scaled loss that a step of Lightning leaves to the loop."""
        function = self.machine.calls[-1] if self.machine.calls else None
        if not isinstance(function, cst.FunctionDef) or function.name.value != TRAINER_STEP:
            return
        loss = value
        if isinstance(value, Items) and value.keys is not None:
            loss = dict(zip(value.keys, value.values, strict=True)).get(Const(RETURNED_LOSS), value)
        me = state.frames[state.frame].get("self")
        if not isinstance(loss, Tensor) or loss.scaled is None or loss.made is None or not isinstance(me, Instance):
            return
        if leaves_backward(self.machine, state, me) and not _takes_out_scale(self.machine, state, me):
            self._emit(state, loss.made, loss.scaled, "lightning")

    def _beside(self, state: State, node: cst.CSTNode, scaler: Scaler, manager: Manager) -> None:
        if manager.precision in (None, "float16"):
            premises = () if manager.precision is not None else (Premise.FLOAT16_CHOSEN,)
            self._emit(state, node, scaler, manager.kind, premises)

    def _emit(
        self, state: State, node: cst.CSTNode, scaler: Scaler, kind: str, premises: tuple[Premise, ...] = ()
    ) -> None:
        if scaler.enabled != TRUE:
            premises = (*premises, Premise.SCALER_ON)
        self.machine.emit(state, ScalerBeside, node, scaler=scaler, framework=kind, premises=premises)


def _takes_out_scale(machine: Machine, state: State, me: Instance) -> bool:
    """Whether the classes of a Lightning module may take a scale out of gradients."""
    return any(not _TAKES_OUT.isdisjoint(cls.chunk.words) for cls in attributes.lineage(machine, state, me.cls))
