"""DeepSpeed's engine: how it is configured, and the regions that are on around it."""

from __future__ import annotations

from amplint.semantics.events import EngineConfigured, EngineInRegion
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import TRUE, Const, Items, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.deepspeed import AUTOCAST, CONFIGS, CONFIGURED, INITIALIZE


class DeepSpeed(Tracker):
    """Follows configurations that are written out, where they are made, and the engines that get them."""

    triggers = frozenset({"initialize"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.made: dict[Value, cst.CSTNode] = {}
        self.plain: dict[int, cst.CSTNode] = {}

    def is_needed(self) -> bool:
        """Only for rules that ask for it."""
        return not self.machine.wanted.isdisjoint({EngineConfigured.kind, EngineInRegion.kind})

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """A dictionary is given a name."""
        if isinstance(value, Items) and value.keys:
            self.made.setdefault(value, node.value)

    def unseen_begins(self, state: State, call: Call) -> None:
        """An engine is configured, or runs a forward pass."""
        if isinstance(call.callee, Ref) and call.callee.name.partition(".")[0] in CONFIGURED:
            config = self._config(state, call.arguments)
            if config is not None:
                given = next(filter(None, map(call.arguments.get, CONFIGS)))
                written = self.made.get(config, given.node.value)
                self.machine.emit(state, EngineConfigured, call.node, config=config, written=written)
        elif isinstance(call.callee, Unknown) and self.plain:
            key = self.machine.symbols.key(call.callee.symbol)
            parts = self.machine.symbols.parts(call.callee.symbol)
            region, entered = innermost(self.machine, state)
            if key[:2] != ("part", 0) or parts[0] not in self.plain or region is None or region.enabled != TRUE:
                return
            self.machine.emit(state, EngineInRegion, call.node, made=self.plain[parts[0]], entered=entered)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """An engine is made, with a configuration in sight that asks for no region of its own."""
        if isinstance(call.callee, Ref) and call.callee.name in INITIALIZE and isinstance(result, Unknown):
            config = self._config(state, call.arguments)
            if config is not None and config.keys is not None and Const(AUTOCAST) not in config.keys:
                self.plain[result.symbol] = call.node

    def _config(self, state: State, arguments: Arguments) -> Items | None:
        """The configuration that is given, where it is written out and nothing was put into it since."""
        given = next((value for name in CONFIGS if (value := arguments.value(name)) is not None), None)
        if not isinstance(given, Items) or not given.keys:
            return None
        parts = (given, *(value for value in given.values if isinstance(value, Items)))
        return None if any(symbol_of(self.machine, part) in state.heap for part in parts) else given
