"""Unseen clipping and measuring: functions and methods with such a name, called between backward and the step."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.models import models
from amplint.semantics.protocol import clipping
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Instance, Manager, Optimizer, Ref, Scaler, Unknown, Value
from amplint.semantics.words import (
    CLIPPER,
    CLIPS_GRADIENTS,
    MEASURES_GRADIENTS,
    OPTIMIZER_NAME,
    PARAMETERS,
    SCALER,
    SPEAKS_OF_SCALE,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import walk

_OWN = (Scaler, Optimizer, Manager)
"""What knows of scales by itself."""


class NamedClips(Tracker):
    """Takes unseen calls for clipping or measuring, by their names."""

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls of what clips or measures."""
        return Words(calls=frozenset().union(*map(_clippers, chunks)))

    def unseen_begins(self, state: State, call: Call) -> None:
        """Pending gradients are clipped, unless the callee may unscale them itself."""
        name = last_name(call.node.func) or call.name
        says = CLIPS_GRADIENTS.search(name) is not None
        clips = says or CLIPPER.search(name) is not None
        if not (clips or MEASURES_GRADIENTS.search(name)) or isinstance(call.owner, _OWN) or _is_known(call.callee):
            return
        owner = (dotted(call.node.func) or "").rpartition(".")[0]
        spelled = [owner, *(dotted(argument.value) or "" for argument in call.node.args)]
        given = [value for value in call.arguments.values if not isinstance(value, Const)]
        if any(isinstance(value, _OWN) for value in given) or any(map(_knows_scale, spelled)):
            return
        takes_parameters = any(map(_are_parameters, call.node.args))
        if not clips:
            self._measured(state, call, name, takes_parameters)
        elif takes_parameters or says:
            target = given[0] if given else Unknown(self.machine.fresh())
            hidden = isinstance(call.owner, Instance)
            guesses = (CLIPS_GRADIENTS if says else CLIPPER).guesses(name)
            clipping.gradients_read(self.machine, state, call.node, target, "clipped", True, guesses, hidden)
            call.notes[NamedClips] = target, guesses, isinstance(call.callee, Ref)

    def _measured(self, state: State, call: Call, name: str, takes_parameters: bool) -> None:
        """Pending gradients are measured, unless an argument shows that their scale is taken into account."""
        target = next((one for one in call.arguments.values if not isinstance(one, Const)), None)
        texts = [node.value for argument in call.node.args for node in walk(argument) if isinstance(node, cst.Name)]
        if target is None or any(map(SPEAKS_OF_SCALE.search, texts)):
            return
        if (
            takes_parameters
            or clipping.has_optimizer(self.machine, state, target)
            or models.is_model(self.machine, state, target, call.node.args[0].value)
        ):
            guesses = MEASURES_GRADIENTS.guesses(name)
            clipping.gradients_read(self.machine, state, call.node, target, "measured", False, guesses)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Unknown gradients were clipped, whatever else happened in unseen code."""
        if NamedClips in call.notes:
            target, guesses, is_function = call.notes[NamedClips]
            clipping.clipped_by_name(self.machine, state, call.node, target, guesses, is_function)


def _is_known(callee: Value) -> bool:
    return isinstance(callee, Ref) and callee.name.startswith(("torch.", "numpy.", "builtins."))


def _knows_scale(path: str) -> bool:
    return SCALER.search(path) is not None or OPTIMIZER_NAME.search(path) is not None


def _are_parameters(argument: cst.Arg) -> bool:
    """Whether an argument is parameters: `net.parameters()`, `group["params"]`."""
    words = (n.value for n in walk(argument.value) if isinstance(n, (cst.Name, cst.SimpleString)))
    return any(map(PARAMETERS.search, words))


@cached_per_chunk
def _clippers(chunk: Chunk) -> frozenset[str]:
    if "clip" not in chunk.text and "Clip" not in chunk.text and "grad" not in chunk.text:
        return frozenset()
    guesses = (CLIPS_GRADIENTS, CLIPPER, MEASURES_GRADIENTS)
    return frozenset(word for word in chunk.words if any(guess.search(word) for guess in guesses))
