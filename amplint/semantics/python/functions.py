"""Calls of functions of the file: binding of parameters, decorators, and all returns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from amplint.semantics.python.constants import held
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import CALL_DEPTH, PATH_LIMIT, Machine, PathEnds
from amplint.semantics.python.novelty import Patience
from amplint.semantics.python.summaries import Summary
from amplint.semantics.python.truth import is_condition, symbol_of
from amplint.semantics.reading import bodies, demos
from amplint.semantics.reading.choosers import chooses
from amplint.semantics.reading.scopes import is_short_function
from amplint.semantics.values.facts import Fact
from amplint.semantics.values.garbage import collect
from amplint.semantics.values.state import RESULT, Region, State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Class,
    Const,
    Entered,
    Function,
    Instance,
    Items,
    OneOf,
    Partial,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.tree import walk

ENTERED = "<entered>"
MANAGER = "<context manager>"
DEPTH = "<regions>"
NO_KEYWORDS: Mapping[str, Value] = {}
_CALLED = (Function, Class, Ref, Partial)
_OUTER = frozenset({"global", "nonlocal"})
_CACHES = frozenset({"lru_cache", "cache", "cached_property"})
MOST_NESTED = 3
"""How often a function that does not call itself is followed within itself."""
CALLS = Patience(runs=2, steps=100)
"""When a call from one place, in the same regions and with the same flags, is not followed any more."""
CHANGING_CALLS = Patience(runs=3, steps=500)
"""The same for functions that change what trackers know of the path."""
LONG_CALLS = Patience(runs=1, steps=200)
"""The same for calls in the same regions and with the same flags, from whichever place and in whatever state."""
INNER_CALLS = Patience(runs=1, steps=100)
"""The same for calls in other files, from whichever place: what they emit is at one call of this file."""


def call_function(
    machine: Machine,
    state: State,
    function: Function,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
    node: cst.CSTNode | None,
    *,
    read: cst.CSTNode | None = None,
) -> Value:
    """The result of the call; `state` continues after one of the function's returns. Raises PathEnds if it has none.

    A property is called by the expression `read`, and not by a call `node`.
    """
    for function_called in machine.hooks.function_called:
        function_called(state, node, function)
    if function.chunk not in machine.relevant and _has_relevant_arguments(
        machine, state, function, positional, keywords
    ):
        machine.relevant.add(function.chunk)
    if function.chunk not in machine.relevant:
        if len(positional) == 2 and not keywords and chooses(function.chunk):
            return machine.joined_value(positional[0], positional[1])
        _skip(machine, state, function, positional, keywords)
        return _unfollowed_result(machine, state, function, node, positional)
    if machine.assumes and node is not None and not machine.calls and demos.is_self_test(function):
        return _unfollowed_result(machine, state, function, node)
    body = node_of(function)
    if len(machine.calls) >= CALL_DEPTH or (body in machine.calls and not _nests(machine, function, body)):
        return _unfollowed_result(machine, state, function, node)
    around = _apply_decorators(machine, state, function, body)
    if around is not None:
        if node is not None:
            return call_function(machine, state, around, positional, keywords, node)
        twin = state.copy()
        with contextlib.suppress(PathEnds):
            call_function(machine, twin, around, positional, keywords, node)
        if body in machine.entered:
            state.become(twin)
            return Unknown(machine.fresh())
    key = (machine.choices.taken, node or read)
    outcomes = machine.choices.memory.get(key)
    if outcomes is None:
        outcomes = _followed(machine, state, function, positional, keywords, node)
        if outcomes is None:
            return _unfollowed_result(machine, state, function, node)
        machine.choices.memory[key] = outcomes
    if not outcomes:
        if bodies.is_abstract(body):
            return Unknown(machine.fresh())
        raise PathEnds
    chosen = outcomes[machine.choices.pick(len(outcomes)) if len(outcomes) > 1 else 0].copy()
    result = chosen.frames[chosen.frame][RESULT]
    chosen.frames[chosen.frame] = {k: v for k, v in chosen.frames[chosen.frame].items() if k != RESULT}
    state.become(chosen)
    return (
        Unknown(machine.fresh()) if result == NONE and function.owner is not None and bodies.is_stub(body) else result
    )


def _apply_decorators(machine: Machine, state: State, function: Function, body: cst.CSTNode) -> Function | None:
    """The result of applying visible decorators to a function; None if it has none that are relevant."""
    if function.bare or not isinstance(body, cst.FunctionDef) or not body.decorators:
        return None
    made = bare = replace(function, bare=True)
    at, state.frame = state.frame, function.frame
    for decorator in reversed(body.decorators):
        written = decorator.decorator
        named = written.func if isinstance(written, cst.Call) else written
        value = machine.evaluate(state, named) if isinstance(named, (cst.Name, cst.Attribute)) else None
        if not isinstance(value, Function) or value.chunk not in machine.relevant or node_of(value) in machine.calls:
            continue
        if named is not written:
            value = machine.evaluate(state, written)
        result = call_function(machine, state, value, [made], {}, decorator) if isinstance(value, Function) else made
        made = result if isinstance(result, Function) else made
    state.frame = at
    return made if made != bare else None


def _followed(
    machine: Machine,
    state: State,
    function: Function,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
    node: cst.CSTNode | None,
) -> list[State] | None:
    """The final states of a call, None if such calls are no longer followed."""
    body, given = node_of(function), (*positional, *keywords.values())
    tables = [_held(machine, state, value) for value in given]
    signature = (body, state.regions, *keywords, *map(_kind, given), *tables)
    if signature in machine.closed:
        _skip(machine, state, function)
        return None
    progress = state.progress()
    call = (function.frame, progress, *positional, *keywords.items())
    known = machine.summaries.find(body, call, state)
    if known is not None:
        machine.read_globals |= known.read_globals
        return known.applied(state)
    context = (signature, node, progress, *(_assumed(state, value) for value in given))
    if machine.summaries.is_without_effect(context, state):
        _skip(machine, state, function)
        return None
    changing = body in machine.changing
    decisive = frozenset(name for table in tables for name, value in table if type(value) in machine.hooks.decisive)
    settings = (body, state.regions, *keywords, *map(_flag, given), decisive)
    runs = [((node, *settings), CHANGING_CALLS if changing else CALLS), (settings, LONG_CALLS)]
    if machine.entered_from is not None:
        runs.append(((body, state.regions), INNER_CALLS))
    if any(machine.novelty.is_over(run, patience) for run, patience in runs):
        if changing:
            machine.forget(state)
        _skip(machine, state, function, positional, keywords)
        return None
    contacts, left, events_before = machine.interactions, machine.steps_left, machine.novelty.event_count
    began = machine.symbols.tick()
    globals_before, machine.read_globals = machine.read_globals, set()
    outcomes, read = _outcomes(machine, state, function, positional, keywords, node)
    read_globals = machine.read_globals
    machine.read_globals = globals_before | read_globals
    if outcomes and all(_is_without_effect(machine, state, end, began) for end in outcomes):
        machine.summaries.keep_without_effect(context, read)
    of_round = _of_round(machine, state, outcomes)
    machine.summaries.keep(body, call, Summary(state.copy(), read, read_globals, outcomes, of_round))
    for run, _ in runs:
        machine.novelty.ran(run, events_before, left - machine.steps_left)
    if any(end.progress() != progress for end in outcomes):
        machine.changing.add(body)
    quiet = machine.interactions == contacts and bool(outcomes)
    if quiet and all(_is_without_effect(machine, state, end) for end in outcomes):
        machine.closed.add(signature)
    return outcomes


def _flag(value: Value) -> Value | None:
    """An argument that can change the path through a call, None for any other."""
    return value if isinstance(value, (Const, Ref)) else None


def _skip(
    machine: Machine,
    state: State,
    function: Function,
    positional: Sequence[Value] = (),
    keywords: Mapping[str, Value] = NO_KEYWORDS,
) -> None:
    for call_skipped in machine.hooks.call_skipped:
        call_skipped(state, function, positional, keywords)


def _of_round(machine: Machine, state: State, ends: Sequence[State]) -> bool:
    """Whether a call decided a condition that has one outcome per round of the enclosing loop."""
    now = state.iteration[-1] if state.iteration else 0
    decided = (key if isinstance(key, int) else key[1] for end in ends for key in end.facts if key not in state.facts)
    return any(machine.symbols.time(symbol) == now for symbol in decided)


def _has_relevant_arguments(
    machine: Machine, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
) -> bool:
    """Whether the arguments of a function make it relevant."""
    given = [*positional, *keywords.values()]
    if _calls_function_argument(function, given):
        return True
    return is_short_function(function.chunk) and any(
        must_follow(state, function, given) for must_follow in machine.hooks.must_follow
    )


def _calls_function_argument(function: Function, given: Iterable[Value]) -> bool:
    """Whether a function gets another one, or a class, as an argument and calls a parameter."""
    if function.node is not None or not any(isinstance(value, _CALLED) for value in given):
        return False
    node = node_of(function)
    assert isinstance(node, cst.FunctionDef)
    return bodies.calls_parameter(node)


def _nests(machine: Machine, function: Function, body: cst.CSTNode) -> bool:
    """Whether a function that runs already may be followed again: it does not call itself, but by what it makes."""
    plain = isinstance(body, cst.FunctionDef) and function.owner is None
    return plain and machine.calls.count(body) < MOST_NESTED and not bodies.calls_itself(body)  # type: ignore[arg-type]


def _assumed(state: State, value: Value) -> object:
    """The facts assumed about an argument itself."""
    symbol = getattr(value, "symbol", None)
    return None if symbol is None else (state.facts.get(symbol), state.facts.get(("is none", symbol)))


def _is_without_effect(machine: Machine, before: State, end: State, began: int | None = None) -> bool:
    """Whether a call changed nothing and its result carries no information.

    Objects created since `began` are ignored: they are unreachable.
    """
    older = (key for key in end.heap if began is None or machine.symbols.time(key) < began)
    kept = all(end.heap[key] is before.heap.get(key) for key in older)
    kept = kept and all(part.is_unchanged(before.parts[kind]) for kind, part in end.parts.items())
    return kept and end.progress() == before.progress() and _is_uninformative(machine, end.frames[end.frame][RESULT])


def _unfollowed_result(
    machine: Machine, state: State, function: Function, node: cst.CSTNode | None, given: Sequence[Value] = ()
) -> Value:
    """The result of a call that is not followed, unknown and a function of the arguments `given` as a rule."""
    for unfollowed_value in machine.hooks.unfollowed_value:
        value: Value | None = unfollowed_value(function, given)
        if value is not None:
            return value
    now, parts = machine.symbols.tick(), tuple(symbol_of(machine, value) for value in given)
    place = id(node), machine.sites, state.iteration
    result = Unknown(machine.symbols.intern("call", function.chunk.name, place, parts=parts, time=now))
    for unfollowed_returns in machine.hooks.unfollowed_returns:
        unfollowed_returns(function, result)
    return result


def _kind(value: Value) -> object:
    """The part of an argument that affects a call irrespective of the argument's identity."""
    if isinstance(value, Unknown):
        return Unknown
    if isinstance(value, Tensor):
        return value.kind
    return value


def _held(machine: Machine, state: State, value: Value) -> frozenset[tuple[str, Value]]:
    """What the attributes of an object of the file hold of flags and decisive values, on which its methods depend."""
    if not isinstance(value, Instance):
        return frozenset()
    table, decisive = state.heap.get(value.symbol, {}).items(), machine.hooks.decisive
    return frozenset((name, held) for name, held in table if type(held) in decisive or held in (NONE, TRUE, FALSE))


def _is_uninformative(machine: Machine, result: Value) -> bool:
    if isinstance(result, Items):
        return all(_is_uninformative(machine, value) for value in result.values)
    if is_condition(machine, result):
        return False
    if isinstance(result, Tensor):
        return result == Tensor(result.symbol, made=result.made)
    return isinstance(result, (Unknown, Const))


def _outcomes(
    machine: Machine,
    state: State,
    function: Function,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
    site: cst.CSTNode | None,
) -> tuple[list[State], dict[Fact, Const]]:
    """The final states of a call, and the older assumptions that it depends on."""
    node = node_of(function)
    machine.entered.add(node)
    caller, given, read = machine.position, machine.initial_facts, machine.read_facts
    machine.initial_facts, machine.read_facts = state.facts.keys(), {}
    if function.chunk.source is machine.program.main:
        machine.entered_from = None
    elif machine.entered_from is None:
        machine.entered_from = site
    frame, regions, home = machine.new_frame(function), state.regions, state.frame
    began = machine.symbols.tick()
    inner = state.copy()
    inner.frames[frame] = _bind(machine, inner, function, positional, keywords, site)
    inner.frames[frame][DEPTH] = Const(len(regions))
    inner.frame = frame
    machine.chunk = function.chunk
    machine.calls = (*machine.calls, node)
    machine.sites = (*machine.sites, site)
    machine.flags = (*map(_flag, positional), *map(_flag, keywords.values()))
    try:
        if isinstance(node, cst.Lambda):
            returned = machine.outcomes(inner, lambda s: machine.evaluate(s, node.body))
        else:
            assert isinstance(node, cst.FunctionDef)
            returned = []
            for _, ready in machine.outcomes(inner, lambda s: _enter_decorators(machine, s, function, node)):
                returned += machine.run_body(ready, bodies.statements(node.body))
    finally:
        own = machine.read_facts
        read.update((key, fact) for key, fact in own.items() if key in given)
        machine.position, machine.initial_facts, machine.read_facts = caller, given, read
    ends: list[State] = []
    for value, end in returned:
        result = end.frames[frame].get(ENTERED, value)
        end.frame, end.iteration = home, state.iteration
        # those entered by a call (`stack.enter_context(...)`, `context.__enter__()`) outlive their function
        kept = (one for one in end.regions[len(regions) :] if isinstance(one.entered_by, cst.Call))
        leave(machine, end, (*regions, *kept))
        for frame_ends in machine.hooks.frame_ends:
            frame_ends(end, end.frames[frame].values())
        _keep_nested(machine, end, frame, result)
        left = {number: table for number, table in end.frames.items() if number != frame}
        if frame not in machine.captured or not _is_reachable(
            frame, [*left.values(), *end.heap.values(), {"": result}]
        ):
            end.frames = left
        collect(machine.symbols, state, end, result, began)
        end.bind(home, RESULT, result)
        for function_ends in machine.hooks.function_ends:
            function_ends(end)
        ends.append(end)
    return machine.merged(ends, PATH_LIMIT), own


def leave(machine: Machine, state: State, regions: tuple[Region, ...]) -> None:
    """Leave all contexts except `regions`."""
    for contexts_exited in machine.hooks.contexts_exited:
        contexts_exited(state, regions)
    state.regions = regions


def _keep_nested(machine: Machine, end: State, frame: int, result: Value) -> None:
    """Record functions defined in `frame`, or that it returns, and not called so far: unseen code can call them."""
    for value in (*end.frames[frame].values(), result):
        if isinstance(value, Function) and value.frame == frame and value.node is not None:
            machine.nested.setdefault(value.node, (value, end.copy()))


_DEFINITIONS = frozenset({Function, Class})


def _is_reachable(frame: int, tables: Iterable[Mapping[str, Value]]) -> bool:
    """Whether a function defined in `frame` is still reachable."""
    values = (value for table in tables for value in table.values() if type(value) in _DEFINITIONS)
    return any(value.frame == frame for value in values)  # type: ignore[union-attr]


def _bind(
    machine: Machine,
    state: State,
    function: Function,
    positional: Sequence[Value],
    keywords: Mapping[str, Value],
    site: cst.CSTNode | None,
) -> dict[str, Value]:
    """The callee's local variables. Without a call `site`, defaults are ignored unless they are numbers."""
    node = node_of(function)
    assert isinstance(node, (cst.FunctionDef, cst.Lambda))
    params = node.params
    names = [*params.posonly_params, *params.params]
    table: dict[str, Value] = {}
    for index, param in enumerate([*names, *params.kwonly_params]):
        name = param.name.value
        if index < len(positional) and index < len(names):
            table[name] = positional[index]
        elif name in keywords:
            table[name] = keywords[name]
        elif param.default is not None:
            table[name] = machine.evaluate(_at(state, function.frame), param.default)
            table[name] = held(machine, function.chunk.source, table[name], param.default)
            if site is None and not isinstance(getattr(table[name], "value", None), float):
                passed = machine.unknown("parameter", id(node), name)
                machine.defaults[passed.symbol], table[name] = table[name], passed
        else:
            answers = (missing_argument(state, function, index) for missing_argument in machine.hooks.missing_argument)
            supplied = next((answer for answer in answers if answer is not None), None)
            table[name] = supplied or machine.unknown("parameter", id(node), name)
        if param.annotation is not None:
            table[name] = annotated(machine, _at(state, function.frame), param.annotation, table[name])
    whole = isinstance(site, cst.Call) and not any(argument.star for argument in site.args)
    if isinstance(params.star_arg, cst.Param):
        others = Items(tuple(positional[len(names) :]))
        known = whole or (site is None and others.values)
        table[params.star_arg.name.value] = others if known else Unknown(machine.fresh())
    if params.star_kwarg is not None:
        taken = {param.name.value for param in (*params.params, *params.kwonly_params)}
        more = {name: value for name, value in keywords.items() if name not in taken}
        named = Items(tuple(more.values()), tuple(map(Const, more)))
        table[params.star_kwarg.name.value] = named if whole else Unknown(machine.fresh())
    if not function.chunk.words.isdisjoint(_OUTER) and (outer := bodies.outer_names(node)):
        table["<outer names>"] = OneOf(outer)
    return table


def annotated(machine: Machine, state: State, annotation: cst.Annotation, value: Value) -> Value:
    """`value`, or, if it is unknown, what its annotation implies; instances of the tree's classes stay unknown."""
    if not isinstance(value, Unknown):
        return value
    nodes = [node for node in walk(annotation.annotation) if isinstance(node, (cst.Name, cst.Attribute))]
    named = [machine.evaluate(state, node) for node in nodes]
    names = [one.name for one in named if isinstance(one, Ref)]
    for name in names if _PLAIN.isdisjoint(names) else ():
        for asked in machine.hooks.annotated_value:
            known: Value | None = asked(value.symbol, name)
            if known is not None:
                return known
    machine.classes.update((value.symbol, one) for one in named if isinstance(one, Class))
    return value


_PLAIN = frozenset({"builtins.str", "builtins.int", "builtins.float", "builtins.bool"})
"""Types of values that a parameter may be given instead of an object, where its annotation names them, too."""


def _at(state: State, frame: int) -> State:
    twin = state.copy()
    twin.frame = frame
    return twin


def _enter_decorators(machine: Machine, state: State, function: Function, node: cst.FunctionDef) -> None:
    machine.statement = node
    inside, state.frame = state.frame, function.frame
    state.frames.setdefault(function.frame, {})  # of a file whose statements this path has not executed
    for decorator in node.decorators:
        around, state.regions = state.regions, ()
        value = machine.evaluate(state, decorator.decorator)
        state.regions = around
        if _CACHES & {part.value for part in walk(decorator.decorator) if isinstance(part, cst.Name)}:
            machine.cached.add(node)
        if value == Ref("contextlib.contextmanager"):
            state.bind(inside, MANAGER, value)
        else:
            for context_entered in machine.hooks.context_entered:
                context_entered(state, value, decorator, None)
    state.frame = inside


def remember_yield(machine: Machine, state: State) -> None:
    """Record the contexts entered at a `yield`, for use as a context manager."""
    depth = state.frames[state.frame].get(DEPTH)
    first = int(depth.value) if isinstance(depth, Const) and isinstance(depth.value, int) else 0
    entered = tuple((region.context, region.entered_by) for region in state.regions[first:])
    node = machine.calls[-1] if machine.calls else None  # a syntax error outside of functions
    finishes = node is not None and any(resumes(node) for resumes in machine.hooks.resumes)
    state.bind(state.frame, ENTERED, Entered(entered, finishes))
