"""Interpretation of a script for a codemod."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from amplint.codemods.calls import Calls
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.codemods.surroundings import modules
from amplint.engine.modules import Lookups
from amplint.semantics import interpret
from amplint.semantics.events import Backward, Called, Event, ManagedBackward, OptimizerStep, ScalerStep
from amplint.semantics.reading.program import Program
from amplint.source import syntax as cst
from amplint.source.encoding import SourceError
from amplint.torchlib.frameworks import TITLES


class Interpretation:
    """A script with its imports; `calls` resolves its calls once it was interpreted."""

    def __init__(self, script: Script) -> None:
        self.program = Program(script.source, Lookups(modules(), script.source))
        self._source = script.source
        self._resolved: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        self.calls = Calls(script, self._resolved)

    def here(self, event: Event) -> cst.CSTNode:
        """The node of the script that reaches `event`, which may be in another file."""
        if self._source.owns(event.node):
            return event.node
        return event.entered_from or self._source.chunks[0].module

    def backward(self, event: Backward) -> cst.Call:
        """The call of a backward pass in the script itself. Raises Refusal."""
        if not self._source.owns(event.node):
            raise Refusal(self.here(event), "a loss is differentiated in another file")
        if not isinstance(event.node, cst.Call):
            raise Refusal(event.node, "this backward pass is not a plain call")
        return event.node

    def check_step(self, event: OptimizerStep | ScalerStep, closure: str) -> None:
        """Raise Refusal for a step in another file, and with the reason `closure` for one with a closure."""
        if not self._source.owns(event.node):
            raise Refusal(self.here(event), "an optimizer steps in another file")
        if event.closure or (isinstance(event, OptimizerStep) and event.call.args):
            raise Refusal(event.node, f"the optimizer runs a closure, which {closure}")

    def refuse_manager(self, event: ManagedBackward, what: str) -> NoReturn:
        """Raise Refusal for a backward pass run by a framework, which does `what`."""
        raise Refusal(self.here(event), f"{TITLES.get(event.manager.kind, 'the framework')} {what}")

    def follow(self, tell: Callable[[Event], None], *kinds: type[Event]) -> None:
        """Interpret the script and pass its events of these `kinds` to `tell`.

        Raises SourceError if the interpretation does not complete.
        """

        def note(event: Event) -> None:
            if isinstance(event, Called):
                self._resolved.setdefault(event.node, set()).update({event.function} if event.function else ())
            else:
                tell(event)

        stopped = interpret(self.program, note, {Called.kind, *(kind.kind for kind in kinds)})
        if stopped is not None:
            where = f"`{stopped.function}`" if stopped.function else "the top level of the file"
            raise SourceError(f"the analysis stopped in {where} after {stopped.spent}")
