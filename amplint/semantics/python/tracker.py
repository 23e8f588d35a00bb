"""Trackers: analyses of one topic each, by hooks that the interpreter of Python calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from amplint.records import dataclass
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Part, Region, State
from amplint.semantics.values.values import Class, Function, Instance, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk


@dataclass(slots=True)
class Call:
    """A call: `name` is the method's or attribute's name, empty for a plain name.

    `entered` is the kind of callee that was resolved in the linted tree: a function, a method, a class or an object;
    None for an unseen one. `inherited` says that the method comes from a base class outside of the tree. `notes` holds
    trackers' data until the call returns.
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
    """A binary operation: the node of the operator's expression, its kind by libcst's name, and both operands."""

    node: cst.CSTNode
    kind: str
    left: tuple[cst.BaseExpression, Value]
    right: tuple[cst.BaseExpression, Value]
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """Words that make code relevant: statements with one of the `names`, calls of one of the `calls`.

    A statement with one of the `watched` names is run, but makes nothing else relevant.
    """

    names: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    watched: frozenset[str] = frozenset()


Handler = Callable[[State, Call], "Value | None"]


class Tracker:
    """One topic: its state for a file, and the hooks it handles, called in the order of the list of trackers.

    For hooks that return a value, the first one that is not None counts.
    """

    part: ClassVar[type[Part] | None] = None
    """What the tracker knows of a path."""
    methods: ClassVar[frozenset[str] | None] = None
    """The names of the methods that `method` is called for, None for any."""
    triggers: ClassVar[frozenset[str]] = frozenset()
    """The words that make code relevant to the topic in every file; those that depend on the file are `words`."""
    decisive: ClassVar[frozenset[type]] = frozenset()
    """The kinds of values in attributes that make calls with the object that holds them differ."""

    handles: ClassVar[frozenset[str]] = frozenset()
    """The hooks that a kind of tracker overrides."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.handles = frozenset(name for name in _ALL if getattr(cls, name) is not getattr(Tracker, name))

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def is_needed(self) -> bool:
        """Whether the tracker is needed for the events that are wanted."""
        return True

    # The file

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The words that make code of these chunks relevant to the topic."""
        return Words()

    def library(self) -> Mapping[str, Handler]:
        """Qualified name of a library's function or class -> handler of its calls, which may return None."""
        return {}

    def callables(self) -> Mapping[type, Callable[[State, Call], Value]]:
        """Kind of value -> handler of its calls."""
        return {}

    def script_begins(self, state: State) -> None:
        """The script begins in `state`."""

    def root_begins(self, owner: Class | None, whole: bool) -> None:
        """Interpretation of a function, or of a method of `owner`, begins as a call by unseen code.

        `whole` says that all bases of `owner` are known.
        """

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """Unseen code calls in `state`, on the object `me`."""

    def class_begins(self, state: State, cls: Class) -> None:
        """The methods of `cls` are about to be called as by unseen code."""

    def has_unseen_callers(self, cls: Class, method: cst.FunctionDef) -> bool:
        """Whether unseen code calls a method in other states than its visible callers."""
        return False

    def shares_object(self, cls: Class) -> bool:
        """Whether the static methods of a class get one object first, for which its instance stands."""
        return False

    def file_ends(self, starts: Sequence[State]) -> None:
        """Everything was run; the script itself ended in `starts`."""

    def describe(self, state: State) -> Mapping[str, object]:
        """Attributes for every event."""
        return {}

    # Calls

    def call_begins(self, state: State, call: Call) -> None:
        """A call begins; callee and arguments are evaluated."""

    def call_resolved(self, state: State, call: Call) -> None:
        """The callee of a call is known, behind a `functools.partial` if it was one."""

    def unseen_begins(self, state: State, call: Call) -> None:
        """A call begins whose callee is not a function, class or object of the tree."""

    def handles_library_call(self, name: str) -> bool:
        """Whether `library_call` handles this qualified name."""
        return True

    def library_call(self, state: State, call: Call) -> Value | None:
        """The result of a call of a library's function or class."""

    def method(self, state: State, call: Call) -> Value | None:
        """The result of a call of an unseen method."""

    def subclass_instance(self, state: State, call: Call, cls: Class, base: Ref) -> Value | None:
        """The result of constructing a `cls` that derives from the library's `base`."""

    def inherited_call(self, state: State, call: Call, base: Ref) -> Value | None:
        """The result of `super().name(...)` in a class of the file that derives from `base`; None if unknown."""

    def unseen(self, state: State, call: Call) -> None:
        """An unseen callee gets its arguments, and its owner."""

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """These values escape to unseen code."""

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """A call of an unseen callee, or of an object of the tree, returned."""

    def entered_returns(self, state: State, call: Call, result: Value) -> None:
        """A call of a function, method or class of the tree returned."""

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """A call returned `result`: a replacement, None to keep it."""

    # Functions and classes of the tree

    def function_called(self, state: State, node: cst.CSTNode | None, function: Function) -> None:
        """The call at `node`, None for unseen code, is of `function`."""

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether a short function that holds no word of the topic has to be followed for what it is `given`."""
        return False

    def missing_argument(self, state: State, function: Function, index: int) -> Value | None:
        """The value of a parameter without argument and default: a decorator may pass it."""

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """A call of `function` is not followed, since it is irrelevant to its arguments."""

    def unknown_result(self, made: Unknown) -> None:
        """`made` is the result of an unseen call."""

    def unfollowed_returns(self, function: Function, result: Value) -> None:
        """`result` is the result of a call of `function` that was not followed."""

    def unfollowed_value(self, function: Function, given: Sequence[Value]) -> Value | None:
        """What a call of `function` that is not followed returns, where its text tells; None for an unknown value.

        `given` are its arguments by position, as far as they are known.
        """

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """The value of an unknown one annotated with the qualified name `name`."""

    def function_returns(self, state: State, value: Value) -> None:
        """A `return` statement returns `value`."""

    def frame_ends(self, state: State, values: Iterable[Value]) -> None:
        """A frame with the local variables `values`, of a function or the script, ends."""

    def function_ends(self, state: State) -> None:
        """A function ended, and values that only it held are unreachable."""

    def forget(self, state: State) -> None:
        """Unseen code ran, which can have any effect."""

    # Statements and expressions

    def statement_skipped(self, state: State, statement: cst.CSTNode) -> None:
        """An irrelevant statement is not run."""

    def result_discarded(self, state: State, node: cst.BaseExpression, value: Value) -> None:
        """An expression statement has the value `value`."""

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """`target = ...` has assigned `value`."""

    def rebound_result(self, node: cst.Call, before: Value) -> Value | None:
        """`target = call(target)` with an unseen callee: the new value of the target.

        Its old one is `before`; None keeps the call's result.
        """

    def augmented(self, state: State, node: cst.AugAssign, before: Value, other: Value) -> Value | None:
        """`target += other` and the like: a replacement for `other`, None to keep it."""

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`owner.name = value`: the new value of the attribute, None to keep `value`."""

    def owns_attribute(self, target: cst.Attribute) -> bool:
        """Whether assignments to such an attribute are tracked by the tracker alone."""
        return False

    def set_elsewhere(self, value: Value) -> Value | None:
        """The value of an attribute that another method has assigned as `value`, None for the same."""

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """`owner[...] = value`."""

    def attribute_read(self, state: State, owner: Value, name: str) -> None:
        """`owner.name` is read."""

    def library_name(self, state: State, node: cst.CSTNode, name: str) -> None:
        """`node` uses the library name `name`."""

    def kind_of(self, value: Unknown, path: str, kind: str) -> Value | None:
        """The value that `value` is, since other uses of its access `path` imply this `kind` (`scopes.kinds`)."""

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """The value of `owner.name`."""

    def text_value(self, value: Value) -> Value | None:
        """The value of `str(value)`."""

    def unpacked_value(self, value: Value, index: int) -> Value | None:
        """The value at `index` when unpacking `value`."""

    def comprehension_value(self, element: Value) -> Value | None:
        """The value of a comprehension of such elements."""

    def subscript_value(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """The value of `owner[...]`, before its index is evaluated."""

    def operation(self, state: State, node: cst.Call, name: str, place: cst.BaseExpression, value: Value) -> None:
        """A function of PyTorch, by its qualified name, or a method is called on `value`, the expression `place`."""

    def computation(self, state: State, node: cst.Call, op: str, place: cst.BaseExpression, value: Value) -> None:
        """An operation of PyTorch computes with `value`, the expression `place`."""

    def number_read(self, tensor: Value, number: Value) -> None:
        """`number` is the value of `tensor` as a Python number, or detached."""

    def binary(self, state: State, operands: Operands) -> Value | None:
        """The value of a binary operation."""

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """A binary operation has the value `result`: a replacement, None to keep it."""

    def unary(self, node: cst.UnaryOperation, value: Value) -> Value | None:
        """The value of `-value` and the like."""

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """The value of a comparison other than `is None`."""

    def conditional_evaluated(self, state: State, sides: tuple[State, State]) -> None:
        """Both branches of a conditional expression were evaluated, each in its own state."""

    def explores(self, value: Value) -> bool:
        """Whether both sides of a conditional expression are explored if one of them is `value`."""
        return False

    def differ_in_kind(self, left: Value, right: Value) -> bool:
        """Whether the sides of a conditional expression are too different to be joined."""
        return False

    def formatted(self, state: State, node: cst.FormattedString, values: Sequence[Value]) -> None:
        """Values are formatted into a string."""

    def instance_of(self, value: Value, cls: str) -> bool | None:
        """Whether `value` is an instance of the class with the qualified name `cls`, None if that is unknown."""

    def condition(self, node: cst.BaseExpression, value: Value) -> None:
        """The condition `node` has the value `value`."""

    def condition_assumed(self, state: State, value: Value, holds: bool) -> None:
        """The path continues under the assumption that the condition `value` holds, or does not."""

    def arithmetic(self, node: cst.BinaryOperation, value: Value) -> None:
        """`node` has the value `value`."""

    def supposed(self, values: Sequence[Value]) -> int | None:
        """The position of the one of several possible `values` that is supposed, None to leave them open."""

    def supposed_attribute(self, state: State, node: cst.Call, owner: Value, key: Value) -> Value | None:
        """The supposed result of the call `node`, `getattr(owner, key)` with an unknown name."""

    def supposed_paths(self, states: list[State]) -> list[State]:
        """Those of `states`, about to be joined, on which nothing is other than supposed."""
        return states

    def join(self, left: Value, right: Value) -> Value | None:
        """The join of two values of a variable on two paths, None if the topic knows no special one."""

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """`left` and `right`, the values of a variable on two paths, join to `joint`, which is not unknown."""

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """`value` is entered as a context by a call, a decorator or a `with` statement, there as its `item`."""

    def contexts_exited(self, state: State, regions: tuple[Region, ...]) -> None:
        """All contexts except `regions` are about to be exited."""

    def resumes(self, function: cst.CSTNode) -> bool:
        """Whether a generator continues with work of the topic after its `yield`."""
        return False

    # Loops

    def loop_begins(self, node: cst.For, source: int) -> None:
        """A `for` loop over the value with the symbol `source` begins."""

    def unrolls(self, element: Value) -> bool:
        """Whether a loop or comprehension over a few such elements is unrolled, since each has its own state."""
        return False

    def has_parts(self, state: State, owner: Value) -> bool:
        """Whether a loop over a few names is unrolled that looks them up in `owner`, since its attributes differ."""
        return False

    def has_one_iteration(self, source: int) -> bool:
        """Whether a loop over the value with the symbol `source` certainly has one iteration."""
        return False

    def applies_whole_loop(self, state: State, node: cst.For) -> bool:
        """Whether the tracker has applied the whole effect of a loop to `state`."""
        return False

    def iteration_begins(self, state: State, loop: cst.For | cst.While, first: bool) -> None:
        """An iteration of `loop` begins."""

    def iteration_path_ends(self, state: State) -> None:
        """A path reached the end of an iteration."""

    def iteration_ends(self, node: cst.CSTNode, states: Sequence[State], first: bool) -> None:
        """The paths through an iteration of the loop `node`, or through a root function or file, end."""

    def next_iteration(self, state: State, loop: cst.For | cst.While) -> None:
        """`state` is at the head of `loop` before another iteration."""

    def loop_ends(self, state: State, loop: cst.For | cst.While) -> None:
        """`loop` ended."""


def call_each(handlers: Iterable[Callable[..., None]], states: Iterable[State], *details: object) -> None:
    """Call the handlers of a hook one after the other, each on all `states`."""
    for handler in handlers:
        for state in states:
            handler(state, *details)


_BY_NAME = frozenset({"is_needed", "library", "callables", "library_call", "method", "handles_library_call"})
"""What `Trackers` asks or calls by names."""
HOOKS = frozenset(
    name
    for name, member in vars(Tracker).items()
    if callable(member) and not name.startswith("_") and name not in _BY_NAME
)
_ALL = HOOKS | _BY_NAME


class Trackers:
    """The trackers of one interpretation, and, by hook, the handlers of those that are needed."""

    def __init__(self, kinds: Iterable[type[Tracker]], machine: Machine) -> None:
        self.known: dict[type, Tracker] = {}
        for kind in kinds:
            self.known[kind] = kind(machine)
        self.parts = [tracker.part for tracker in self.known.values() if tracker.part is not None]
        self._needed = [tracker for tracker in self.known.values() if tracker.is_needed()]
        self.triggers = frozenset[str]().union(*(tracker.triggers for tracker in self._needed))
        self.decisive = frozenset[type]().union(*(tracker.decisive for tracker in self.known.values()))
        self.library: dict[str, Handler] = {}
        for tracker in self._needed:
            handled = tracker.library()
            twice = sorted(self.library.keys() & handled.keys())
            assert not twice, f"{type(tracker).__name__}: another tracker's library() lists {twice}; use library_call"
            self.library.update(handled)
        self.callables = {kind: called for one in self._needed for kind, called in one.callables().items()}
        self._methods: dict[str, tuple[Handler, ...]] = {}
        self._library_calls: dict[str, tuple[Handler, ...]] = {}

    def __getattr__(self, hook: str) -> tuple[Callable[..., Any], ...]:
        """The handlers of a hook, in order."""
        if hook not in HOOKS:
            raise AttributeError(hook)
        handlers = tuple(getattr(tracker, hook) for tracker in self._needed if hook in tracker.handles)
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
        """The handlers of calls of this qualified name."""
        found = self._library_calls.get(name)
        if found is None:
            handling = [tracker for tracker in self._needed if "library_call" in tracker.handles]
            found = tuple(tracker.library_call for tracker in handling if tracker.handles_library_call(name))
            self._library_calls[name] = found
        return found
