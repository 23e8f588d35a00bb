"""Statements: execution of a block on sets of paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from amplint.records import dataclass
from amplint.semantics.python import constants, definitions
from amplint.semantics.python.attributes import fill, find_method
from amplint.semantics.python.containers import MOST_UNROLLED, each, unrolled_elements
from amplint.semantics.python.expressions import assign, decide, evaluate, test
from amplint.semantics.python.functions import MANAGER, call_function, leave
from amplint.semantics.python.interruptions import interrupted
from amplint.semantics.python.machine import PATH_LIMIT, Machine
from amplint.semantics.python.novelty import Patience
from amplint.semantics.python.operators import operate
from amplint.semantics.python.tracker import call_each
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.bodies import statements
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.heads import Heads
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    NONE,
    Class,
    Const,
    Entered,
    Function,
    Instance,
    Items,
    Ref,
    Unknown,
    Value,
    settings,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every

LOOP_ROUNDS = 3
LOOPS = Patience(runs=3, steps=100)
"""When a loop is run once only."""
LATER_ROUNDS = Patience(runs=1, steps=100)
"""When the rounds after the first are left out of a loop whose first round has emitted no new event."""
PATHS_APART = 4
"""As many paths run a loop each by itself; more of them run it together."""


@dataclass
class Flow:
    """The paths that leave a block other than at its end."""

    returns: list[tuple[Value, State]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    raises: list[State] = field(default_factory=list)


def run_block(machine: Machine, states: list[State], body: Sequence[cst.BaseStatement], flow: Flow) -> list[State]:
    """Run `body` on every path; return those that reach its end and add the others to `flow`."""
    for statement in body:
        if not states:
            break
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                states = _run_simple(machine, states, statement, small, flow)
        elif not machine.slice.matters(statement):
            for state in states:
                for name in machine.slice.bound(statement):
                    state.bind(state.frame, name, Unknown(machine.fresh()))
                for name in machine.slice.filled(statement):
                    fill(machine, state, evaluate(machine, state, cst.Name(name)))
                for statement_skipped in machine.hooks.statement_skipped:
                    statement_skipped(state, statement)
        else:
            machine.statement = statement
            states = _COMPOUND[type(statement)](machine, states, statement, flow)
            states = machine.merged(states, PATH_LIMIT)
    return states


def run_body(machine: Machine, state: State, body: Sequence[cst.BaseStatement]) -> list[tuple[Value, State]]:
    """Run a function body; return every final state with the returned value."""
    flow = Flow()
    ends = run_block(machine, [state], body, flow)
    return [*flow.returns, *((NONE, end) for end in ends)]


def _run_simple(
    machine: Machine, states: list[State], line: cst.SimpleStatementLine, node: cst.BaseSmallStatement, flow: Flow
) -> list[State]:
    run = _SIMPLE.get(type(node))
    if run is None:
        return states
    after: list[State] = []
    for state in states:
        machine.spend()
        machine.statement = line
        for leaves, twin in machine.outcomes(state, lambda s: run(machine, s, node)):
            if leaves is None:
                after.append(twin)
            elif leaves == "break":
                flow.breaks.append(twin)
            elif leaves == "continue":
                flow.continues.append(twin)
            elif leaves == "raise":
                flow.raises.append(twin)
            elif isinstance(leaves, tuple):
                flow.returns.append((leaves[0], twin))
    return machine.merged(after, PATH_LIMIT) if len(after) > len(states) else after


Leaving = None | str | tuple[Value]


def _expression(machine: Machine, state: State, node: cst.Expr) -> Leaving:
    value = evaluate(machine, state, node.value)
    if isinstance(node.value, cst.Yield) and MANAGER in state.frames[state.frame]:
        return (value,)
    for result_discarded in machine.hooks.result_discarded:
        result_discarded(state, node.value, value)
    return None


def _assignment(machine: Machine, state: State, node: cst.Assign) -> Leaving:
    value = _given_back(machine, state, node, evaluate(machine, state, node.value))
    for target in node.targets:
        assign(machine, state, target.target, constants.assigned(machine, state, target.target, value, node.value))
        for assigned in machine.hooks.assigned:
            assigned(state, node, target.target, value)
    return None


def _given_back(machine: Machine, state: State, node: cst.Assign, value: Value) -> Value:
    """`value`, or its replacement by a tracker if it is assigned to an argument of the call that returns it."""
    if not isinstance(node.value, cst.Call) or not isinstance(value, Unknown) or not machine.hooks.rebound_result:
        return value
    path = dotted(node.targets[0].target)
    for argument in node.value.args if path is not None else ():
        if dotted(argument.value) == path:
            before = evaluate(machine, state, argument.value)
            for rebound_result in machine.hooks.rebound_result:
                value = rebound_result(node.value, before) or value
    return value


def _annotated(machine: Machine, state: State, node: cst.AnnAssign) -> Leaving:
    if node.value is not None:
        value = evaluate(machine, state, node.value)
        assign(machine, state, node.target, constants.assigned(machine, state, node.target, value, node.value))
    return None


def _augmented(machine: Machine, state: State, node: cst.AugAssign) -> Leaving:
    name = type(node.operator).__name__.removesuffix("Assign")
    operator = getattr(cst, name, cst.Add)
    before = evaluate(machine, state, node.target)
    other = evaluate(machine, state, node.value)
    for augmented in machine.hooks.augmented:
        other = augmented(state, node, before, other) or other
    value = operate(machine, state, node, operator, (node.target, before), (node.value, other), in_place=True)
    assign(machine, state, node.target, value)
    return None


def _return(machine: Machine, state: State, node: cst.Return) -> Leaving:
    value = evaluate(machine, state, node.value) if node.value else NONE
    for function_returns in machine.hooks.function_returns:
        function_returns(state, value)
    return (value,)


def _raise(machine: Machine, state: State, node: cst.Raise) -> Leaving:
    return "raise"


def _break(machine: Machine, state: State, node: cst.Break) -> Leaving:
    return "break"


def _continue(machine: Machine, state: State, node: cst.Continue) -> Leaving:
    return "continue"


def _assert(machine: Machine, state: State, node: cst.Assert) -> Leaving:
    return None if decide(machine, state, node.test) else "raise"


def _delete(machine: Machine, state: State, node: cst.Del) -> Leaving:
    target = node.target
    if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name) and len(target.slice) == 1:
        owner, index = settings(evaluate(machine, state, target.value)), target.slice[0].slice
        key = evaluate(machine, state, index.value) if isinstance(index, cst.Index) else None
        if owner is not None and isinstance(key, Const):
            assign(machine, state, target.value, owner.without(key))
    return None


def _import(machine: Machine, state: State, node: cst.Import | cst.ImportFrom) -> Leaving:
    definitions.bind_import(machine, state, node)
    return None


_SIMPLE: dict[type[cst.CSTNode], Callable[..., Leaving]] = {
    cst.Expr: _expression,
    cst.Assign: _assignment,
    cst.AnnAssign: _annotated,
    cst.AugAssign: _augmented,
    cst.Return: _return,
    cst.Raise: _raise,
    cst.Break: _break,
    cst.Continue: _continue,
    cst.Assert: _assert,
    cst.Del: _delete,
    cst.Import: _import,
    cst.ImportFrom: _import,
}


def _if(machine: Machine, states: list[State], node: cst.If, flow: Flow) -> list[State]:
    taken: list[State] = []
    skipped: list[State] = []
    for state in states:
        machine.spend()
        machine.statement = node
        outcomes = test(machine, state, node.test)
        for (holds, tested), twin in outcomes:
            side = "true" if holds else "false"
            message = f"on the path where this is {side}" if len(outcomes) > 1 else ""
            twin.note(node.test, message, side=holds, tested=tested)
            (taken if holds else skipped).append(twin)
    taken = run_block(machine, taken, statements(node.body), flow)
    if isinstance(node.orelse, cst.If):
        skipped = _if(machine, skipped, node.orelse, flow) if skipped else []
    elif node.orelse is not None:
        skipped = run_block(machine, skipped, statements(node.orelse.body), flow)
    return taken + skipped


def _loop(
    machine: Machine,
    states: list[State],
    node: cst.For | cst.While,
    flow: Flow,
    begin: Callable[[State], list[State]],
    endless: bool = False,
    once: bool = False,
) -> list[State]:
    """Run a loop until its head has seen every distinct state, or `once`; at least one iteration is assumed."""
    outer_iterations = states[0].iteration if states else ()
    machine.loops = (*machine.loops, node)
    exits: list[State] = []
    broken: list[State] = []
    seen = Heads(machine.slice.deciding)
    events_before, left = machine.novelty.event_count, machine.steps_left
    once = once or machine.novelty.is_over(node, LOOPS)
    later = node, states[0].regions if states else (), machine.flags
    events_after_first, left_after_first = events_before, left
    heads = states
    for state in heads:
        seen.is_new(state)
    for time in range(LOOP_ROUNDS):
        started = machine.symbols.tick()
        entered: list[State] = []
        for head in heads:
            twin = head.copy()
            twin.iteration = (*outer_iterations, started)
            for iteration_begins in machine.hooks.iteration_begins:
                iteration_begins(twin, node, time == 0)
            entered.extend(begin(twin))
        inside = Flow(returns=flow.returns, raises=flow.raises)
        after = run_block(machine, entered, statements(node.body), inside) + inside.continues
        call_each(machine.hooks.iteration_path_ends, after)
        after = machine.merged(after, PATH_LIMIT)
        for iteration_ends in machine.hooks.iteration_ends:
            iteration_ends(node, after, time == 0)
        whole = after if once or time else [one for one in after if not _is_one_by_name(machine, one, node)] or after
        for state in after + inside.breaks:
            state.iteration = outer_iterations
            machine.forget_facts_since(state, started)
        broken += inside.breaks
        exits += whole
        heads = [state.copy() for state in after]
        call_each(machine.hooks.next_iteration, heads, node)
        heads = [state for state in heads if seen.is_new(state)]
        if once or not heads:
            break
        if time == 0:
            events_after_first, left_after_first = machine.novelty.event_count, machine.steps_left
            if events_after_first == events_before and machine.novelty.is_over(later, LATER_ROUNDS):
                break
        for state in heads:
            state.note(node, "the next iteration begins")
    machine.loops = machine.loops[:-1]
    machine.novelty.ran(node, events_before, left - machine.steps_left)
    if time > 0:
        machine.novelty.ran(later, events_after_first, left_after_first - machine.steps_left)
    call_each(machine.hooks.loop_ends, exits + broken, node)
    if endless:
        exits = []
    if node.orelse is not None:
        exits = run_block(machine, exits, statements(node.orelse.body), flow)
    return exits + broken


def _is_one_by_name(machine: Machine, state: State, loop: cst.For | cst.While) -> bool:
    """Whether the path has found the element of this iteration equal to a string.

    A loop that tells one element by its name has others, so that it does not end after that one alone.
    """
    for fact, value in state.facts.items():
        if isinstance(fact, tuple) and fact[0] == "value of" and isinstance(value.value, str):
            symbol = fact[1]
            while machine.symbols.key(symbol)[0] == "part":
                symbol = machine.symbols.parts(symbol)[0]
            if machine.symbols.key(symbol)[:2] == ("item", id(loop)):
                return True
    return False


def _for(machine: Machine, states: list[State], node: cst.For, flow: Flow) -> list[State]:
    together: dict[tuple[int, Value | None, State | None], list[State]] = {}
    after: list[State] = []
    for state in states:
        machine.statement = node
        for iterable, ready in machine.outcomes(state, lambda s: evaluate(machine, s, node.iter)):
            if elements := unrolled_elements(machine, iterable):
                after += _one_by_one(machine, ready, node, flow, elements)
                continue
            if (keys := _unrolled_keys(machine, ready, node, iterable)) is not None:
                after += _one_by_one(machine, ready, node, flow, keys)
                continue
            alone = ready if len(states) <= PATHS_APART else None
            key = symbol_of(machine, iterable), each(ready, iterable), alone
            together.setdefault(key, []).append(ready)
    for (source, like, _), starts in together.items():
        for loop_begins in machine.hooks.loop_begins:
            loop_begins(node, source)
        done = [
            state for state in starts if any(as_whole(state, node) for as_whole in machine.hooks.applies_whole_loop)
        ]
        after += done
        starts = [state for state in starts if state not in done]

        def begin(state: State, source: int = source, known: Value | None = like) -> list[State]:
            machine.statement = node
            assign(machine, state, node.target, _next(machine, node, state.iteration[-1], source, known))
            return [state]

        once = any(has_one_iteration(source) for has_one_iteration in machine.hooks.has_one_iteration)
        after += _loop(machine, starts, node, flow, begin, once=once) if starts else []
    return after


def _unrolled_keys(machine: Machine, state: State, node: cst.For, iterable: Value) -> Sequence[Value] | None:
    """The keys over which a loop is unrolled, since it looks up values that a tracker unrolls, in dictionaries or by
    `getattr` in objects; None otherwise.
    """
    keys = (iterable.keys or iterable.values) if isinstance(iterable, Items) else ()
    if not 0 < len(keys) <= MOST_UNROLLED or not all(isinstance(key, Const) for key in keys):
        return None
    for owner in _looked_up_by_target(node):
        held = evaluate(machine, state.copy(), owner)
        values = held.values if isinstance(held, Items) else ()
        if isinstance(held, Instance):
            values = tuple(state.heap.get(held.symbol, {}).values())
        if any(is_one(value) for value in values for is_one in machine.hooks.unrolls):
            return keys
        if any(has_parts(state, held) for has_parts in machine.hooks.has_parts):
            return keys
    return None


@cached_per_file
def _looked_up_by_target(node: cst.For) -> tuple[cst.BaseExpression, ...]:
    """The expressions that the body of a loop subscripts with the loop variable, or passes to `getattr` with it."""
    if not isinstance(node.target, cst.Name):
        return ()
    found: dict[str, cst.BaseExpression] = {}
    for call in every(node.body, cst.Call):
        given = [argument.value for argument in call.args]
        if dotted(call.func) == "getattr" and len(given) > 1 and dotted(given[1]) == node.target.value:
            found.setdefault(dotted(given[0]) or "", given[0])
    for one in every(node.body, cst.Subscript):
        index = one.slice[0].slice
        taken = index.value if isinstance(index, cst.Index) and len(one.slice) == 1 else None
        path = dotted(one.value)
        if isinstance(taken, cst.Name) and taken.value == node.target.value and path is not None:
            found.setdefault(path, one.value)
    return tuple(found.values())


def _one_by_one(machine: Machine, state: State, node: cst.For, flow: Flow, values: Sequence[Value]) -> list[State]:
    """Run the body of a loop for each of the `values` in their order."""
    exits, broken = [state], list[State]()
    for value in values:
        machine.statement = node
        for each_state in exits:
            assign(machine, each_state, node.target, value)
        inside = Flow(returns=flow.returns, raises=flow.raises)
        exits = machine.merged(run_block(machine, exits, statements(node.body), inside) + inside.continues, PATH_LIMIT)
        broken += inside.breaks
    if node.orelse is not None:
        exits = run_block(machine, exits, statements(node.orelse.body), flow)
    return exits + broken


def _next(machine: Machine, node: cst.For, now: int, source: int, known: Value | None) -> Value:
    """The element in this iteration; a fresh unknown if nothing is known about the iterable."""

    def another(*place: int) -> Unknown:
        return Unknown(machine.symbols.intern("item", id(node), *place, now, parts=(source,), time=now))

    if isinstance(known, Items) and known.keys is None:
        fresh = [isinstance(part, Unknown) and machine.symbols.key(part.symbol)[0] == "fresh" for part in known.values]
        return Items(tuple(another(i) if fresh[i] else part for i, part in enumerate(known.values)))
    return known or another()


def _while(machine: Machine, states: list[State], node: cst.While, flow: Flow) -> list[State]:
    def begin(state: State) -> list[State]:
        machine.statement = node
        return [twin for (holds, _), twin in test(machine, state, node.test) if holds]

    endless = isinstance(node.test, (cst.Name, cst.Integer)) and node.test.value in ("True", "1")
    rests = endless and any(every(node.body, cst.Yield))  # the caller of a generator goes on while it rests there
    return _loop(machine, states, node, flow, begin, endless and not rests)


def _try(machine: Machine, states: list[State], node: cst.Try | cst.TryStar, flow: Flow) -> list[State]:
    inside, own = Flow(), Flow()
    entry = [state.copy() for state in states]
    done = run_block(machine, states, statements(node.body), own)
    ways_out = [*done, *own.breaks, *own.continues, *own.raises, *(state for _, state in own.returns)]
    caught: list[State] = []
    for handler in node.handlers:
        paths = interrupted(machine, entry, ways_out)
        if handler.name is not None:
            for state in paths:
                assign(machine, state, handler.name.name, Unknown(machine.fresh()))
        caught += run_block(machine, paths, statements(handler.body), inside)
    if done and caught and _begins_with_import(node):
        _keep_imported(done[0], caught)
    if node.handlers:
        own.raises = []
    _add(inside, own)
    if node.orelse is not None:
        done = run_block(machine, done, statements(node.orelse.body), inside)
    after = done + caught
    if node.finalbody is None:
        _add(flow, inside)
        return after
    closing = statements(node.finalbody.body)
    flow.raises += inside.raises
    for value, state in inside.returns:
        flow.returns += [(value, end) for end in run_block(machine, [state], closing, flow)]
    flow.breaks += run_block(machine, inside.breaks, closing, flow)
    flow.continues += run_block(machine, inside.continues, closing, flow)
    return run_block(machine, after, closing, flow)


def _begins_with_import(node: cst.Try | cst.TryStar) -> bool:
    first = next(iter(statements(node.body)), None)
    return isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], (cst.Import, cst.ImportFrom))


def _keep_imported(done: State, caught: Sequence[State]) -> None:
    """Bind the names of PyTorch that a `try` statement has imported also where the script replaces them."""
    for name, value in done.frames.get(done.frame, {}).items():
        if isinstance(value, Ref) and value.name.startswith("torch."):
            for state in caught:
                if isinstance(state.frames.get(state.frame, {}).get(name), (Class, Function)):
                    state.bind(state.frame, name, value)


def _add(flow: Flow, inside: Flow) -> None:
    flow.returns += inside.returns
    flow.breaks += inside.breaks
    flow.continues += inside.continues
    flow.raises += inside.raises


def _with(machine: Machine, states: list[State], node: cst.With, flow: Flow) -> list[State]:
    outer = {id(state): state.regions for state in states}
    inside = Flow()
    done: list[State] = []
    for state in states:
        regions = outer[id(state)]
        one = Flow()
        entered = machine.outcomes(state, lambda s: _enter_items(machine, s, node))
        ends = run_block(machine, [twin for _, twin in entered], statements(node.body), one)
        objects = {each.objects for each, _ in entered}
        for end in [*ends, *one.breaks, *one.continues, *(twin for _, twin in one.returns)]:
            leave(machine, end, regions)
            if any(each.finishes for each, _ in entered) or len(objects) > 1:
                machine.forget(end)
        done += _exit_objects(machine, ends, next(iter(objects))) if len(objects) == 1 else ends
        _add(inside, one)
    _add(flow, inside)
    return done


@dataclass(frozen=True, slots=True)
class _EnteredItems:
    """The entered items of a `with` statement: whether one resumes work on exit, and the objects with an `__exit__`."""

    finishes: bool
    objects: tuple[Instance, ...]


def _enter_items(machine: Machine, state: State, node: cst.With) -> _EnteredItems:
    """Enter every item of a `with` statement."""
    machine.statement = node
    finishes = False
    objects: list[Instance] = []
    for item in node.items:
        value = evaluate(machine, state, item.item)
        for context_entered in machine.hooks.context_entered:
            context_entered(state, value, node, item.item)
        finishes = finishes or (isinstance(value, Entered) and value.finishes)
        if isinstance(value, Instance) and (enter := find_method(machine, state, value.cls, "__enter__")) is not None:
            objects.append(value)
            value = call_function(machine, state, enter, [value], {}, node)
        if item.asname is not None:
            assign(machine, state, item.asname.name, value)
    return _EnteredItems(finishes, tuple(objects))


def _exit_objects(machine: Machine, ends: list[State], objects: Sequence[Instance]) -> list[State]:
    """The paths after a `with` statement, once the `__exit__` of `objects` has run."""
    for held in reversed(objects):
        exit_one = partial(_exit_object, machine, held=held)
        ends = [twin for end in ends for _, twin in machine.outcomes(end, exit_one)]
    return ends


def _exit_object(machine: Machine, state: State, held: Instance) -> None:
    """Call the `__exit__` of an object, without an exception."""
    leaves = find_method(machine, state, held.cls, "__exit__")
    if leaves is not None:
        call_function(machine, state, leaves, [held, NONE, NONE, NONE], {}, None)


def _function(machine: Machine, states: list[State], node: cst.FunctionDef, flow: Flow) -> list[State]:
    for state in states:
        definitions.bind_function(machine, state, node)
    return states


def _class(machine: Machine, states: list[State], node: cst.ClassDef, flow: Flow) -> list[State]:
    for state in states:
        definitions.bind_class(machine, state, node)
    return states


def _match(machine: Machine, states: list[State], node: cst.Match, flow: Flow) -> list[State]:
    after = [] if any(map(_matches_anything, node.cases)) else [state.copy() for state in states]
    for case in node.cases:
        after += run_block(machine, [state.copy() for state in states], statements(case.body), flow)
    return after


def _matches_anything(case: cst.MatchCase) -> bool:
    """Whether a case matches any value: `case _:`."""
    return isinstance(case.pattern, cst.MatchAs) and case.pattern.pattern is None and case.guard is None


_COMPOUND: dict[type[cst.CSTNode], Callable[..., list[State]]] = {
    cst.If: _if,
    cst.For: _for,
    cst.While: _while,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.With: _with,
    cst.FunctionDef: _function,
    cst.ClassDef: _class,
    cst.Match: _match,
}
