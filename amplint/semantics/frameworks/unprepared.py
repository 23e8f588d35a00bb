"""Models that Accelerate has not prepared, although it has prepared the optimizer of their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from amplint.semantics.events import ModelUnprepared
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.models.origins import root
from amplint.semantics.models.parameters import WRAPPERS, stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import model_names
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    TRUE,
    GradMode,
    Instance,
    Items,
    Manager,
    Module,
    Optimizer,
    Ref,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.frameworks import PREPARING
from amplint.torchlib.sharding import SHARDERS

_FRAMEWORK = "accelerate"
_PARALLEL = WRAPPERS - {"compile", "script"}
_LAYERS = frozenset({"forward", "__call__"})


class Unprepared(Tracker):
    """Tracks what an Accelerator prepares, and the models that run.

    `trained` maps models to the call that prepares their optimizer, with the Accelerator, `ready` are models that are
    prepared or wrapped otherwise, `ran` maps those that run with gradients outside of other models to the first call
    and whether that is in a region, or in half anyway, `passes` are the Accelerators whose backward pass runs. `hidden`
    is set where not all that is prepared is seen.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.trained: dict[int, tuple[cst.Call, Manager]] = {}
        self.ready: set[int] = set()
        self.ran: dict[int, tuple[cst.Call, bool]] = {}
        self.passes: set[int] = set()
        self.hidden = False

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return ModelUnprepared.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that prepare, and calls of models, in a file that prepares objects by an Accelerator."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        if "Accelerator" not in said or said.isdisjoint(PREPARING):
            return Words()
        return Words(PREPARING & said, calls=model_names(chunks))

    def call_begins(self, state: State, call: Call) -> None:
        """Record what is prepared, backward passes, and forward passes."""
        if isinstance(call.owner, Manager) and call.owner.kind == _FRAMEWORK:
            if call.name in PREPARING:
                self._prepare(state, call, call.owner)
            elif call.name == "backward":
                self.passes.add(call.owner.symbol)
        elif isinstance(call.callee, Ref):
            if call.callee.name in SHARDERS or call.callee.name.rpartition(".")[2] in _PARALLEL:
                self._settle(state, call.arguments.values)
        elif isinstance(call.callee, (Instance, Module, Unknown)) and self.trained:
            self._run(state, call, root(self.machine, call.callee.symbol))

    def _prepare(self, state: State, call: Call, manager: Manager) -> None:
        self.hidden |= any(argument.star for argument in call.arguments.given)
        for value in _flat(call.arguments.values):
            known = self.machine[Optimizers].trained.get(value.symbol) if isinstance(value, Optimizer) else None
            if known is not None and known.model is not None:
                self.trained.setdefault(known.model, (call.node, manager))
            elif not isinstance(value, Optimizer):
                self._settle(state, [value])

    def _settle(self, state: State, values: Iterable[Value]) -> None:
        """Record that these models, and those that they consist of, are prepared, or wrapped by hand."""
        optimizers = self.machine[Optimizers].trained

        def below(symbol: int) -> Iterable[int]:
            held = state.heap.get(symbol, {}).values()
            inner = [symbol_of(self.machine, one) for one in held if isinstance(one, (Instance, Module, Unknown))]
            return () if symbol in optimizers else [*self.machine.symbols.parts(symbol), *inner]

        for value in values:
            self.ready.update(self.machine.symbols.closure(symbol_of(self.machine, value), below))

    def _run(self, state: State, call: Call, model: int) -> None:
        """Record a forward pass that records gradients, unless another model runs it."""
        modes = [region.context for region in state.regions if isinstance(region.context, GradMode)]
        inner = any(isinstance(node, cst.FunctionDef) and node.name.value in _LAYERS for node in self.machine.calls)
        if not inner and (not modes or modes[-1].enabled == TRUE):
            lowered = innermost(self.machine, state)[0] is not None or stored_in(self.machine, state, model) is not None
            self.ran.setdefault(model, (call.node, lowered))

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Unseen code that is passed an Accelerator and a model may prepare it."""
        given = [*values]
        if any(isinstance(value, Manager) for value in given):
            self._settle(state, given)

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report models whose optimizer is prepared, and that are not."""
        for model, (node, manager) in self.trained.items() if not self.hidden else ():
            if model in self.ran and model not in self.ready and manager.symbol in self.passes:
                ran, in_region = self.ran[model]
                if self.machine.program.main.owns(ran):
                    details = {"prepared": node, "manager": manager, "in_region": in_region}
                    self.machine.emit(State(), ModelUnprepared, ran, **details)


def _flat(values: Iterable[Value]) -> Iterator[Value]:
    """The values, and those within tuples and lists of them."""
    for value in values:
        if isinstance(value, Items):
            yield from _flat(value.values)
        else:
            yield value
