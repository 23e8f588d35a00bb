"""Models of transformers loaded in float32 although their attention kernel accepts half alone."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import FlashInFloat32, Recipe
from amplint.semantics.models.models import Models, model_guesses, recipe
from amplint.semantics.models.origins import root
from amplint.semantics.models.parameters import stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.tensors import dtype_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Ref, Unknown, Value
from amplint.semantics.words import PRETRAINED
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.attention import CHOSEN_BY, HALF_ALONE


class FlashModels(Tracker):
    """Tracks float32 models with flash attention: the call that `loaded` each, and those `changed` since.

    Casts and escapes change a model.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.loaded: dict[int, cst.Call] = {}
        self.changed: set[int] = set()

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return FlashInFloat32.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that load models, in a file that selects an attention kernel."""
        said = any(CHOSEN_BY in chunk.words for chunk in chunks)
        return Words(frozenset({"from_pretrained"}) if said else frozenset())

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record a loaded model."""
        if not isinstance(call.callee, Ref) or not PRETRAINED.search(call.callee.name):
            return
        chosen = call.arguments.value(CHOSEN_BY)
        asked = call.arguments.value("dtype") or call.arguments.value("torch_dtype")
        dtype = asked.value if isinstance(asked, Const) else dtype_of(self.machine, asked)
        if isinstance(chosen, Const) and chosen.value in HALF_ALONE and dtype == "float32":
            self.loaded[symbol_of(self.machine, result)] = call.node

    def call_begins(self, state: State, call: Call) -> None:
        """Handle a forward pass, a cast or an escape of a loaded model."""
        if not self.loaded:
            return
        if Models in call.notes:
            model, path = call.notes[Models]
            symbol = root(self.machine, symbol_of(self.machine, model))
            if symbol in self.loaded and symbol not in self.changed and self._is_float32(state, model):
                guesses = model_guesses(self.machine, state, model, path)
                made = self.loaded[symbol]
                self.machine.emit(state, FlashInFloat32, call.node, made=made, guesses=guesses)
        for value in call.arguments.values:
            self.changed.add(root(self.machine, symbol_of(self.machine, value)))

    def _is_float32(self, state: State, model: Value) -> bool:
        """Whether a model was not cast, and no region is on."""
        symbol = symbol_of(self.machine, model)
        plain = isinstance(model, Unknown) and stored_in(self.machine, state, symbol) is None
        while plain and symbol != root(self.machine, symbol):
            plain = self.machine.symbols.key(symbol)[0] != "converted" or self.machine.symbols.key(symbol)[1] is None
            symbol = self.machine.symbols.parts(symbol)[0]
        return plain and recipe(self.machine, state, model) is Recipe.OFF
