"""Switches of a distributed model's gradient synchronisation that come after the forward pass that reads them.

`DistributedDataParallel.forward` arms the all-reduce of the backward pass if `require_backward_grad_sync` is set, which
`no_sync()` clears; the backward pass does not look at it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from amplint.semantics.events import SyncSetLate
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.ran import without_gradients
from amplint.semantics.values.state import Iteration, Part, State
from amplint.semantics.values.values import Const, Instance, Module, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.wrappers import MODULE

_MAKER = "torch.nn.parallel.DistributedDataParallel"
_OBJECTS = (Unknown, Module, Instance)
_FLAG, _CONTEXT = "require_backward_grad_sync", "no_sync"


class RunSinceBackward(Part):
    """The distributed models called since the last backward pass on a path, and the switches set after that.

    `ran` maps a model to its latest call, `switched` to the assignment of its flag after that.
    """

    __slots__ = ("ran", "switched")

    def __init__(
        self, ran: Mapping[int, cst.Call] | None = None, switched: Mapping[int, cst.CSTNode] | None = None
    ) -> None:
        self.ran = dict(ran or {})
        self.switched = dict(switched or {})

    def copy(self) -> RunSinceBackward:
        """An independent copy."""
        return RunSinceBackward(self.ran, self.switched)

    def key(self, now: Iteration) -> Hashable:
        """The models whose flag was set; paths that differ in what ran alone are not told apart, which costs little."""
        return frozenset(self.switched)


class LateSync(Tracker):
    """Tracks distributed models, their forward passes, and the switches of their synchronisation.

    `distributed` are the symbols of the models, `contexts` maps the results of `no_sync()` to the call and the model,
    and `blocks` the `with` statements that enter one.
    """

    triggers = frozenset({_FLAG, _CONTEXT})
    part = RunSinceBackward

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.distributed: set[int] = set()
        self.contexts: dict[int, tuple[cst.CSTNode, int]] = {}
        self.blocks: dict[cst.CSTNode, tuple[cst.CSTNode, int]] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return SyncSetLate.kind in self.machine.wanted

    def _is_distributed(self, symbol: int) -> bool:
        return bool(self.distributed) and not self.distributed.isdisjoint(self.machine.symbols.derivation(symbol))

    def call_begins(self, state: State, call: Call) -> None:
        """Record a forward pass, and check the switches before a backward pass."""
        if isinstance(call.callee, _OBJECTS):
            self._called(state, call, call.callee.symbol)
        if call.name not in MODULE and isinstance(call.owner, _OBJECTS):
            self._method_called(state, call.owner.symbol)
        if call.name == "backward":
            self._passed_back(state, call)

    def _called(self, state: State, call: Call, model: int) -> None:
        known = state[RunSinceBackward]
        if not self._is_distributed(model) or without_gradients(state):
            return
        within = any(symbol == model for _, symbol in self._blocks_around(call.node))
        if known.ran.get(model) is call.node and model not in known.switched and not within:
            return
        now = state.change(RunSinceBackward)
        now.switched = {symbol: node for symbol, node in known.switched.items() if symbol != model}
        now.ran = {symbol: node for symbol, node in known.ran.items() if symbol != model}
        if not within:
            now.ran[model] = call.node

    def _method_called(self, state: State, model: int) -> None:
        """Forget the switch of a model whose own method is called, which may run a forward pass."""
        if model in state[RunSinceBackward].switched:
            now = state.change(RunSinceBackward)
            now.switched = {symbol: node for symbol, node in now.switched.items() if symbol != model}

    def _passed_back(self, state: State, call: Call) -> None:
        known = state[RunSinceBackward]
        for symbol, switch in known.switched.items():
            details = {"forward": known.ran[symbol], "backward": call.node, "by_context": False}
            self.machine.emit(state, SyncSetLate, switch, **details)
        for block, symbol in self._blocks_around(call.node):
            running = {*self.machine.calls, self._function(block)}
            if symbol in known.ran and self._function(known.ran[symbol]) in running:
                details = {"forward": known.ran[symbol], "backward": call.node, "by_context": True}
                self.machine.emit(state, SyncSetLate, block, **details)
        if known.ran or known.switched:
            now = state.change(RunSinceBackward)
            now.ran, now.switched = {}, {}

    def _function(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The function around a node, None at the top level; another call may have run a forward pass in there."""
        source = self.machine.program.source_of(node)
        return source.function_around(node) if source is not None else None

    def _blocks_around(self, node: cst.Call) -> Iterator[tuple[cst.CSTNode, int]]:
        """The calls of `no_sync()` that `with` statements around a call and its callers enter, each with its model."""
        nodes = (node, *self.machine.sites) if self.blocks else ()
        for one in (one for one in nodes if one is not None):
            source = self.machine.program.source_of(one)
            for around in source.ancestors(one) if source is not None else ():
                if around in self.blocks:
                    yield self.blocks[around]

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the construction of a distributed model, and a call of `no_sync()`."""
        if isinstance(call.callee, Ref) and call.callee.name == _MAKER:
            self.distributed.add(symbol_of(self.machine, result))
        elif call.name == _CONTEXT and isinstance(call.owner, _OBJECTS) and self._is_distributed(call.owner.symbol):
            self.contexts[symbol_of(self.machine, result)] = call.node, call.owner.symbol

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle `model.require_backward_grad_sync = ...` by a condition."""
        known = state[RunSinceBackward]
        symbol = symbol_of(self.machine, owner)
        if target.attr.value == _FLAG and symbol in known.ran and not isinstance(value, Const):
            state.change(RunSinceBackward).switched = {**known.switched, symbol: target}
        return None

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """Record a `with` statement that enters `no_sync()`, perhaps as one of two contexts."""
        if item is None or not self.contexts or not isinstance(value, Unknown):
            return
        kind, *sides = self.machine.symbols.key(value.symbol)
        found = (value, *sides) if kind == "either" else (value,)
        entered = (self.contexts.get(side.symbol) for side in found if isinstance(side, Unknown))
        self.blocks.update((by, one) for one in entered if one is not None)
