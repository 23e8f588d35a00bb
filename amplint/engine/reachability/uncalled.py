"""Functions and methods that nothing in their project calls or names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.engine.reachability.lacking import qualified
from amplint.engine.reachability.unreached import GUARD, Unreached
from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.reading.uses import is_in_unused_method
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.semantics.reading.program import Program

_BY_NAME = regex(
    r"(?<![.\w])(?:globals|locals|vars|eval|exec|dir)\(|sys\.modules|__dict__|__import__|import_module|\bFire\(\)|__all__"
)
"""What can call any function of a file by a name that its text does not show."""
_FOR_TESTS = ("test", "Test", "setup", "teardown", "pytest_")
_HARMLESS = ("torch.", "functools.", "contextlib.")
"""Packages whose decorators only wrap a function, and register it nowhere."""


class Uncalled:
    """Answers for one program whether nothing leads to the function in which something happens.

    That is decided for a script, which starts by itself and calls others of its functions. What runs there is its top
    level and what that leads to, by any mention of a name that is not behind an exception. In any file, a method is not
    called whose name nothing else mentions.
    """

    def __init__(self, program: Program, unreached: Unreached) -> None:
        self._program = program
        self._unreached = unreached
        self._dead: frozenset[Chunk] | None = None

    def premise(self, event: Event) -> Premise | None:
        """The premise that something outside the project calls the function of `event`, None if it is called."""
        function = event.calls[0] if event.calls else event.node
        if any(event.sites[:1]) or not self._program.main.owns(function):
            return None
        if is_in_unused_method(self._program, function):
            return Premise.CALLED_OUTSIDE
        if self._dead is None:
            self._dead = self._found()
        dead = self._program.main.chunk_of(function) in self._dead
        return Premise.CALLED_OUTSIDE if dead else None

    def _found(self) -> frozenset[Chunk]:
        """The functions and classes of the linted file that nothing leads to, none if that cannot be told."""
        main = self._program.main
        if not GUARD.search(main.text) or _BY_NAME.search(main.text) or main.filename.endswith(".ipynb"):
            return frozenset()
        left = {chunk.name: chunk for chunk in main.chunks if chunk.name is not None}
        todo = [chunk for chunk in main.chunks if chunk.name is None]
        todo += [left.pop(name) for name, chunk in [*left.items()] if self._is_registered(chunk)]
        own = False
        while todo:
            chunk = todo.pop()
            found = [name for name in left if name != chunk.name and name in chunk.used and self._names(chunk, name)]
            own |= bool(found) and chunk.name is None
            todo += [left.pop(name) for name in found]
        elsewhere = self._program.is_used_elsewhere
        named = [chunk for name, chunk in left.items() if elsewhere(name)] if own else [*left.values()]
        while named:
            chunk = named.pop()
            left.pop(chunk.name or "", None)
            named += [left.pop(name) for name in [*left] if name in chunk.used]
        return frozenset(left.values())

    def _is_registered(self, chunk: Chunk) -> bool:
        """Whether a definition may be called by what it is named, or by what decorates it."""
        definitions = (one for one in chunk.module.body if isinstance(one, (cst.FunctionDef, cst.ClassDef)))
        decorators = (one.decorator for made in definitions for one in made.decorators)
        names = [dotted(one.func if isinstance(one, cst.Call) else one) for one in decorators]
        harmless = all(name is not None and qualified(chunk.source, name).startswith(_HARMLESS) for name in names)
        return not harmless or (chunk.name or "").startswith(_FOR_TESTS)

    def _names(self, chunk: Chunk, name: str) -> bool:
        """Whether what runs of a chunk can name a definition of the file."""
        places = [one for one in every(chunk.module, cst.Name) if one.value == name]
        return not all(map(self._unreached.never_runs, places))
