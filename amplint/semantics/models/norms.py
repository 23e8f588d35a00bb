"""Batch normalisation within models."""

from __future__ import annotations

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.python.containers import each
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Module, Unknown, Value
from amplint.semantics.words import NORMALISATION_SPARED, NORMALISED_MAKER

_LAYER = regex(r"(?:^|\.)(?:Sync)?BatchNorm(?:[123]d)?$")
_MADE = regex(r"\bBatchNorm[123]d\((?![^()]*track_running_stats)|\bSyncBatchNorm\(")


def keeps_statistics(machine: Machine, state: State, model: Value) -> bool:
    """Whether a layer of `model` keeps running statistics in the dtype of the model's parameters."""
    spared = any(NORMALISATION_SPARED.search(chunk.text) for chunk in machine.program.chunks)
    makers: list[str] = []
    return not spared and (_keeps(machine, state, model, set(), makers) or bool(makers))


def batch_norm_guesses(machine: Machine, state: State, model: Value) -> tuple[Guessed, ...]:
    """The guesses by which `model` has batch normalisation, by the name of its constructor."""
    makers: list[str] = []
    certain = _keeps(machine, state, model, set(), makers)
    return () if certain or not makers else NORMALISED_MAKER.guesses(makers[0], "statistics")


def _keeps(machine: Machine, state: State, value: Value | None, seen: set[int], makers: list[str]) -> bool:
    """Whether visible layers keep running statistics; constructors named after models that do are added to `makers`."""
    if not isinstance(value, (Instance, Module, Unknown)) or value.symbol in seen:
        return False
    seen.add(value.symbol)
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "converted":
            return _keeps(machine, state, Unknown(machine.symbols.parts(value.symbol)[0]), seen, makers)
        if key[0] == "call" and NORMALISED_MAKER.search(str(key[1])):
            makers.append(str(key[1]))
        return False
    if isinstance(value, Instance):
        parts: list[Value | None] = [*state.heap.get(value.symbol, {}).values()]
        found = _MADE.search(value.cls.chunk.text) is not None
    else:
        parts = [*value.parts, each(state, value)]
        found = _LAYER.search(value.cls) is not None
    return found or any(_keeps(machine, state, part, seen, makers) for part in parts)
