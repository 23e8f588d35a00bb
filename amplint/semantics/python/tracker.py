"""Trackers: what follows one topic of a script, by hooks that the interpreter of Python calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from amplint.records import dataclass
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Part, Region, State
from amplint.semantics.values.values import Class, Function, Instance, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk


@dataclass(slots=True)
class Call:
    """One call: `name` is the method's or attribute's name, empty where a plain name is called.

    `entered` tells what was looked into: a function, a method, a class or an object of the linted tree, None for what
    cannot be seen. `inherited` tells that the method comes from a base class that is not in the tree. `notes` holds
    what trackers remember until the call returns.
    """

    node: cst.Call
    callee: Value
    owner: Value | None
    name: str
    arguments: Arguments
    entered: str | None = None
    inherited: bool = False
    notes: dict[type, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operands:
    """A binary operation: the node of the operator's expression, its kind by libcst's name, and both sides."""

    node: cst.CSTNode
    kind: str
    left: tuple[cst.BaseExpression, Value]
    right: tuple[cst.BaseExpression, Value]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """What makes code relevant: statements with one of the `names`, calls of one of the `calls`.

    A statement with one of the `watched` names is run where it is met, but makes nothing else relevant.
    """

    names: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()


Handler = Callable[[State, Call], "Value | None"]


class Tracker:
    """One topic: its memory of a file, and the hooks that it needs, which run in the order of the list of trackers.

    Hooks that return a value answer for the interpreter: the first answer that is not None counts.
    """

    part: type[Part] | None = None
    """What the tracker knows of a path."""
    methods: frozenset[str] | None = None
    """The names of the methods that `method` is called for, None for any."""
    triggers: frozenset[str] = frozenset()
    """The words that make code relevant to the topic in every file; those that depend on the file are `words`."""

    handles: frozenset[str] = frozenset()
    """The hooks that a kind of tracker overrides."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.handles = frozenset(name for name in _ALL if getattr(cls, name) is not getattr(Tracker, name))

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def is_needed(self) -> bool:
        """Whether the hooks and triggers are needed for the events that are wanted."""
        return True

    # The file

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """What makes code of these chunks relevant to the topic."""
        return Words()

    def library(self) -> Mapping[str, Handler]:
        """Qualified name of a library's function or class -> what its call comes to; None leaves that open."""
        return {}

    def script_begins(self, state: State) -> None:
        """The script begins in `state`."""

    def root_begins(self, owner: Class | None, whole: bool) -> None:
        """Something out of sight will call a function or a method of `owner`; `whole` tells that its bases are seen."""

    def called_from_outside(self, state: State, me: Instance | None) -> None:
        """Something out of sight calls in `state`, on the object `me`."""

    def class_begins(self, state: State, cls: Class) -> None:
        """The methods of `cls` are about to be called from out of sight."""

    def also_from_outside(self, cls: Class, method: cst.FunctionDef) -> bool:
        """Whether something out of sight calls a method in another state than what has called it in sight."""
        return False

    def file_ends(self, starts: Sequence[State]) -> None:
        """Everything has been run; the script itself has ended in `starts`."""

    def describe(self, state: State) -> Mapping[str, object]:
        """Details that every event carries."""
        return {}

    # Calls

    def call_begins(self, state: State, call: Call) -> None:
        """A call whose callee and arguments have been evaluated begins."""

    def call_resolved(self, state: State, call: Call) -> None:
        """The call goes to what is behind a `functools.partial`, if it was one."""

    def unseen_begins(self, state: State, call: Call) -> None:
        """A call of something that is neither a function nor a class or object of the tree begins."""

    def offers(self, name: str) -> bool:
        """Whether `library_call` is to be called for what has this qualified name."""
        return True

    def library_call(self, state: State, call: Call) -> Value | None:
        """What the call of a library's function or class comes to."""

    def module_call(self, state: State, call: Call) -> Value | None:
        """What the call of a `torch.nn` object comes to."""

    def method(self, state: State, call: Call) -> Value | None:
        """What the call of a method out of sight comes to."""

    def subclassed(self, state: State, call: Call, cls: Class, base: Ref) -> Value | None:
        """What the construction of a `cls` that derives from the library's `base` comes to."""

    def unseen(self, state: State, call: Call) -> None:
        """A call that nothing is known of gets its arguments, and its owner."""

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Code that cannot be seen gets these values."""

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """A call of something that cannot be seen has returned, or one of an object of the tree."""

    def entered_returns(self, state: State, call: Call, result: Value) -> None:
        """A call of a function, method or class of the tree has returned."""

    # Functions and classes of the tree

    def function_called(self, state: State, node: cst.CSTNode | None, function: Function) -> None:
        """The call at `node`, None for one from out of sight, is one of `function`."""

    def left_out(self, state: State, function: Function, index: int) -> Value | None:
        """What a parameter is that a call leaves out and that has no default: a decorator may hand it over."""

    def skipped(self, state: State, function: Function, given: Sequence[Value]) -> None:
        """A call of `function` is not followed, since nothing in it matters to what was `given`."""

    def unknown_result(self, made: Unknown) -> None:
        """`made` stands for what an unseen call comes to."""

    def unfollowed(self, function: Function, result: Value) -> None:
        """`result` stands for what a call of `function` returns that was not followed."""

    def annotated(self, symbol: int, name: str) -> Value | None:
        """What an unknown value is that is annotated with the qualified name `name`."""

    def function_returns(self, state: State, value: Value) -> None:
        """A `return` statement returns `value`."""

    def frame_ends(self, state: State, values: Iterable[Value]) -> None:
        """A function whose variables hold `values` ends, or the script does."""

    def function_ends(self, state: State) -> None:
        """A function has ended, and what only it held is gone."""

    def forget(self, state: State) -> None:
        """Anything can have happened out of sight."""

    # Statements and expressions

    def passed_over(self, state: State, statement: cst.CSTNode) -> None:
        """A statement in which nothing matters is not run."""

    def discarded(self, state: State, node: cst.BaseExpression, value: Value) -> None:
        """An expression statement has come to `value`."""

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """`target = ...` has assigned `value`."""

    def given_back(self, node: cst.Call, before: Value) -> Value | None:
        """`target = call(target)` where the call cannot be looked into: what the target holds from here on.

        It held `before`; None leaves it what the call returned.
        """

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """`target += other` and its kind: what takes the place of `other`, None to leave it."""

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`owner.name = value`: what the attribute holds from here on, None to leave it."""

    def stores_apart(self, target: cst.Attribute) -> bool:
        """Whether what is assigned to such an attribute is followed by the tracker alone."""
        return False

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """`owner[...] = value`."""

    def attribute_read(self, state: State, owner: Value, name: str) -> None:
        """`owner.name` is read."""

    def library_name(self, state: State, node: cst.CSTNode, name: str) -> None:
        """`node` uses the library name `name`."""

    def kind_of(self, value: Value, node: cst.Name | cst.Attribute) -> Value | None:
        """What the use of an access path shows an unknown value to be."""

    def member_of(self, owner: Value, name: str) -> Value | None:
        """`owner.name`."""

    def part_of(self, value: Value, index: int) -> Value | None:
        """What unpacking `value` gives at `index`."""

    def collected(self, element: Value) -> Value | None:
        """What a comprehension of such elements is."""

    def item_of(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """`owner[...]`, whose index has not been evaluated yet."""

    def operation(self, state: State, node: cst.Call, name: str, place: cst.BaseExpression, value: Value) -> None:
        """A function of PyTorch, by its qualified name, or a method is called on `value`, which `place` gives."""

    def computation(self, state: State, node: cst.Call, op: str, place: cst.BaseExpression, value: Value) -> None:
        """An operation of PyTorch computes with `value`, which `place` gives."""

    def number_of(self, tensor: Value, number: Value) -> None:
        """`number` is the value of `tensor`, as Python's number or as a tensor that keeps no graph."""

    def binary(self, state: State, operands: Operands) -> Value | None:
        """What a binary operation comes to."""

    def combined(self, state: State, operands: Operands, result: Value) -> Value | None:
        """A binary operation has come to `result`: what takes its place, None to leave it."""

    def unary(self, node: cst.UnaryOperation, value: Value) -> Value | None:
        """`-value` and its kind."""

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """What a comparison with another operator than `is None` comes to."""

    def chosen_apart(self, state: State, sides: tuple[State, State]) -> None:
        """Both sides of a conditional expression have been evaluated, each in a state of its own."""

    def formatted(self, state: State, node: cst.FormattedString, values: Sequence[Value]) -> None:
        """Values are put into a text."""

    def condition(self, node: cst.BaseExpression, value: Value) -> None:
        """The condition `node` has come to `value`."""

    def decided(self, state: State, value: Value, holds: bool) -> None:
        """The path goes on where the condition `value` holds, or does not."""

    def arithmetic(self, node: cst.BinaryOperation, value: Value) -> None:
        """`node` has come to `value`."""

    def joined_name(self, left: Ref | Class, right: Ref | Class) -> Ref | None:
        """The library's name that stands for both names or classes that a variable holds on two paths."""

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """A variable that holds `left` on one path and `right` on another holds `joint` where the paths join."""

    def entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """`value` is entered as a context by a call, a decorator or a `with` statement, there as its `item`."""

    def left(self, state: State, regions: tuple[Region, ...]) -> None:
        """All contexts but `regions` are about to be left."""

    def resumes(self, function: cst.CSTNode) -> bool:
        """Whether a generator goes on with work of the topic behind its `yield`."""
        return False

    # Loops

    def loop_begins(self, node: cst.For, source: int) -> None:
        """A `for` loop goes over what has the symbol `source`."""

    def runs_once(self, source: int) -> bool:
        """Whether a loop over what has the symbol `source` certainly has one round."""
        return False

    def loop_as_whole(self, state: State, node: cst.For) -> bool:
        """Whether the whole effect of a loop is known, and `state` now stands behind it."""
        return False

    def round_begins(self, state: State, loop: cst.For | cst.While, first: bool) -> None:
        """A round of `loop` begins."""

    def round_over(self, state: State) -> None:
        """A path has come to the end of a round."""

    def round_ends(self, node: cst.CSTNode, states: Sequence[State], first: bool) -> None:
        """The paths through a round of the loop `node`, or through a function or file called from outside, end."""

    def next_round(self, state: State, loop: cst.For | cst.While) -> None:
        """`state` stands at the head of `loop` before another round."""

    def loop_ends(self, state: State, loop: cst.For | cst.While) -> None:
        """`loop` is done."""


def call_each(handlers: Iterable[Callable[..., None]], states: Iterable[State], *details: object) -> None:
    """Call the handlers of a hook one after the other, each on all `states`."""
    for handler in handlers:
        for state in states:
            handler(state, *details)


_BY_NAME = frozenset({"is_needed", "library", "library_call", "method", "offers"})
"""What `Trackers` asks or calls by names."""
HOOKS = tuple(
    name
    for name, member in vars(Tracker).items()
    if callable(member) and not name.startswith("_") and name not in _BY_NAME
)
_ALL = (*HOOKS, *_BY_NAME)


class Trackers:
    """The trackers of one interpretation, and by hook the handlers of those that need it."""

    def __init__(self, kinds: Iterable[type[Tracker]], machine: Machine) -> None:
        self.known: dict[type, Tracker] = {}
        for kind in kinds:
            self.known[kind] = kind(machine)
        self.parts = [tracker.part for tracker in self.known.values() if tracker.part is not None]
        self._needed = [tracker for tracker in self.known.values() if tracker.is_needed()]
        self.triggers = frozenset[str]().union(*(tracker.triggers for tracker in self._needed))
        self.library: dict[str, Handler] = {}
        for tracker in self._needed:
            handled = tracker.library()
            assert self.library.keys().isdisjoint(handled), f"{type(tracker).__name__}: another tracker has these names"
            self.library.update(handled)
        handlers: dict[str, list[Callable[..., Any]]] = {name: [] for name in HOOKS}
        for tracker in self._needed:
            for name in tracker.handles:
                if name in handlers:
                    handlers[name].append(getattr(tracker, name))
        self._handlers = {name: tuple(found) for name, found in handlers.items()}
        self._methods: dict[str, tuple[Handler, ...]] = {}
        self._library_calls: dict[str, tuple[Handler, ...]] = {}

    def __getattr__(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """The handlers of a hook, in order."""
        handlers = self._handlers[hook]
        setattr(self, hook, handlers)
        return handlers

    def methods(self, name: str) -> tuple[Handler, ...]:
        """The handlers of calls of methods with this name."""
        found = self._methods.get(name)
        if found is None:
            handling = [tracker for tracker in self._needed if tracker.methods is None or name in tracker.methods]
            found = tuple(tracker.method for tracker in handling if "method" in tracker.handles)
            self._methods[name] = found
        return found

    def library_calls(self, name: str) -> tuple[Handler, ...]:
        """The handlers of calls of what has this qualified name."""
        found = self._library_calls.get(name)
        if found is None:
            handling = [tracker for tracker in self._needed if "library_call" in tracker.handles]
            found = tuple(tracker.library_call for tracker in handling if tracker.offers(name))
            self._library_calls[name] = found
        return found
