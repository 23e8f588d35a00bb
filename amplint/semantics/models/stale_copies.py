"""Stale half copies in autocast's cache: weights that change after a forward pass cached their copy.

Copies are cached for float32 parameters that require gradients, until the outermost region ends, and neither made nor
used in inference mode.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from amplint.semantics.events import StaleForward
from amplint.semantics.models.models import Models, model_guesses
from amplint.semantics.models.parameters import parameter_of, root, sources, stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.state import Iteration, Part, Region, State
from amplint.semantics.values.values import FALSE, NONE, TRUE, Autocast, GradMode, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.methods import CHANGES_WEIGHTS, CLEARS_COPIES, LOADS_WEIGHTS, TAKES_VECTOR

_FREEZE, _FLAG = "requires_grad_", "requires_grad"
_WORDS = CHANGES_WEIGHTS | {LOADS_WEIGHTS, TAKES_VECTOR.rpartition(".")[2], _FREEZE, _FLAG}


class KeptCopies(Part):
    """The models that ran since the outermost region began, each with the node that changed its weights since."""

    __slots__ = ("ran",)

    def __init__(self, ran: Mapping[int, cst.CSTNode | None] | None = None) -> None:
        self.ran = dict(ran or {})

    def copy(self) -> KeptCopies:
        """An independent copy."""
        return KeptCopies(self.ran)

    def key(self, now: Iteration) -> Hashable:
        """The models that ran, each with the node that changed its weights."""
        return frozenset(self.ran.items())

    def joined_with(self, other: KeptCopies) -> KeptCopies:
        """The facts of both paths."""
        return KeptCopies(dict(self.ran.items() & other.ran.items()))


class StaleCopies(Tracker):
    """Tracks the models that run within a region, and changes of their weights there.

    `frozen` models have parameters that do not require gradients at some time.
    """

    part = KeptCopies

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.frozen: set[int] = set()

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return StaleForward.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that change weights, in files with regions where something other than an optimizer may do so."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        changes = "autocast" in said and ("parameters" in said or "named_parameters" in said or LOADS_WEIGHTS in said)
        return Words(watched=said & _WORDS if changes else frozenset())

    def library(self) -> Mapping[str, Handler]:
        """Calls that clear autocast's cache, and calls that change parameters."""
        return {CLEARS_COPIES: self._clear, TAKES_VECTOR: self._filled}

    def _clear(self, state: State, call: Call) -> Value | None:
        state.change(KeptCopies).ran = {}
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

    def _runs(self, state: State, call: Call, model: Value, path: cst.BaseExpression) -> None:
        region, entered = innermost(self.machine, state)
        symbol = root(self.machine, symbol_of(self.machine, model))
        if region is None or keeps_none(state) or symbol in self.frozen:
            return
        if stored_in(self.machine, state, symbol_of(self.machine, model)) is not None:
            return
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
            state.change(KeptCopies).ran = {}

    def forget(self, state: State) -> None:
        """Forget the copies, which unseen code may have cleared."""
        if state[KeptCopies].ran:
            state.change(KeptCopies).ran = {}


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
