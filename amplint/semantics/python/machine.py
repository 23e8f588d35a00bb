"""The shared state of the interpreter: symbols, frames, choices, loops, and the emission of events."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, NoReturn, Protocol, TypeVar

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.python.novelty import Novelty
from amplint.semantics.python.summaries import Summaries
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import kinds_in
from amplint.semantics.reading.slicing import Everything, Slice
from amplint.semantics.values.choices import alternatives, choice_of
from amplint.semantics.values.facts import NOTHING, Fact, Facts
from amplint.semantics.values.state import MODULE_FRAME, STEPS_KEPT, Part, State, Step, Trail, merge
from amplint.semantics.values.symbols import Symbols
from amplint.semantics.values.values import (
    NONE,
    Class,
    Const,
    Function,
    Instance,
    Items,
    Module,
    Ref,
    Several,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source

Result = TypeVar("Result")
T = TypeVar("T")

PATH_LIMIT = 16
CALL_DEPTH = 14
CHOICES_PER_STATEMENT = 24
STEP_BUDGET = 30_000
"""How many statements are run of one file before its parts are run on their own, with a quarter of it after each.

Few files come near it: none of 30 public training scripts takes more than 18,000.
"""
MOST_STEPS = 4 * STEP_BUDGET
"""How many statements are run of one file in all."""
STEPS_PER_LOOK = 8
"""After so many statements the clock is looked at."""
_processor_time = getattr(time, "thread_time", time.process_time)
_clock = time.perf_counter
"""Costs a tenth of looking at the processor time, which never runs ahead of it."""
EXACT_STEPS = 500


_UNKNOWN, _CONSTANTS = (Unknown, Unknown), (Const, Const)
_OPTIONS = frozenset({Class, Instance, Module, Ref, Several})
_LASTS = frozenset({"parameter", "attribute", "name", "index", "item", "each", "made once"})

_MADE = frozenset({"made", "made once", "self", "value"})
"""The keys of symbols of objects whose attributes are known where nothing sets them."""


class Hooks(Protocol):
    """The handlers of trackers, by hook."""

    @property
    def library(self) -> Mapping[str, Callable[..., Value | None]]:
        """The handler of calls of a library's function or class, by qualified name."""

    @property
    def callables(self) -> Mapping[type, Callable[..., Value]]:
        """The handler of calls of a kind of value."""

    @property
    def parts(self) -> Sequence[type[Part]]:
        """The path states of trackers."""

    @property
    def known(self) -> Mapping[type, object]:
        """The trackers by class."""

    @property
    def triggers(self) -> frozenset[str]:
        """The words that make code relevant in every file."""

    @property
    def decisive(self) -> frozenset[type]:
        """The kinds of values in attributes that make calls with the object that holds them differ."""

    def methods(self, name: str) -> tuple[Callable[..., Value | None], ...]:
        """The handlers of calls of methods with this name."""

    def library_calls(self, name: str) -> tuple[Callable[..., Value | None], ...]:
        """The handlers of calls of this qualified name."""

    def __getattr__(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """The handlers of a hook, in order."""


class PathEnds(Exception):
    """The path ends with the current expression."""


class BudgetSpent(Exception):
    """The file's budget is exhausted; findings so far stand."""


@dataclass(frozen=True)
class Stopped:
    """The place where the file's budget was first exhausted.

    `node` is the statement, `function` the name of the function or method around it, empty at the top level of a file,
    and `spent` the exhausted resource: a number of statements, or of seconds.
    """

    node: cst.CSTNode
    function: str
    spent: str


class Choices:
    """The choices made during a statement, so that it can be rerun once for every other combination."""

    def __init__(
        self,
        script: tuple[int, ...],
        todo: list[tuple[int, ...]],
        memory: dict[Hashable, Any],
        budget: list[int],
    ) -> None:
        self.script = script
        self.todo = todo
        self.memory = memory
        self.budget = budget
        self.taken: tuple[int, ...] = ()

    def pick(self, options: int) -> int:
        """The index of one of `options` possibilities; the others are scheduled."""
        position = len(self.taken)
        if position < len(self.script):
            choice = self.script[position]
        else:
            choice = 0
            if self.budget[0] > 0:
                self.budget[0] -= options - 1
                self.todo.extend((*self.taken, other) for other in range(1, options))
        self.taken = (*self.taken, choice)
        return choice


Evaluate = Callable[["Machine", State, cst.CSTNode], Value]
RunBody = Callable[["Machine", State, Sequence[cst.BaseStatement]], list[tuple[Value, State]]]


Sites = tuple[cst.CSTNode | None, ...]
Position = tuple[
    Chunk | None,
    cst.CSTNode | None,
    tuple[cst.CSTNode, ...],
    Choices,
    Sites,
    cst.CSTNode | None,
    tuple[Value | None, ...],
]


class Assumed:
    """The assumptions of a path; those read by a call are recorded in its summary."""

    def __init__(self, machine: Machine, state: State) -> None:
        self._machine = machine
        self._state = state

    def get(self, key: Fact, /) -> Const | None:
        """The fact assumed under `key`; reading one older than the running call is recorded as a dependency."""
        found = self._state.facts.get(key)
        if found is not None and key in self._machine.initial_facts:
            self._machine.interactions += 1
            self._machine.read_facts[key] = found
        return found


class Machine:
    """The interpretation of one file and of the files that it reaches."""

    def __init__(
        self,
        program: Program,
        tell: Callable[[Event], None],
        kinds: Set[str],
        hooks: Callable[[Machine], Hooks],
        evaluate: Evaluate,
        run_body: RunBody,
        *,
        assumes: bool = False,
        seconds: float = math.inf,
        configs: bool = False,
        halves: bool = False,
        steps: int | None = None,
        supposition: str | None = None,
    ) -> None:
        self.program = program
        self.supposition = supposition
        self.configs = configs
        self.halves = halves
        self._make_hooks, self._evaluate, self._run_body = hooks, evaluate, run_body
        self.symbols = Symbols()
        self.muted = False
        self.complete = True
        self._all_steps_left = MOST_STEPS if steps is None else steps
        self.steps_left = min(self._all_steps_left, STEP_BUDGET)
        self.stopped: Stopped | None = None
        self._seconds = seconds
        self._deadline = _processor_time() + seconds
        self._next_clock_check = _clock() + seconds
        self.relevant: set[Chunk] = set()
        self.slice = Slice(())
        self.chunk: Chunk | None = None
        self.statement: cst.CSTNode | None = None
        self.choices = Choices((), [], {}, [0])
        self.tested: tuple[int, ...] = ()
        self.loops: tuple[cst.CSTNode, ...] = ()
        self.calls: tuple[cst.CSTNode, ...] = ()
        self.sites: Sites = ()
        self.entered_from: cst.CSTNode | None = None
        self.flags: tuple[Value | None, ...] = ()
        self.interactions = 0
        self.initial_facts: Set[Fact] = frozenset()
        self.read_facts: dict[Fact, Const] = {}
        self.read_globals: set[str] = set()
        self.summaries = Summaries()
        self.novelty = Novelty(program.emitted if supposition is not None else frozenset())
        program.emitted = self.novelty.event_keys
        self.changing: set[cst.CSTNode] = set()
        self.closed: set[tuple[object, ...]] = set()
        self.entered: set[cst.CSTNode] = set()
        self.idle: set[cst.CSTNode] = set()
        self.cached: set[cst.CSTNode] = set()
        self.nested: dict[cst.CSTNode, tuple[Function, State]] = {}
        self.defined_in_blocks: dict[cst.CSTNode, Function | Class] = {}
        self.lineages: dict[Class, list[Class]] = {}
        self.never_set: set[tuple[Class, str]] = set()
        self.classes: dict[int, Class] = {}
        self.properties_read: set[tuple[int, cst.CSTNode]] = set()
        self.defaults: dict[int, Value] = {}
        self._guesses: dict[int | cst.CSTNode, tuple[Guessed, ...]] = {}
        self.hypothetical = False
        self.assumes = assumes
        self.parents: dict[int, int] = {MODULE_FRAME: MODULE_FRAME}
        self.captured: set[int] = {MODULE_FRAME}
        self.variables: dict[tuple[int, str], Value] = {}
        self._frames: dict[Source, int] = {program.main: MODULE_FRAME}
        self._modules: dict[int, Source] = {MODULE_FRAME: program.main}
        self._emit_event = tell
        self.wanted = kinds
        self._kinds: dict[Chunk, dict[str, str]] = {}
        self.hooks = hooks(self)
        self.evaluate: Callable[[State, cst.CSTNode], Value] = partial(evaluate, self)
        """The value of an expression (`expressions.evaluate`)."""

    def sibling(self, tell: Callable[[Event], None], kinds: Set[str], steps: int) -> Machine:
        """A machine for the same program that follows everything and shares symbols and frames, but no findings."""
        made = Machine(self.program, tell, kinds, self._make_hooks, self._evaluate, self._run_body, steps=steps)
        self.program.emitted = self.novelty.event_keys
        made.symbols, made.parents, made.lineages = self.symbols, self.parents, self.lineages
        made._frames, made._modules = self._frames, self._modules
        made.relevant, made.slice = {*self.program.chunks}, Everything()
        return made

    def close(self) -> None:
        """Release the trackers, which refer to the machine, so that trees are freed without the garbage collector."""
        del self.hooks, self.evaluate

    def __getitem__(self, kind: type[T]) -> T:
        """The tracker of this class."""
        return self.hooks.known[kind]  # type: ignore[return-value]

    def run_body(self, state: State, body: Sequence[cst.BaseStatement]) -> list[tuple[Value, State]]:
        """Every return of a function body, with the returned value (`statements.run_body`)."""
        return self._run_body(self, state, body)

    def kinds(self) -> dict[str, str]:
        """The kinds implied by the use of names in the current chunk (`scopes.kinds`)."""
        if self.chunk is None:
            return {}
        found = self._kinds.get(self.chunk)
        if found is None:
            found = self._kinds[self.chunk] = kinds_in(self.chunk)
        return found

    def merged(self, states: list[State], limit: int) -> list[State]:
        """`states` with indistinguishable ones joined; exact while little of the budget is spent."""
        if len(states) > 1:
            for supposed_paths in self.hooks.supposed_paths:
                states = supposed_paths(states)
        exact = bool(self.loops) and self.steps_left > STEP_BUDGET - EXACT_STEPS
        return merge(states, limit, self.slice.deciding, self, exact)

    def supposed(self, values: Sequence[Value]) -> int | None:
        """The position of the one of several possible `values` that a tracker supposes, None to leave them open."""
        for supposed in self.hooks.supposed:
            position: int | None = supposed(values)
            if position is not None:
                return position
        return None

    def record_guesses(self, about: int | cst.CSTNode, guesses: tuple[Guessed, ...]) -> None:
        """Record the guesses for a symbol or a node; an empty tuple records that it is known.

        A value once known is never a guess again.
        """
        self._guesses[about] = self._guesses.get(about, guesses) if guesses else ()

    def guesses_for(self, *about: int | cst.CSTNode) -> tuple[Guessed, ...]:
        """The guesses that these depend on."""
        return tuple(dict.fromkeys(found for one in about for found in self._guesses.get(one, ())))

    def forget(self, state: State) -> None:
        """Unseen code ran, which can have any effect."""
        self.interactions += 1
        for forget in self.hooks.forget:
            forget(state)

    def forget_facts_since(self, state: State, time: int) -> None:
        """Drop the assumptions of `state` about values created at `time` or later."""
        state.facts = {
            key: fact
            for key, fact in state.facts.items()
            if self.symbols.time(key if isinstance(key, int) else key[1]) < time
        }

    def assumed(self, state: State) -> Assumed:
        """The assumptions of a path."""
        return Assumed(self, state)

    def spend(self) -> None:
        """Account for one statement. Raises BudgetSpent."""
        self.steps_left -= 1
        self._all_steps_left -= 1
        if self.steps_left < 0 or self._all_steps_left < 0:
            self._stop(f"{STEP_BUDGET:,} statements")
        if self._all_steps_left % STEPS_PER_LOOK == 0 and _clock() > self._next_clock_check:
            left = self._deadline - _processor_time()
            if left < 0:
                self._stop(f"{self._seconds:g} seconds")
            self._next_clock_check = _clock() + left

    def _stop(self, spent: str) -> NoReturn:
        self.complete = False
        if self.stopped is None and self.statement is not None:
            self.stopped = Stopped(self.statement, self._running(), spent)
        raise BudgetSpent

    def _running(self) -> str:
        """The name of the running function or method, empty at the top level."""
        node = self.calls[-1] if self.calls else None
        if not isinstance(node, cst.FunctionDef):
            return ""
        cls = self.chunk.name if self.chunk is not None and self.chunk.is_class else None
        return f"{cls}.{node.name.value}" if cls else node.name.value

    def unknown(self, *key: Hashable, parts: tuple[int, ...] = ()) -> Unknown:
        """The unknown result of an operation on `parts`."""
        return Unknown(self.symbols.intern(*key, parts=parts))

    def identity(self, state: State, node: cst.CSTNode, kind: str = "made") -> int:
        """The symbol of an object created at `node`: the same on every path in this call and iteration."""
        now = self.symbols.tick()
        if self.is_in_cached_function():
            return self.symbols.intern(f"{kind} once", id(node))
        return self.symbols.intern(kind, id(node), self.sites, state.iteration, time=now)

    def is_in_cached_function(self) -> bool:
        """Whether a cached function is running: its objects persist, and later calls return the same."""
        return not self.cached.isdisjoint(self.calls)

    def is_created_on_path(self, symbol: int) -> bool:
        """Whether `symbol` was created on the path, rather than reached through an older value."""
        return self.symbols.key(symbol)[0] not in _LASTS

    def unset_value(self, owner: int, name: str) -> Value | None:
        """The attribute or item `name` of the object `owner` where nothing sets it, None for objects made in sight."""
        if owner < 0 or self.symbols.key(owner)[0] in _MADE:
            return None
        if name.isidentifier():
            return self.unknown("attribute", name, parts=(owner,))
        if name.startswith("['"):
            key = self.symbols.intern("value", Const(ast.literal_eval(name[1:-1])))
            return self.unknown("index", parts=(owner, key))
        return None

    def joined_value(self, left: Value, right: Value, ours: Facts = NOTHING, theirs: Facts = NOTHING) -> Value:
        """The join of `left` and `right`, the values of a variable on two paths with the facts `ours` and `theirs`.

        None joins to the object, since only that can be used.
        """
        joint = self._joined_value(left, right)
        if type(joint) is not Unknown:
            for joined in self.hooks.joined:
                joined(left, right, joint)
        elif not _OPTIONS.isdisjoint((type(left), type(right))):
            return choice_of(joint.symbol, (left, right), (ours, theirs)) or joint
        return joint

    def _joined_value(self, left: Value, right: Value) -> Value:
        kinds = type(left), type(right)
        if kinds == _UNKNOWN:
            return Unknown(self.joined_symbol(left, right))
        if Const in kinds and kinds != _CONSTANTS and NONE in (left, right):
            return right if left == NONE else left
        for join in self.hooks.join:
            known: Value | None = join(left, right)
            if known is not None:
                return known
        if (one_of := alternatives((left, right))) is not None:
            return one_of
        if isinstance(left, Items) and isinstance(right, Items) and _are_alike(left, right):
            return Items(tuple(map(self._joined_value, left.values, right.values)), left.keys)
        return Unknown(self.joined_symbol(left, right))

    def joined_symbol(self, left: Value, right: Value) -> int:
        """The symbol of the join of two values."""
        a, b = getattr(left, "symbol", None), getattr(right, "symbol", None)
        if a is None or b is None:
            return self.symbols.intern("either", left, right)
        return self.symbols.intern("either", parts=(a, b))

    def fresh(self) -> int:
        """A new symbol."""
        return self.symbols.fresh()

    def outcomes(self, state: State, run: Callable[[State], Result]) -> list[tuple[Result, State]]:
        """Every result of `run` on copies of `state`, one for each combination of choices.

        Paths that end are dropped.
        """
        outer = self.choices
        todo: list[tuple[int, ...]] = [()]
        memory: dict[Hashable, Any] = {}
        budget = [CHOICES_PER_STATEMENT]
        results: list[tuple[Result, State]] = []
        try:
            while todo:
                self.choices = Choices(todo.pop(), todo, memory, budget)
                twin = state.copy()
                try:
                    results.append((run(twin), twin))
                except PathEnds:
                    continue
        finally:
            self.choices = outer
        return results

    @property
    def position(self) -> Position:
        """The position of the interpretation, restored at the end of a call."""
        return self.chunk, self.statement, self.calls, self.choices, self.sites, self.entered_from, self.flags

    @position.setter
    def position(self, position: Position) -> None:
        self.chunk, self.statement, self.calls, self.choices, self.sites, self.entered_from, self.flags = position

    def module(self, state: State) -> Source:
        """The file whose names the current code sees."""
        *_, outermost = self.enclosing(state.frame)
        return self._modules[outermost]

    def enclosing(self, frame: int) -> Iterator[int]:
        """`frame` and the frames around its function, up to that of its module."""
        yield frame
        while (above := self.parents[frame]) != frame:
            yield above
            frame = above

    def frame_of(self, source: Source) -> int:
        """The frame of a module's globals."""
        if source not in self._frames:
            frame = self._frames[source] = len(self.parents)
            self.parents[frame] = frame
            self._modules[frame] = source
            self.captured.add(frame)
        return self._frames[source]

    def new_frame(self, function: Function) -> int:
        """A new frame for a call of `function`."""
        number = len(self.parents)
        self.parents[number] = function.frame
        return number

    def is_assigned(self, node: cst.IfExp | cst.Subscript | cst.Call) -> bool:
        """Whether the current statement assigns or returns a choice, also in a branch or a call, or what that calls.

        In a `with` statement it is within an expression for a context manager.
        """
        small = self.statement.body if isinstance(self.statement, cst.SimpleStatementLine) else ()
        todo: list[cst.CSTNode | None] = [
            one.value for one in small if isinstance(one, (cst.Assign, cst.AnnAssign, cst.Return))
        ]
        if isinstance(self.statement, cst.With):
            todo += [item.item for item in self.statement.items]
        while todo:
            value = todo.pop()
            if value is node:
                return True
            if isinstance(value, cst.IfExp):
                todo += [value.body, value.orelse]
            elif isinstance(value, cst.Call):
                todo += [value.func, *(argument.value for argument in value.args)]
        return False

    def lookup(self, state: State, name: str) -> Value | None:
        """The value of a variable in the current frame or an outer one, None if it is unbound."""
        frames, parents, frame = state.frames, self.parents, state.frame
        while True:
            table = frames.get(frame)
            if frame == MODULE_FRAME:
                self.read_globals.add(name)
            if table is not None and (found := table.get(name)) is not None:
                return found
            above = parents[frame]
            if above == frame:
                return None
            frame = above

    def emit(self, state: State, kind: type[Event], node: cst.CSTNode, **details: Any) -> None:
        """Emit an event at `node`."""
        if self.muted:
            return
        self.novelty.record(kind, node, details)
        if kind.kind not in self.wanted:
            return
        statement = self.statement if self.statement is not None else node
        steps, decisions = _recent(state.trail)
        self._emit_event(
            kind(
                node=node,
                statement=statement,
                steps=steps,
                decisions=decisions,
                idle=self.idle,
                entered_from=self.entered_from,
                calls=self.calls,
                sites=self.sites,
                **{name: value for describe in self.hooks.describe for name, value in describe(state).items()},
                **details,
            )
        )


def _recent(trail: Trail | None) -> tuple[tuple[Step, ...], frozenset[cst.CSTNode]]:
    steps: list[Step] = []
    decisions: set[cst.CSTNode] = set()
    while trail is not None and len(steps) < STEPS_KEPT:
        steps.append(trail.step)
        if trail.side is not None:
            decisions.add(trail.step[0])
        trail = trail.before
    return tuple(reversed(steps)), frozenset(decisions)


def _are_alike(left: Items, right: Items) -> bool:
    """Whether two non-empty displays have the same keys or the same length."""
    return left.keys == right.keys and 0 < len(left.values) == len(right.values)
