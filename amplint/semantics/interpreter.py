"""Interpreting a file: first its top level as a script, then every function and class that nothing in it calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set

import libcst as cst

from amplint.semantics import (
    attributes,
    calls,
    custom_functions,
    decorators,
    demos,
    half_outputs,
    parameters,
    seams,
    uncleared,
    unended,
    windows,
)
from amplint.semantics.arguments import Arguments
from amplint.semantics.checkpoints import conclude
from amplint.semantics.definitions import bind_chunks, node_of
from amplint.semantics.events import Event, ScriptEnd
from amplint.semantics.expressions import evaluate
from amplint.semantics.functions import call_function
from amplint.semantics.gradients import CLEARED, NO_GRADIENTS
from amplint.semantics.ledger import CheckpointLacksScaler
from amplint.semantics.machine import STEP_BUDGET, BudgetSpent, Machine
from amplint.semantics.operation_events import Operation
from amplint.semantics.program import Program
from amplint.semantics.protocol import forget_everything
from amplint.semantics.reads import may_scale, names_cuda
from amplint.semantics.scopes import (
    LONG_RUN,
    extreme_names,
    library_names,
    model_names,
    position_names,
    relevant,
    renamed_triggers,
    saving_names,
    thread_targets,
)
from amplint.semantics.segment_events import Checkpointed
from amplint.semantics.segments import checkpoint_names
from amplint.semantics.slicing import Slice
from amplint.semantics.state import ANY_OPTIMIZER, MODULE_FRAME, ScalerState, State
from amplint.semantics.statements import Flow, run_block, run_body
from amplint.semantics.subregions import expects_region
from amplint.semantics.values import Class, Const, Function, Instance, Scaler
from amplint.source.tree import every

START_LIMIT = 4
_SWITCHED_OFF = re.compile(r"enabled\s*=\s*False")


def interpret(
    program: Program, tell: Callable[[Event], None], kinds: Set[str], assuming: Set[str] | None = None
) -> None:
    """Run the linted file of `program` abstractly and call `tell` for every event of one of these `kinds`.

    Where `assuming` is given, be it empty, tensors of unknown dtype are taken for half, and calls of its words matter.
    Raises SourceError for a part that cannot be parsed.
    """
    machine = Machine(program, tell, kinds, evaluate, run_body)
    machine.assumes = assuming is not None
    chunks, aliases = program.chunks, program.aliases()
    names = extreme_names(chunks, machine.assumes) | renamed_triggers(chunks) | library_names(chunks)
    names |= assuming or frozenset()
    calls: Set[str] = frozenset()
    if machine.follows_models:
        names |= thread_targets(chunks)
        calls = model_names(chunks) | (half_outputs.loss_names(chunks) if machine.assumes else frozenset())
    if not machine.wanted.isdisjoint(custom_functions.KINDS):
        names |= custom_functions.function_names(chunks)
    names |= seams.words_of(kinds)
    if Checkpointed.kind in kinds:
        names |= checkpoint_names(chunks)
    if Operation.kind in kinds:
        names |= position_names(chunks)
    watched = saving_names(chunks) if CheckpointLacksScaler.kind in kinds else frozenset()
    machine.ledger.watching = bool(watched)
    machine.relevant = relevant(program, names | watched, calls, kinds)
    named = {chunk.name for chunk in machine.relevant}
    names |= {alias for alias, name in aliases.items() if name in named}
    machine.slice = Slice((chunk for chunk in chunks if chunk in machine.relevant), names, calls, watched)
    starts = _run_module(machine)
    _start_everything(machine, starts)
    _run_demonstrations(machine, starts)
    conclude(machine)
    custom_functions.conclude(machine, starts[0])
    unended.conclude(machine)
    uncleared.conclude(machine)
    grown = next((chunk for chunk in program.main.chunks if chunk.grown), None)
    if grown is not None:
        machine.emit(
            State(),
            ScriptEnd,
            grown.module,
            complete=machine.complete,
            may_scale=may_scale(chunks),
            names_cuda=names_cuda(chunks),
        )


def _run_module(machine: Machine) -> list[State]:
    state = State()
    state.gradients[ANY_OPTIMIZER] = CLEARED
    bind_chunks(machine, state)
    state.bind(MODULE_FRAME, "__name__", Const("__main__"))
    states = [state]
    for chunk in machine.program.main.chunks:
        if chunk.name is None and (chunk in machine.relevant or chunk.text.count("\n") <= LONG_RUN):
            machine.chunk = chunk
            try:
                body = [each for each in chunk.module.body if not (machine.assumes and demos.is_demonstration(each))]
                states = run_block(machine, states, body, Flow()) or states
            except BudgetSpent:
                _restart(machine)
    if machine.chunk is not None:
        windows.end_round(machine, machine.chunk.module, states)
    for state in states:
        parameters.leave(machine, state, state.frames[MODULE_FRAME].values())
    return machine.merged(states, START_LIMIT)


def _run_demonstrations(machine: Machine, starts: list[State]) -> None:
    """Run what was left for later, so that what it hands to functions is not all that is known of these."""
    unnamed = [chunk for chunk in machine.program.main.chunks if chunk.name is None and chunk in machine.relevant]
    for chunk in unnamed if machine.assumes else ():
        machine.chunk = chunk
        body = [each for each in chunk.module.body if demos.is_demonstration(each)]
        try:
            run_block(machine, [state.copy() for state in starts], body, Flow())
        except BudgetSpent:
            _restart(machine)


def _restart(machine: Machine) -> None:
    machine.complete = False
    machine.steps_left = STEP_BUDGET // 4
    machine.loops = machine.calls = ()


def _start_everything(machine: Machine, starts: list[State]) -> None:
    """Start from every definition nothing has entered yet: functions first, and callers before what they mention."""
    chunks = [chunk for chunk in machine.program.main.chunks if chunk.name and chunk in machine.relevant]
    mentioned = {name for chunk in chunks for name in chunk.words if name != chunk.name}
    values = [starts[0].frames[MODULE_FRAME].get(chunk.name or "") for chunk in chunks]
    roots = [value for value in values if isinstance(value, (Function, Class)) and value.chunk in machine.relevant]
    starts = [state.copy() for state in starts]
    for state in starts:
        _begin_anew(state)
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
                    machine.undone.began, machine.undone.owner = machine.symbols.tick(), None
                    _enter(machine, state.copy(), value, None)
            except BudgetSpent:
                _restart(machine)
    _start_nested(machine)


def _start_nested(machine: Machine) -> None:
    """Start from the nested functions that were only handed on, where the function around them had come to."""
    while waiting := [entry for node, entry in machine.nested.items() if node not in machine.entered]:
        for function, state in waiting:
            machine.loops = ()
            forget_everything(state)
            state.regions, state.iteration, state.trail = (), (), None
            try:
                _enter(machine, state, function, None)
            except BudgetSpent:
                _restart(machine)
            assert function.node is not None
            machine.entered.add(function.node)


def _run_class(machine: Machine, cls: Class, state: State, seen: frozenset[cst.CSTNode]) -> None:
    decorators.inspect(machine, state, cls)
    methods = [member for member in attributes.members(cls).values() if isinstance(member, cst.FunctionDef)]
    called = {name for method in methods for name in _calls_on_self(method)}
    expecting = set[cst.FunctionDef]()
    if _SWITCHED_OFF.search(cls.chunk.text):
        expecting = {m for m in methods if m.name.value not in called and expects_region(m)}
    waiting = [m for m in methods if (m not in seen or m in expecting) and m.name.value != "__init__"]
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
            machine.undone.began, machine.undone.owner = machine.symbols.tick() if whole else None, cls
            _enter(machine, start.copy(), Function(cls.chunk, method, cls.frame, cls), me)


def _calls_on_self(method: cst.FunctionDef) -> Iterator[str]:
    return (node.attr.value for node in every(method, cst.Attribute) if isinstance(node.value, cst.Name))


def _begin_anew(state: State) -> None:
    """Something out of sight calls: what gradients there are, and what has run, is not known."""
    state.gradients, state.ran = {ANY_OPTIMIZER: NO_GRADIENTS}, ()


def _enter(machine: Machine, state: State, function: Function, me: Instance | None) -> None:
    machine.chunk = function.chunk
    _begin_anew(state)
    held = state.heap.get(me.symbol, {}).values() if me is not None else ()
    for scaler in [value for value in held if isinstance(value, Scaler)]:
        state.scalers[scaler.symbol] = ScalerState(checked=True)
    positional = [me] if me is not None else []
    ends = machine.outcomes(state, lambda s: call_function(machine, s, function, positional, {}, None))
    windows.end_round(machine, node_of(function), [end for _, end in ends])
