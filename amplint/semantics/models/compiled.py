"""Regions within compiled models that disable autocast, and the regions around them."""

from __future__ import annotations

from amplint.semantics.events import CompiledIsland
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.regions.innermost import innermost_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Autocast, Function, GradMode, Instance, Method, Ref, Value
from amplint.source import syntax as cst
from amplint.torchlib.methods import COMPILES, OF_BACKWARD
from amplint.torchlib.policy import LOWER


class Compiled(Tracker):
    """Tracks the `compiled` functions: those of models passed to a compiler, and their callees.

    `islands` maps the regions in these that disable autocast to the region around each and the node that enters it.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.compiled: set[cst.CSTNode | None] = set()
        self.islands: dict[cst.CSTNode, tuple[Autocast, cst.CSTNode]] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return CompiledIsland.kind in self.machine.wanted

    def call_begins(self, state: State, call: Call) -> None:
        """Handle `torch.compile(model)` and `model.compile()`."""
        if isinstance(call.callee, Ref) and call.callee.name in COMPILES and call.arguments.given:
            self._compile(state, call.arguments.values[0])
        elif call.name == "compile" and isinstance(call.owner, Instance):
            self._compile(state, call.owner)

    def _compile(self, state: State, value: Value) -> None:
        if isinstance(value, Instance):
            forward = attributes.find_method(self.machine, state, value.cls, "forward")
            self.compiled.add(forward.node if forward is not None else None)
        elif isinstance(value, Function):
            self.compiled.add(value.node)
        elif isinstance(value, Method) and value.function is not None:
            self.compiled.add(value.function.node)

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """Record a disabled region within compiled code."""
        if not isinstance(value, Autocast) or value.enabled != FALSE or self.compiled.isdisjoint(self.machine.calls):
            return
        around = [region for region in state.regions if region.context is not value]
        modes = [region.context for region in around if isinstance(region.context, GradMode)]
        outer, entered = innermost_of(self.machine, state, around)
        if outer is None or entered is None or (modes and modes[-1].enabled == FALSE):
            return
        if not any(OF_BACKWARD in chunk.text for chunk in self.machine.program.chunks):
            self.islands[by] = outer, entered

    def computation(self, state: State, node: cst.Call, op: str, place: cst.BaseExpression, value: Value) -> None:
        """Emit `CompiledIsland` for an operation that autocast runs in half; others have a float32 backward pass."""
        if op not in LOWER or not self.islands:
            return
        by = next((one.entered_by for one in reversed(state.regions) if isinstance(one.context, Autocast)), None)
        if by in self.islands:
            outer, entered = self.islands[by]
            self.machine.emit(state, CompiledIsland, by, outer=outer, outer_with=entered)
