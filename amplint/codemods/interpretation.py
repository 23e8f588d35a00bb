"""Interpretation of a script for a codemod."""

from __future__ import annotations

from collections.abc import Callable

from amplint.codemods.calls import Calls
from amplint.codemods.script import Script
from amplint.codemods.surroundings import modules
from amplint.engine.modules import Lookups
from amplint.semantics import interpret
from amplint.semantics.events import Called, Event
from amplint.semantics.reading.program import Program
from amplint.source import syntax as cst
from amplint.source.encoding import SourceError


class Interpretation:
    """A script with its imports; `calls` resolves its calls once it was interpreted."""

    def __init__(self, script: Script) -> None:
        self.program = Program(script.source, Lookups(modules(), script.source))
        self._source = script.source
        self._resolved: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        self.calls = Calls(script, self._resolved)

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
