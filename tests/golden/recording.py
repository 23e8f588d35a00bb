"""The events and findings of one program as lines of text.

Each distinct event is a line, in the order of the text: how often something is told, and in which order, is left out.
Places stand for nodes, and the symbols that tell objects apart are left out, as is what says no more than that
something is off, empty or as usual. Of the way that leads to an event there is only what belongs to some event of the
program: steps and decisions are lines of their own.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence, Set

import amplint.semantics
from amplint.engine.deep import call_deep
from amplint.engine.dispatch import Dispatcher
from amplint.engine.registry import load_registry
from amplint.engine.screen import screen, words_of
from amplint.findings import Finding, Fix, Guessed, Note, Span
from amplint.rule import Rule
from amplint.semantics import interpret
from amplint.semantics.events import ApiUse, Called, Event, Evidence, Index, Operand, Returned, ScriptEnd
from amplint.semantics.reading.program import Program
from amplint.semantics.values.values import TRUE, Autocast, Const, Ref, Scaler, Unknown
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import walk

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers())
SEPARATE = frozenset(
    {"node", "statement", "region", "region_with", "steps", "decisions", "idle", "index", "calls", "sites"}
)
"""Fields of every event that are rendered apart from the others, or are the way to it."""
LEFT_OUT = frozenset(
    {
        *("symbol", "Class.chunk", "Class.frame", "Forward.model", "Function.chunk", "Function.frame"),
        *("GradientUse.optimizers", "Optimizer.owner", "ScaleDiscarded.loss", "SchedulerStep.scaler"),
        *("Stage.iteration", "Tensor.plain", "Work.iteration"),
        *("Evidence.guesses", "Evidence.text", "Operation.arguments", "Operation.unrecorded"),
    }
)
"""Numbers that the interpreter gives to objects and rounds as it goes, and what would only say things twice."""
BARE = frozenset(
    {
        *("Evidence.because", "Evidence.dtypes", "Evidence.node", "Gradients.state", "Operand.node", "Operand.value"),
        *("Operation.op", "Operation.operands", "Operation.result", "Stage.state", "Tensor.dtype", "TensorOp.op"),
    }
)
"""Fields whose values speak for themselves."""
NOTHING = (None, False, "", (), frozenset())
_PLAIN = re.compile(r"[\w.]+")


@functools.cache
def kinds() -> Set[str]:
    """Every kind of event but results of calls, which are as many as calls, and which other events use."""
    for module in pkgutil.walk_packages(amplint.semantics.__path__, "amplint.semantics."):
        importlib.import_module(module.name)
    found, todo = set[type[Event]](), Event.__subclasses__()
    while todo:
        kind = todo.pop()
        found.add(kind)
        todo += kind.__subclasses__()
    return frozenset(kind.kind for kind in found - {Returned})


def record(rendering: Rendering, rules: Sequence[type[Rule]], *, assuming: bool) -> tuple[list[str], list[str]]:
    """The events of a program, and the findings of `rules`, with notes and repairs.

    With `assuming`, tensors of unknown dtype are taken for half, as if each of the rules were selected by name.
    """
    program = rendering.program
    asked = {rule.code for rule in rules} if assuming else frozenset[str]()
    chosen = screen(rules, program.main.text.encode(), asked)
    words = words_of(rule for rule in RULES if rule.assumed) if assuming else None
    dispatcher = Dispatcher(program, chosen, {rule.code for rule in chosen} if assuming else frozenset())
    told: list[Event] = []

    def tell(event: Event) -> None:
        told.append(event)
        dispatcher.emit(event)

    call_deep(interpret, program, tell, kinds(), words)
    return rendering.lines(told), [line for finding in dispatcher.findings() for line in _finding(finding)]


class Rendering:
    """The text of the events of one program, once it has been interpreted."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._places: dict[cst.CSTNode, str] = {}
        self._known: set[Chunk] = set()

    def _find(self) -> None:
        """Learn where the nodes of trees stand that have been built since."""
        for source in self.program.sources:
            file = "" if source is self.program.main else f"{source.filename}:"
            for chunk in source.chunks:
                if chunk.has_tree and chunk not in self._known:
                    self._known.add(chunk)
                    self._places.update(_places(chunk, file))

    def lines(self, events: list[Event]) -> list[str]:
        """A line for each distinct event, and for what leads to events."""
        self._find()
        found = {self._event(event) for event in events if not isinstance(event, ApiUse) and not _of_a_library(event)}
        names = defaultdict[str, set[str]](set)
        for event in events:
            if isinstance(event, ApiUse):
                names[self._text(event.node)].add(event.name)
            if event.region is not None:
                found.add(f"{self._text(event.region.node)} region of {self._text(event.region_with)}")
            found.update(f"{self._text(node)} step {words!r}" for node, words in event.steps)
            found.update(f"{self._text(node)} decision" for node in event.decisions)
        found.update(f"{place} api_use {' '.join(_longest(used))}" for place, used in names.items())
        if events:
            found.update(f"{self._text(node)} idle" for node in events[0].idle)
            found.update(self._index(events[0].index))
        return sorted(found, key=_order)

    def _event(self, event: Event) -> str:
        place, statement = self._text(event.node), self._text(event.statement)
        parts = [place, event.kind, *self._fields(event, SEPARATE)]
        if _row(statement) != _row(place) and not isinstance(event, ScriptEnd):
            parts.append(f"statement={statement}")
        if event.region is not None and not isinstance(event, Called):
            parts.append(f"in {self._text(event.region)}")
        return " ".join(parts)

    def _fields(self, value: object, without: Set[str] = frozenset()) -> Iterator[str]:
        kind = type(value)
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            known = getattr(value, field.name)
            named = {field.name, f"{kind.__name__}.{field.name}"}
            usual = NOTHING if field.default is dataclasses.MISSING else (field.default,)
            if field.repr and named.isdisjoint(without | LEFT_OUT) and known not in usual:
                yield self._text(known) if named & BARE else f"{field.name}={self._text(known)}"

    def _text(self, value: object) -> str:
        if isinstance(value, str):  # the most frequent ones come first
            return value if _PLAIN.fullmatch(value) else repr(value)
        if value is None or isinstance(value, (bool, int, float)):
            return repr(value)
        if isinstance(value, tuple):
            return f"[{', '.join(map(self._text, value))}]"
        if isinstance(value, cst.CSTNode):
            return self._places.get(value, "0:0")
        if isinstance(value, Const):
            return repr(value.value)
        if isinstance(value, Ref):
            return value.name
        if isinstance(value, Unknown):
            return "?"
        if isinstance(value, Source):
            return value.filename
        if isinstance(value, Guessed):
            return str(value)
        if isinstance(value, enum.Enum):
            return str(value.value).replace(" ", "_")
        if isinstance(value, Autocast):
            return self._autocast(value)
        if isinstance(value, Scaler):
            return self._scaler(value)
        if isinstance(value, Operand):
            return " ".join(self._fields(value))
        if isinstance(value, Evidence):
            return f"({' '.join(self._fields(value))})"
        if dataclasses.is_dataclass(value):
            return f"{type(value).__name__.lower()}({' '.join(self._fields(value))})"
        if isinstance(value, dict):
            return f"{{{' '.join(sorted(f'{self._text(key)}: {self._text(each)}' for key, each in value.items()))}}}"
        if isinstance(value, (set, frozenset)):
            return f"{{{' '.join(sorted(map(self._text, value)))}}}"
        raise TypeError(f"{type(value).__name__} has no text")

    def _autocast(self, region: Autocast) -> str:
        possible = ["|".join(sorted(each)) if each is not None else "?" for each in (region.devices, region.dtypes)]
        switch = "" if region.enabled == TRUE else f" enabled={self._text(region.enabled)}"
        return f"autocast({self._text(region.node)} {' '.join(possible)}{' by default' * region.defaulted}{switch})"

    def _scaler(self, scaler: Scaler) -> str:
        switch = "" if scaler.enabled == TRUE else f" enabled={self._text(scaler.enabled)}"
        loops = f" loops={self._text(scaler.loops)}" if scaler.loops else ""
        return f"scaler({self._text(scaler.created)}{switch}{loops})"

    def _index(self, index: Index) -> Iterator[str]:
        """Where each object is used; which objects these are is told by nothing but that places belong together."""
        for name in ("scalers", "optimizers", "unscales", "steps", "updates", "backwards"):
            for nodes in getattr(index, name).values():
                places = sorted(set(map(self._text, nodes)), key=_order)
                yield f"{places[0]} index {name} {' '.join(places)}"
        for name, calls in (("halves", index.halves), ("lowered", index.lowered), ("made", index.made.values())):
            yield from (f"{self._text(node)} index {name}" for node in calls)
        for statement, node in index.lifted.items():
            yield f"{self._text(statement)} index lifted {self._text(node)}"


def _places(chunk: Chunk, file: str) -> Iterator[tuple[cst.CSTNode, str]]:
    """Where each node of a chunk stands."""
    for node in walk(chunk.module):
        start = chunk.span(node).start
        yield node, f"{file}{start.row}:{start.column}"


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{_range(finding.span)} {finding.code} {finding.severity.label}: {finding.message}"
    yield from (f"    note {_note(note)}" for note in finding.notes)
    for name, note in (("elsewhere", finding.elsewhere), ("shown", finding.shown)):
        if note is not None:
            yield f"    {name} {_note(note)}"
    yield from (f"    guess {guessed}" for guessed in finding.guesses)
    if finding.fix is not None:
        yield from _fix(finding.fix)


def _fix(fix: Fix) -> Iterator[str]:
    yield f"    fix {fix.applicability.value}: {'; '.join([fix.message, *fix.imports])}"
    yield from (f"    edit {_range(edit.span)} {edit.content!r}" for edit in fix.edits)


def _note(note: Note) -> str:
    return f"{note.filename} {_range(note.span)} {note.message}".strip()


def _range(span: Span) -> str:
    return f"{span.start.row}:{span.start.column}-{span.end.row}:{span.end.column}"


def _longest(names: Set[str]) -> list[str]:
    """The qualified names that are not of a module of another one."""
    return sorted(name for name in names if not any(other.startswith(f"{name}.") for other in names))


def _of_a_library(event: Event) -> bool:
    return isinstance(event, Called) and event.function is None


def _row(place: str) -> str:
    return place.rpartition(":")[0]


def _order(line: str) -> tuple[str, int, int, str]:
    """By file, place and text; a place in another file begins with the file's name."""
    file, row, column = (":" + line.partition(" ")[0]).rsplit(":", 2)
    return file, int(row), int(column), line
