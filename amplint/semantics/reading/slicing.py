"""Slicing: the relevant statements and names; most of a training script prepares, logs and saves.

A statement is relevant if it, or something inside it, is a call that the protocol or a numeric rule knows, calls a
function of the file in which something is relevant, leaves a loop or function, or computes a value that such a
statement uses. A name is decisive if it occurs in a condition around such a statement or switches a region or scaler,
or if such a name is computed from it: paths that differ in no decisive name are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from amplint.semantics.reading.parts import Part, parts_of
from amplint.semantics.words import COUNTS_MICRO_BATCHES
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.names import DTYPES, is_precision

SWITCHED = frozenset({"autocast", "GradScaler", "ShardedGradScaler", "nullcontext", "set_grad_enabled"})


class Slice:
    """The relevant statements and names of a file."""

    def __init__(
        self,
        chunks: Iterable[Chunk],
        names: Set[str] = frozenset(),
        calls: Set[str] = frozenset(),
        watched: Set[str] = frozenset(),
    ) -> None:
        """Statements with one of `names` are relevant; those with one of `watched` are only run."""
        self._names = names
        self._calls = calls
        self._watched = watched
        self._parts: dict[cst.CSTNode, Part] = {}
        self._headers: dict[cst.CSTNode, Part] = {}
        self._simple: list[Part] = []
        self._functions: dict[str, Part] = {}
        self._parameters: dict[str, list[str]] = {}
        for chunk in chunks:
            parts = parts_of(chunk)
            self._parts |= parts.whole
            self._headers |= parts.headers
            self._simple += parts.simple
            self._parameters |= parts.parameters
            for name, part in parts.functions.items():
                self._functions.setdefault(name, Part()).add(part)
        self._calling = self._functions_that_matter(names) | calls
        self._seeing = self._functions_that_matter(names | watched) if watched else self._calling
        waiting = [part for part in [*self._simple, *self._headers.values()] if part.bound]
        self.deciding = _closure(self._conditions(), [(part.bound, self._shown(part)) for part in waiting])
        self._used = _closure(self._uses() | self.deciding, [(part.bound, part.words) for part in waiting])
        scaling = {"scale", *(name for name, part in self._functions.items() if "scale" in part.called)}
        counting = set(filter(COUNTS_MICRO_BATCHES.search, set().union(*(part.words for part in self._simple))))
        read = [part for part in self._simple if part.called & scaling or part.words & counting]
        lost = {name for part in read for name in part.bound}
        self._read = _closure(lost, [(part.words, part.bound) for part in waiting])

    def matters(self, statement: cst.CSTNode) -> bool:
        """Whether a compound statement has to be interpreted."""
        part = self._parts.get(statement)
        if part is None or part.leaves or self._seen(part) or part.bound & self._used:
            return True
        return bool(part.words & self._read)

    def bound(self, statement: cst.CSTNode) -> set[str]:
        """The variables that `statement` or a statement inside it may bind."""
        return self._parts[statement].bound

    def filled(self, statement: cst.CSTNode) -> set[str]:
        """The variables whose attributes `statement` may set by computed names."""
        return self._parts[statement].filled

    def is_relevant_choice(self, options: Set[str]) -> bool:
        """Whether the choice between these dtypes or strings is relevant: a scaler may have to agree with it."""
        return "GradScaler" in self.deciding and all(option in DTYPES or is_precision(option) for option in options)

    def is_relevant_function(self, function: cst.CSTNode | None) -> bool:
        """Whether something in a function or method is relevant."""
        part = self._parts.get(function) if function is not None else None
        return part is not None and self._active(part)

    def mentions(self, statement: cst.CSTNode, words: Set[str]) -> bool:
        """Whether one of `words` occurs in a compound statement."""
        return not self._parts[statement].words.isdisjoint(words)

    def _active(self, part: Part) -> bool:
        return part.triggered or bool(part.called & self._calling or part.words & self._names)

    def _seen(self, part: Part) -> bool:
        return self._active(part) or bool(
            self._watched and (part.hands_scaler or part.called & self._seeing or part.words & self._watched)
        )

    def _functions_that_matter(self, names: Set[str]) -> set[str]:
        found = {
            name
            for name, part in self._functions.items()
            if part.triggered or part.words & names or part.called & self._calls
        }
        parts = [*self._simple, *self._headers.values()]
        renamed = {pair for part in parts for pair in part.renamed}
        for callee, position, name in {one for part in parts for one in part.given if one[0] in self._parameters}:
            renamed.update((parameter, name) for parameter in self._parameters[callee][position : position + 1])
        while True:
            more = {name for name, part in self._functions.items() if name not in found and part.called & found}
            more |= {name for name, function in renamed if name not in found and function in found}
            if not more:
                return found
            found |= more

    def _shown(self, part: Part) -> set[str]:
        return part.words if self._active(part) or part.words & SWITCHED else part.decisive

    def _conditions(self) -> set[str]:
        names: set[str] = set()
        for part in [*self._simple, *self._headers.values()]:
            if part.words & SWITCHED:
                names |= part.words
        for statement, header in self._headers.items():
            whole = self._parts[statement]
            if isinstance(statement, (cst.If, cst.While, cst.With)) and (self._active(whole) or whole.skips):
                names |= header.decisive
        return names

    def _uses(self) -> set[str]:
        names: set[str] = set()
        for part in [*self._simple, *self._headers.values()]:
            if self._active(part):
                names |= part.words
        return names


class Everything(Slice):
    """A slice that leaves no statement out."""

    def __init__(self) -> None:
        super().__init__(())

    def matters(self, statement: cst.CSTNode) -> bool:
        """Always."""
        return True

    def mentions(self, statement: cst.CSTNode, words: Set[str]) -> bool:
        """Never: no statement is skipped."""
        return False

    def bound(self, statement: cst.CSTNode) -> set[str]:
        """None: no statement is skipped."""
        return set()


def _closure(names: Set[str], flows: list[tuple[set[str], set[str]]]) -> frozenset[str]:
    """`names` and every name from which one of them is computed, by the flows from used to bound names."""
    sources: dict[str, list[set[str]]] = {}
    for bound, used in flows:
        for name in bound:
            sources.setdefault(name, []).append(used)
    found = set(names)
    fresh = list(found)
    while fresh:
        for used in sources.pop(fresh.pop(), ()):
            fresh += used - found
            found |= used
    return frozenset(found)
