"""One interpretation of a training file."""

from __future__ import annotations

from amplint.engine.modules import Lookups
from amplint.semantics import interpret
from amplint.semantics.events import (
    Accumulation,
    AutocastCreated,
    Backward,
    Called,
    Event,
    Forward,
    ManagedBackward,
    OptimizerStep,
    ScalerCreated,
    ScalerStep,
    ScalerUpdate,
    Unscale,
)
from amplint.semantics.reading.program import Program
from amplint.source import syntax as cst
from amplint.source.encoding import SourceError
from amplint.training.calls import Calls
from amplint.training.script import Script
from amplint.training.surroundings import cached_by_text, modules

_TRAINING = (Backward, ManagedBackward, OptimizerStep, ScalerStep, Accumulation, ScalerUpdate)
_REGIONS = (AutocastCreated, Forward, ScalerCreated, Unscale)


class Interpretation:
    """A script with its imports, the `events` of its training, and its resolved `calls`.

    Raises SourceError if the interpretation does not complete.
    """

    def __init__(self, script: Script) -> None:
        self.program = Program(script.source, Lookups(modules(), script.source))
        self.events: list[Event] = []
        self._resolved: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        self.calls = Calls(script, self._resolved)
        kinds = {kind.kind for kind in (Called, *_TRAINING, *_REGIONS)}
        stopped = interpret(self.program, self._note, kinds)
        if stopped is not None:
            where = f"`{stopped.function}`" if stopped.function else "the top level of the file"
            raise SourceError(f"the analysis stopped in {where} after {stopped.spent}")

    def _note(self, event: Event) -> None:
        if isinstance(event, Called):
            self._resolved.setdefault(event.node, set()).update({event.function} if event.function else ())
        else:
            self.events.append(event)


@cached_by_text
def interpreted(script: Script) -> Interpretation:
    """The interpretation of `script`, which every codemod shares."""
    return Interpretation(script)
