"""Running averages of model weights: update rates too small for a copy stored in half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from amplint.premises import Premise
from amplint.semantics.events import WeightsAveraged
from amplint.semantics.models.origins import parameter_of, sources
from amplint.semantics.models.parameters import stored_in
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref, Value, number
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.averages import AVERAGERS, MOVES

_HALF = frozenset({"half", "bfloat16", "float16"})
_COPY = "deepcopy"
_CLASSES = frozenset(name.rpartition(".")[2] for name in AVERAGERS)
_WORDS = _CLASSES.union(MOVES, (_COPY,))


class Averages(Tracker):
    """Tracks copies of models and their updates towards the originals."""

    methods = frozenset(MOVES)

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return WeightsAveraged.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that copy weights and update copies, in files that name a half dtype."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        averaged = not said.isdisjoint(_CLASSES) or (_COPY in said and not said.isdisjoint(MOVES))
        return Words(said & _WORDS if averaged and not said.isdisjoint(_HALF) else frozenset())

    def library(self) -> Mapping[str, Handler]:
        """Averaging classes of libraries."""
        return dict.fromkeys(AVERAGERS, self._kept)

    def _kept(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        averager = AVERAGERS[call.callee.name]
        given = call.arguments.value(*averager.weights)
        models = (sources(self.machine, given) or {symbol_of(self.machine, given)}) if given is not None else set()
        decay = call.arguments.get(*averager.decay)
        hidden = any(argument.star for argument in call.arguments.given)
        stays = number(decay.value) if decay is not None else None if hidden else averager.usual
        if len(models) == 1 and stays is not None:
            self._emit_average(state, call, models.pop(), 1 - stays)
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle an in-place multiplication of a parameter, or an interpolation towards another one."""
        keyword, place, stays = MOVES[call.name]
        share = number(call.arguments.value(keyword, place))
        model = parameter_of(self.machine, call.owner) if share is not None and call.owner is not None else None
        if model is not None and share is not None:
            self._emit_average(state, call, model, 1 - share if stays else share)
        return None

    def _emit_average(self, state: State, call: Call, model: int, share: float) -> None:
        stored = stored_in(self.machine, state, model)
        if stored is not None and 0 < share < 0.5:
            dtype, cast = stored
            guesses = self.machine.guesses_for(cast)
            unseen = (Premise.HALF_CHOSEN,) if self._is_chosen(cast) else ()
            self.machine.emit(
                state, WeightsAveraged, call.node, dtype=dtype, share=share, cast=cast, guesses=guesses,
                premises=unseen,
            )  # fmt: skip

    def _is_chosen(self, cast: cst.CSTNode) -> bool:
        """Whether weights are cast in a branch of a function, so perhaps not for every object."""
        source = self.machine.program.source_of(cast)
        for above in source.ancestors(cast) if source is not None else ():
            if isinstance(above, (cst.If, cst.IfExp)):
                return True
            if isinstance(above, cst.FunctionDef):
                return False
        return False
