"""Interpretation of a file: its top level as a script, then every function and class that nothing in it calls."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Set
from functools import partial

from amplint.semantics.events.base import Event
from amplint.semantics.python import attributes, calls
from amplint.semantics.python.definitions import bind_chunks, node_of, rebind_chunk
from amplint.semantics.python.expressions import evaluate
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import STEP_BUDGET, BudgetSpent, Machine, Stopped
from amplint.semantics.python.statements import Flow, run_block, run_body
from amplint.semantics.python.tracker import Tracker, Trackers
from amplint.semantics.reading import demos
from amplint.semantics.reading.idle import idle
from amplint.semantics.reading.parts import AMBIGUOUS_METHODS
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import extreme_names, library_names, relevant, renamed_triggers
from amplint.semantics.reading.slicing import Slice
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Class, Const, Function, Instance, Method, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every

START_LIMIT = 4


def interpret(
    program: Program,
    tell: Callable[[Event], None],
    kinds: Set[str],
    trackers: Iterable[type[Tracker]],
    assuming: Set[str] | None = None,
    seconds: float = math.inf,
    *,
    configs: bool = False,
    halves: bool = False,
    steps: int | None = None,
    supposition: str | None = None,
) -> Stopped | None:
    """Interpret the main file of `program` abstractly; `trackers` call `tell` for every event of one of these `kinds`.

    Beyond `steps` statements or `seconds` of CPU time the rest is skipped, and the result says where that began.

    If `assuming` is not None, tensors of unknown dtype are assumed to be half, and calls of its words are relevant.
    With `configs`, the content of configuration files is used. With `halves`, outputs of models in a region are assumed
    to be half unless their dtype is known. Trackers take `supposition` where the script leaves a choice open that
    contains it; without one choices stay open. Raises SourceError for a part that cannot be parsed.
    """
    machine = Machine(
        program,
        tell,
        kinds,
        partial(Trackers, trackers),
        evaluate,
        run_body,
        assumes=assuming is not None,
        seconds=seconds,
        configs=configs,
        halves=halves,
        steps=steps,
        supposition=supposition,
    )
    chunks, aliases, triggers = program.chunks, program.aliases(), machine.hooks.triggers
    names = extreme_names(chunks, machine.assumes) | renamed_triggers(chunks, triggers) | library_names(chunks)
    names |= assuming or frozenset()
    calls: Set[str] = frozenset()
    watched: Set[str] = frozenset()
    for words_of in machine.hooks.words:
        words = words_of(chunks)
        names, calls, watched = names | words.names, calls | words.calls, watched | words.watched
    machine.relevant = relevant(program, triggers, names | watched, calls, kinds)
    named = {chunk.name for chunk in machine.relevant}
    names |= {alias for alias, name in aliases.items() if name in named} | (triggers - AMBIGUOUS_METHODS)
    machine.slice = Slice((chunk for chunk in chunks if chunk in machine.relevant), names, calls, watched)
    starts = _run_module(machine)
    _run_remaining_roots(machine, starts)
    _run_demonstrations(machine, starts)
    with contextlib.suppress(BudgetSpent):
        for file_ends in machine.hooks.file_ends:
            file_ends(starts)
    machine.close()
    return machine.stopped


def _run_module(machine: Machine) -> list[State]:
    state = State(machine.hooks.parts)
    for script_begins in machine.hooks.script_begins:
        script_begins(state)
    bind_chunks(machine, state)
    state.bind(MODULE_FRAME, "__name__", Const("__main__"))
    states, chunks = [state], machine.program.main.chunks
    skipped = idle(chunks, machine.relevant)
    for chunk in chunks:
        if chunk.name is None and chunk not in skipped:
            machine.chunk = chunk
            try:
                body = [each for each in chunk.module.body if not (machine.assumes and demos.is_demonstration(each))]
                states = run_block(machine, states, body, Flow()) or states
            except BudgetSpent:
                _restart(machine)
        elif chunk.name is not None:
            for each in states:
                rebind_chunk(machine, each, chunk)
    if machine.chunk is not None:
        _round_ends(machine, machine.chunk.module, states)
    for frame_ends in machine.hooks.frame_ends:
        for state in states:
            frame_ends(state, state.frames[MODULE_FRAME].values())
    return machine.merged(states, START_LIMIT)


def _run_demonstrations(machine: Machine, starts: list[State]) -> None:
    """Run the deferred demonstrations, last, so that functions are not known by their arguments alone."""
    unnamed = [chunk for chunk in machine.program.main.chunks if chunk.name is None and chunk in machine.relevant]
    for chunk in unnamed if machine.assumes else ():
        machine.chunk = chunk
        body = [each for each in chunk.module.body if demos.is_demonstration(each)]
        try:
            run_block(machine, [state.copy() for state in starts], body, Flow())
        except BudgetSpent:
            _restart(machine)


def _restart(machine: Machine) -> None:
    machine.hypothetical = False
    machine.steps_left = STEP_BUDGET // 4
    machine.loops = machine.calls = ()


def _run_remaining_roots(machine: Machine, starts: list[State]) -> None:
    """Start from every definition not entered yet: functions first, callers before the functions they mention."""
    chunks = [chunk for chunk in machine.program.main.chunks if chunk.name and chunk in machine.relevant]
    mentioned = {name for chunk in chunks for name in chunk.words if name != chunk.name}
    values = [starts[0].frames[MODULE_FRAME].get(chunk.name or "") for chunk in chunks]
    roots = [value for value in values if isinstance(value, (Function, Class)) and value.chunk in machine.relevant]
    roots += _defined_in_blocks(machine)
    starts = [state.copy() for state in starts]
    for state in starts:
        _called_from_outside(machine, state, None)
        _reopen_globals(machine, state)
    starts = machine.merged(starts, START_LIMIT)

    def order(value: Function | Class) -> tuple[bool, bool, bool]:
        last = machine.assumes and isinstance(value, Function) and demos.is_self_test(value)
        return last, isinstance(value, Class), value.chunk.name in mentioned

    for value in sorted(roots, key=order):
        seen = frozenset(machine.entered)
        for state in starts:
            try:
                if isinstance(value, Class):
                    _run_class(machine, value, state.copy(), seen)
                elif node_of(value) not in seen:
                    for root_begins in machine.hooks.root_begins:
                        root_begins(None, True)
                    _enter(machine, state.copy(), value, None)
            except BudgetSpent:
                _restart(machine)
    _run_nested_roots(machine)


def _reopen_globals(machine: Machine, state: State) -> None:
    """Forget the constants in global variables that functions may have assigned since."""
    table = state.frames[MODULE_FRAME]
    assigned = {name for chunk in machine.program.main.chunks for name in _global_names(chunk)}
    flags = {name for name in assigned if isinstance(table.get(name), Const)}
    if flags:
        state.frames[MODULE_FRAME] = {name: value for name, value in table.items() if name not in flags}


@cached_per_chunk
def _global_names(chunk: Chunk) -> frozenset[str]:
    """The variables of the module that functions in `chunk` declare to assign."""
    declared = every(chunk.module, cst.Global) if "global" in chunk.words else ()
    return frozenset(item.name.value for node in declared for item in node.names)


def _defined_in_blocks(machine: Machine) -> list[Function | Class]:
    """The functions and classes that a `try` or an `if` at the top level defines, not as a script."""
    unnamed = {chunk for chunk in machine.program.main.chunks if chunk.name is None and chunk in machine.relevant}
    found = {node: one for node, one in machine.defined_in_blocks.items() if one.chunk in unnamed}
    return [one for node, one in found.items() if not demos.is_of_script(one.chunk.source, node)]


def _run_nested_roots(machine: Machine) -> None:
    """Start from nested functions that were only passed on, in the state in which their outer function ended."""
    while waiting := [entry for node, entry in machine.nested.items() if node not in machine.entered]:
        for function, state in waiting:
            machine.loops = ()
            machine.forget(state)
            state.regions, state.iteration, state.trail = (), (), None
            try:
                _enter(machine, state, function, None)
            except BudgetSpent:
                _restart(machine)
            assert function.node is not None
            machine.entered.add(function.node)


def _run_class(machine: Machine, cls: Class, state: State, seen: frozenset[cst.CSTNode]) -> None:
    for class_begins in machine.hooks.class_begins:
        class_begins(state, cls)
    methods = [member for member in attributes.members(cls).values() if isinstance(member, cst.FunctionDef)]
    called = {name for method in methods for name in _calls_on_self(method)}
    expecting = {
        method
        for method in methods
        if method.name.value not in called
        and any(has_unseen_callers(cls, method) for has_unseen_callers in machine.hooks.has_unseen_callers)
    }
    waiting = [m for m in methods if (m not in seen or m in expecting) and m.name.value not in attributes.CONSTRUCTORS]
    inherited = _callers_above(machine, state, cls, waiting)
    if not waiting:
        return
    machine.chunk = cls.chunk
    me = Instance(machine.symbols.intern("self", id(node_of(cls))), cls)
    machine.hypothetical = True
    ready = machine.outcomes(state, lambda s: calls.initialise(machine, s, me, Arguments(()), None))
    machine.hypothetical = False
    objects = machine.merged([twin for _, twin in ready] or [state], START_LIMIT)
    before = set(machine.entered)
    whole = attributes.is_whole(machine, state, cls)
    for method in sorted(waiting, key=lambda method: method.name.value in called):
        if method in machine.entered - before and method not in expecting:
            continue
        for start in objects:
            attributes.reopen(machine, start, me)
            for root_begins in machine.hooks.root_begins:
                root_begins(cls, whole)
            _enter(machine, start.copy(), Function(cls.chunk, method, cls.frame, cls), me)
    for function in inherited:
        for start in objects:
            _enter(machine, start.copy(), function, me)


def _callers_above(machine: Machine, state: State, cls: Class, waiting: Iterable[cst.FunctionDef]) -> list[Function]:
    """The methods that a class inherits from others of the tree, and that call a relevant one that it overrides."""
    own = {method.name.value for method in waiting if machine.slice.is_relevant_function(method)}
    found: dict[str, Function] = {}
    for base in attributes.lineage(machine, state, cls)[1:] if own else ():
        members = attributes.members(base)
        overridden = own & members.keys()
        for name, member in members.items() if overridden else ():
            if isinstance(member, cst.FunctionDef) and not overridden.isdisjoint(_calls_on_self(member)):
                found.setdefault(name, Function(base.chunk, member, base.frame, base))
    hidden = attributes.members(cls).keys() | set(attributes.CONSTRUCTORS)
    return [one for name, one in found.items() if name not in hidden and machine.slice.is_relevant_function(one.node)]


@cached_per_file
def _calls_on_self(method: cst.FunctionDef) -> frozenset[str]:
    return frozenset(node.attr.value for node in every(method, cst.Attribute) if isinstance(node.value, cst.Name))


def _called_from_outside(machine: Machine, state: State, me: Instance | None) -> None:
    for unseen_call_begins in machine.hooks.unseen_call_begins:
        unseen_call_begins(state, me)


def _round_ends(machine: Machine, node: cst.CSTNode, states: list[State]) -> None:
    for iteration_ends in machine.hooks.iteration_ends:
        iteration_ends(node, states, False)


def _enter(machine: Machine, state: State, function: Function, me: Instance | None) -> None:
    machine.chunk = function.chunk
    _called_from_outside(machine, state, me)
    positional: list[Value] = []
    if me is not None:
        shares = any(shares_object(me.cls) for shares_object in machine.hooks.shares_object)
        positional = [me] if shares else calls.receiver(Method(me, "", function))
    ends = machine.outcomes(state, lambda s: call_function(machine, s, function, positional, {}, None))
    _round_ends(machine, node_of(function), [end for _, end in ends])
