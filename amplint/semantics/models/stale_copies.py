"""Stale half copies in autocast's cache: weights that change or are stepped after a forward pass cached their copy.

Copies are cached for float32 parameters that require gradients, until the outermost region ends, and neither made nor
used in inference mode.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence, Set

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.events import OutdatedForward, StaleForward
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.models import Models, model_guesses
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.models.origins import parameter_of, root, sources
from amplint.semantics.models.parameters import stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.tensors import converts_to, names_dtype
from amplint.semantics.values.state import Iteration, Part, Region, State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Autocast,
    GradMode,
    Optimizer,
    Value,
)
from amplint.semantics.words import PRETRAINED
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Chunk, Source
from amplint.torchlib.methods import CHANGES_WEIGHTS, CLEARS_COPIES, LOADS_WEIGHTS, SWITCHES_COPIES, TAKES_VECTOR

_FREEZE, _FLAG = "requires_grad_", "requires_grad"
_RECOMPUTES = regex(r"utils\.checkpoint\b|gradient_checkpointing_enable\(|\benable_gradient_checkpointing\(")
"""Code that runs a segment again in the backward pass: a region of its own ends there, and with it the copies."""
_WORDS = CHANGES_WEIGHTS | {LOADS_WEIGHTS, TAKES_VECTOR.rpartition(".")[2], _FREEZE, _FLAG}


@cached_per_file
def _recomputes(source: Source) -> bool:
    return _RECOMPUTES.search(source.text) is not None


_Steps = frozenset[tuple[cst.CSTNode, int, tuple[Premise, ...]]]
"""Steps of optimizers, each with a model that it updates, and what that takes for granted."""


class KeptCopies(Part):
    """The models that ran since the outermost region began, each with the node that changed its weights since.

    `steps` are those of optimizers since then.
    """

    __slots__ = ("ran", "steps")

    def __init__(self, ran: Mapping[int, cst.CSTNode | None] | None = None, steps: _Steps = frozenset()) -> None:
        self.ran = dict(ran or {})
        self.steps = steps

    def copy(self) -> KeptCopies:
        """An independent copy."""
        return KeptCopies(self.ran, self.steps)

    def key(self, now: Iteration) -> Hashable:
        """The models that ran, each with the node that changed its weights, and the steps."""
        return frozenset(self.ran.items()), self.steps

    def clear(self) -> None:
        """Forget everything."""
        self.ran, self.steps = {}, frozenset()

    def joined_with(self, other: KeptCopies) -> KeptCopies:
        """The facts of both paths."""
        return KeptCopies(dict(self.ran.items() & other.ran.items()), self.steps & other.steps)


def stepped(machine: Machine, state: State, node: cst.CSTNode, optimizer: Optimizer, *, scaled: bool) -> None:
    """Handle a step of an optimizer, behind a scaler that is on or not."""
    if state[KeptCopies].ran:
        machine[StaleCopies].steps(state, node, optimizer.symbol, scaled=scaled)


class StaleCopies(Tracker):
    """Tracks the models that run within a region, and changes of their weights there.

    `frozen` models have parameters that do not require gradients at some time, `cast` ones are converted to a dtype
    that is not known. `off` is whether the script switches autocast's cache off.
    """

    part = KeptCopies

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.frozen: set[int] = set()
        self.cast: set[int] = set()
        self.off = False

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return not {StaleForward.kind, OutdatedForward.kind}.isdisjoint(self.machine.wanted)

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that change weights, in files with regions where something other than an optimizer may do so."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        changes = "autocast" in said and ("parameters" in said or "named_parameters" in said or LOADS_WEIGHTS in said)
        return Words(watched=said & _WORDS if changes else frozenset())

    def library(self) -> Mapping[str, Handler]:
        """Calls that clear autocast's cache or switch it off, and calls that change parameters."""
        return {CLEARS_COPIES: self._clear, SWITCHES_COPIES: self._switch, TAKES_VECTOR: self._filled}

    def _clear(self, state: State, call: Call) -> Value | None:
        state.change(KeptCopies).clear()
        return NONE

    def _switch(self, state: State, call: Call) -> Value | None:
        self.off = True
        return NONE

    def _filled(self, state: State, call: Call) -> Value | None:
        for model in sources(self.machine, call.arguments.value("parameters", 1)) or ():
            self._changes(state, call.node, model)
        return NONE

    def call_begins(self, state: State, call: Call) -> None:
        """Handle a forward pass, or a change of weights."""
        if Models in call.notes:
            self._runs(state, call, *call.notes[Models])
        elif call.owner is not None and call.name == _FREEZE and FALSE in call.arguments.values:
            model = parameter_of(self.machine, call.owner)
            self.frozen.add(root(self.machine, symbol_of(self.machine, call.owner) if model is None else model))
        elif call.owner is not None and call.name in ("to", "type") and names_dtype(call.node):
            if converts_to(self.machine, call.name, call.arguments) == (True, None):
                self.cast.add(root(self.machine, symbol_of(self.machine, call.owner)))
        elif call.owner is not None and state[KeptCopies].ran:
            if call.name == LOADS_WEIGHTS and call.arguments.value("assign", 2) is None:
                self._changes(state, call.node, symbol_of(self.machine, call.owner))
            elif call.name in CHANGES_WEIGHTS:
                self._changes(state, call.node, parameter_of(self.machine, call.owner))

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle `parameter.data = ...`, a change, and `parameter.requires_grad = ...`, which prevents caching."""
        if target.attr.value == "data":
            self._changes(state, target, parameter_of(self.machine, owner))
        elif target.attr.value == _FLAG and value != TRUE and (model := parameter_of(self.machine, owner)) is not None:
            self.frozen.add(root(self.machine, model))
        return None

    def _changes(self, state: State, node: cst.CSTNode, model: int | None) -> None:
        symbol = root(self.machine, model) if model is not None else -1
        if symbol in state[KeptCopies].ran:
            state.change(KeptCopies).ran = {**state[KeptCopies].ran, symbol: node}

    def steps(self, state: State, node: cst.CSTNode, optimizer: int, *, scaled: bool) -> None:
        """Record the models that ran and that a step of `optimizer` may update, behind a scaler that is on or not."""
        held = self._held(state, optimizer)
        others = frozenset[int]().union(*(self._held(state, one) for one in self.machine[Optimizers].trained))
        stepped = set[tuple[cst.CSTNode, int, tuple[Premise, ...]]]()
        for model in state[KeptCopies].ran:
            if self._shares(state, model, held) or (not held and not self._shares(state, model, others)):
                certain = scaled or self._is_float32(state, model)
                unseen = (Premise.SAME_MODEL,) if not held else () if certain else (Premise.FLOAT32_WEIGHTS,)
                stepped.add((node, model, unseen))
        state.change(KeptCopies).steps |= stepped

    def _held(self, state: State, optimizer: int) -> Set[int]:
        """The models whose parameters an optimizer got, or that an unseen function got which made it or its groups."""
        trained = self.machine[Optimizers].trained.get(optimizer)
        if trained is not None:
            return trained.models or trained.origins & state[KeptCopies].ran.keys()
        if self.machine.symbols.key(optimizer)[0] != "call":
            return frozenset()
        given = {root(self.machine, part) for part in self.machine.symbols.parts(optimizer)}
        return given & state[KeptCopies].ran.keys()

    def _shares(self, state: State, model: int, held: Set[int]) -> bool:
        """Whether a model is one of those `held`, a part of one, or has one as a part."""
        parts = state.heap.get(model, {}).values()
        return not held.isdisjoint(self._around(model)) or any(
            model in self._around(one) or any(symbol_of(self.machine, part) == one for part in parts) for one in held
        )

    def _around(self, model: int) -> Iterator[int]:
        """A model, and those that it is a part of by its name."""
        yield model
        while self.machine.symbols.key(model)[0] in ("attribute", "index"):
            model = root(self.machine, self.machine.symbols.parts(model)[0])
            yield model

    def _is_float32(self, state: State, model: int) -> bool:
        """Whether the weights of a model are certainly float32, as those that code in sight makes and leaves so."""
        known = state[ModelStates].known.get(model, Model())
        kept = (known.half, known.bfloat16, known.saved, known.frozen, known.perhaps, known.layer, known.part)
        *_, whole = self._around(model)
        kind, *names = self.machine.symbols.key(whole)
        loaded = kind in ("parameter", "either") or (kind == "call" and PRETRAINED.search(str(names[0])) is not None)
        return not loaded and not any(kept) and self.cast.union(self.machine[Models].cast).isdisjoint((model, whole))

    def _runs(self, state: State, call: Call, model: Value, path: cst.BaseExpression) -> None:
        region, entered = innermost(self.machine, state)
        symbol = root(self.machine, symbol_of(self.machine, model))
        shards = state[ModelStates].known.get(symbol, Model()).shards
        if region is None or self.off or keeps_none(state) or symbol in self.frozen or shards is not None:
            return
        if stored_in(self.machine, state, symbol_of(self.machine, model)) is not None:
            return
        steps = [step for step in state[KeptCopies].steps if step[1] == symbol]
        for node, _, premises in steps if not any(map(_recomputes, self.machine.program.sources)) else ():
            guesses = model_guesses(self.machine, state, model, path)
            self.machine.emit(state, OutdatedForward, call.node, step=node, premises=premises, guesses=guesses)
        change = state[KeptCopies].ran.get(symbol)
        if change is not None:
            guesses = model_guesses(self.machine, state, model, path)
            certain = region.enabled == TRUE
            self.machine.emit(
                state, StaleForward, change, forward=call.node, entered=entered, certain=certain, guesses=guesses
            )
        else:
            state.change(KeptCopies).ran = {**state[KeptCopies].ran, symbol: None}

    def contexts_exited(self, state: State, regions: tuple[Region, ...]) -> None:
        """Clear the copies at the end of the outermost region."""
        if state[KeptCopies].ran and not any(isinstance(region.context, Autocast) for region in regions):
            state.change(KeptCopies).clear()

    def forget(self, state: State) -> None:
        """Forget the copies, which unseen code may have cleared."""
        if state[KeptCopies].ran:
            state.change(KeptCopies).clear()


def keeps_none(state: State) -> bool:
    """Whether no copies are cached or used on a path: by `cache_enabled`, or in inference mode."""
    for region in state.regions:
        context = region.context
        if isinstance(context, GradMode) and context.inference:
            return True
        if isinstance(context, Autocast) and isinstance(context.node, cst.Call):
            given = [argument.keyword.value for argument in context.node.args if argument.keyword is not None]
            if "cache_enabled" in given:
                return True
    return False
