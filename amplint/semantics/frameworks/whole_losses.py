"""Losses that subclasses of Hugging Face's Trainer return, and that nothing divides by the number of micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.regex import regex
from amplint.semantics.events import LossLeftWhole
from amplint.semantics.python import attributes
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Ref
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.frameworks import (
    COUNTED,
    COUNTING_MODELS,
    COUNTING_TRAINERS,
    LABELS,
    LOSS_METHOD,
    MODEL_LOSS,
    SAY_HOW_TO_DIVIDE,
)

_STEPS = regex(r"\bgradient_accumulation_steps\s*[=:]\s*(\d+)")


class WholeLosses(Tracker):
    """Finds classes of loops whose loss takes the number of items of a window, and leaves it out of account."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return LossLeftWhole.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The parameter, in a file that loads a model to which the Trainer leaves the division."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        return Words(frozenset({COUNTED}) if any(word.endswith(COUNTING_MODELS) for word in said) else frozenset())

    def class_begins(self, state: State, cls: Class) -> None:
        """Emit `LossLeftWhole` for the method of a class of loops that computes the loss."""
        function = attributes.members(cls).get(LOSS_METHOD)
        lineage = attributes.lineage(self.machine, state, cls)
        bases = [base for one in lineage for base in attributes.bases(self.machine, state, one)]
        known = any(isinstance(base, Ref) and base.name in COUNTING_TRAINERS for base in bases)
        if not known or not isinstance(function, cst.FunctionDef) or not _ignores_count(function):
            return
        if any(not one.chunk.words.isdisjoint(SAY_HOW_TO_DIVIDE) for one in lineage):
            return
        numbers = {int(number) for chunk in self.machine.program.main.chunks for number in _STEPS.findall(chunk.text)}
        if numbers != {1}:
            self.machine.emit(state, LossLeftWhole, function, certain=bool(numbers) and 1 not in numbers)


def _ignores_count(function: cst.FunctionDef) -> bool:
    """Whether a method for batches with labels takes the number of items, and neither uses it nor sums."""
    params = function.params
    if COUNTED not in [param.name.value for param in (*params.params, *params.kwonly_params)]:
        return False
    used = {node.value for node in walk(function.body) if isinstance(node, cst.Name)}
    called = {node.attr.value for node in walk(function.body) if isinstance(node, cst.Attribute)}
    rest = params.star_kwarg.name.value if params.star_kwarg is not None else ""
    words = {node.evaluated_value for node in walk(function.body) if isinstance(node, cst.SimpleString)}
    sums, has_labels = "sum" in words | called, LABELS in words or MODEL_LOSS in called
    return has_labels and not sums and used.isdisjoint({COUNTED, rest}) and LOSS_METHOD not in called
