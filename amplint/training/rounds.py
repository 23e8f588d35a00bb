"""Loops over batches: the backward passes and steps of one iteration of a loop, or of one call of a function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_OPTIMIZER
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training import observed as training
from amplint.training.bindings import bound_paths, paths
from amplint.training.calls import Calls
from amplint.training.observed import Goal, Observed
from amplint.training.places import Block, clauses
from amplint.training.ranges import range_of
from amplint.training.refusal import Refusal
from amplint.training.script import Script

Place = cst.For | cst.While | cst.FunctionDef
_CONDITIONS = (cst.If, cst.IfExp, cst.While, cst.Try, cst.Match)


@dataclass(frozen=True, eq=False)
class Round:
    """One iteration of the loop, or call of the function, `place`: in `block`, `backwards`, then `steps`."""

    place: Place
    block: Block
    backwards: tuple[cst.Call, ...]
    steps: tuple[cst.Call, ...]


def observe(script: Script) -> Observed:
    """Interpret the file for windows. Raises Refusal if part of it is unseen, and SourceError.

    The steps include calls of functions that step. Unreachable code, such as a branch on a constant, is included by the
    names of its objects.
    """
    found = training.observe(script, Goal.WINDOWS)
    for call in script.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward":
            _add_unreached(found, call, call.func)
    optimizers = {dotted(optimizer) for optimizer in found.steps.values()} - {None}
    for call in found.calls.ending("step"):
        if not isinstance(call.func, cst.Attribute) or found.calls.targets(call):
            continue
        mentioned = {dotted(call.func.value) or "", *(dotted(one.value) or "" for one in call.args)}
        named = any(SPEAKS_OF_OPTIMIZER.search(path.rpartition(".")[2]) for path in mentioned)
        if named or mentioned & optimizers:
            found.steps.setdefault(call, call.func.value)
    for step in [*found.steps]:
        _lift(script, found, step)
    return found


def _lift(script: Script, found: Observed, step: cst.Call) -> None:
    """Replace `step` by the calls of its function, if that steps and leaves the backward pass to its callers."""
    function = script.function_of(step)
    training = {script.function_of(one) for one in found.backwards}
    if function is None or function in training:
        return
    callers = found.calls.callers(function) if _always(script, function, step) else None
    if callers and all(script.function_of(call) in training for call in callers):
        optimizer = found.steps.pop(step)
        for call in callers:
            found.steps.setdefault(call, optimizer)


def _always(script: Script, function: cst.FunctionDef, step: cst.Call) -> bool:
    """Whether every call of `function` reaches `step`."""
    around = [node for node in script.source.ancestors(step) if script.inside(function.body, node)]
    leaves = any(isinstance(node, cst.Return) for node in walk(function.body))
    return not leaves and not any(isinstance(node, _CONDITIONS) for node in around)


def _add_unreached(found: Observed, call: cst.Call, func: cst.Attribute) -> None:
    owner = (dotted(func.value) or "").partition(".")
    if owner[0] in ("self", "ctx", "cls") and not owner[2]:
        return
    if call not in found.backwards:
        if any(argument.keyword is None for argument in call.args):
            raise Refusal(call, "this backward pass could not be followed")
        if found.backwards:
            found.backwards.append(call)


def find(script: Script, observed: Observed) -> list[Round]:
    """The rounds of all loops and functions that do not accumulate gradients yet. Raises Refusal."""
    groups: dict[cst.CSTNode, list[cst.Call]] = {}
    for call in sorted((*observed.backwards, *observed.steps), key=script.row):
        function = script.function_of(call)
        if function in observed.windows:
            continue
        script.statement(call)
        others = observed.steps if call in observed.backwards else observed.backwards
        near = [one for one in others if script.function_of(one) is function]
        place: cst.CSTNode | None = _shared_loop(script, call, near) or (function if near else None)
        if place is None:
            if not observed.steps:
                raise Refusal(call, "no step of an optimizer was found that uses these gradients")
            raise Refusal(call, _missing_pair_message(call in observed.backwards, near=bool(near)))
        groups.setdefault(place, []).append(call)
    rounds: list[Round] = []
    for around, calls in groups.items():
        backwards = [call for call in calls if call in observed.backwards]
        steps = [call for call in calls if call in observed.steps]
        if not backwards:
            continue
        if not _accumulates(script, observed, around, backwards, steps):
            rounds += _split(script, as_place(script, observed.calls, around), backwards, steps)
    for one in rounds:
        inner = next((other for other in rounds if other is not one and _inside(script, other, one)), None)
        if inner is not None:
            raise Refusal(inner.backwards[0], f"{_TWICE}, in a loop around this one")
    return rounds


def as_place(script: Script, calls: Calls, place: cst.CSTNode) -> Place:
    """`place`, if its iterations can be counted. Raises Refusal."""
    if isinstance(place, cst.FunctionDef) or (isinstance(place, cst.For) and place.asynchronous is None):
        return place
    if isinstance(place, cst.While):
        range_of(script, calls, place)
        return place
    raise Refusal(place, "an asynchronous loop cannot be followed")


def check_conditions(script: Script, place: Place, node: cst.CSTNode) -> None:
    """Raise Refusal if an iteration of `place` may skip `node`."""
    bound = {path for inner in walk(place) for path in bound_paths(inner)}
    for above in script.source.ancestors(node):
        if above is place:
            return
        if isinstance(above, cst.If) and (paths(above.test) & bound or _calls(above.test)):
            raise Refusal(above, "not every round of this loop trains, so its windows cannot be counted by rounds")
        if isinstance(above, (cst.Try, cst.TryStar, cst.For, cst.While, cst.Match)):
            raise Refusal(above, "this can end a round before its step, so windows cannot be counted by rounds")


def _inside(script: Script, inner: Round, outer: Round) -> bool:
    return inner.place is not outer.place and script.inside(outer.place, inner.place)


def _missing_pair_message(backward: bool, near: bool) -> str:
    if near:
        return "this is not in a loop over batches"
    other = "step of an optimizer" if backward else "backward pass"
    return f"no {other} is in the same function as this {'backward pass' if backward else 'step'}"


def _shared_loop(script: Script, call: cst.Call, others: Sequence[cst.Call]) -> cst.For | cst.While | None:
    """The innermost loop around `call` and one of `others`."""
    return next(
        (loop for loop in script.loops_around(call) if any(script.inside(loop.body, one) for one in others)),
        None,
    )


def counted(place: cst.CSTNode, test: cst.BaseExpression) -> bool:
    """Whether `test` depends on the number of iterations of `place`, or on an argument of a function."""
    return bool(paths(test) & _counted(place)) or has_remainder(test)


def _accumulates(
    script: Script,
    observed: Observed,
    place: cst.CSTNode,
    backwards: Sequence[cst.Call],
    steps: Sequence[cst.Call],
) -> bool:
    """Whether `place`, or a loop in it, accumulates gradients over several batches already."""
    if place in observed.windows:
        return True
    for backward in backwards:
        inner = script.loop_of(backward)
        if inner is not None and inner is not place and script.inside(place, inner) and not _over_losses(inner):
            return True
    return any(counted(place, test) for step in steps for test in _tests(script, place, step, steps, backwards))


def _over_losses(loop: cst.For | cst.While) -> bool:
    """Whether a loop only calls `backward()` of its items."""
    return isinstance(loop, cst.For) and sum(isinstance(node, cst.Call) for node in walk(loop.body)) <= 2


def _tests(
    script: Script, place: cst.CSTNode, step: cst.Call, steps: Sequence[cst.Call], backwards: Sequence[cst.Call]
) -> Iterator[cst.BaseExpression]:
    """The conditions between `place` and `step` that guard no backward pass and do not step in all branches."""
    for above in script.source.ancestors(step):
        if above is place:
            return
        if isinstance(above, cst.If) and not any(script.inside(above, one) for one in backwards):
            sides = [clause.body for clause in clauses(above)]
            stepping = [side for side in sides if any(script.inside(side, one) for one in steps)]
            if len(stepping) < len(sides) or len(sides) == 1:
                yield above.test


def has_remainder(test: cst.CSTNode) -> bool:
    """Whether `test` has a modulo, as a periodic condition does."""
    return any(isinstance(node, cst.Modulo) for node in walk(test))


def _counted(place: cst.CSTNode) -> set[str]:
    """The counters of a loop: its targets, incremented variables, and values computed from these.

    Those of a function are its parameters.
    """
    found = set(bound_paths(place))
    if isinstance(place, cst.FunctionDef):
        every = (*place.params.posonly_params, *place.params.params, *place.params.kwonly_params)
        found = {param.name.value for param in every} - {"self"}
    assigned = [node for node in walk(place) if isinstance(node, (cst.Assign, cst.AnnAssign))]
    for node in walk(place):
        if isinstance(node, cst.AugAssign) and isinstance(node.value, cst.Integer):
            found |= bound_paths(node)
    for node in assigned:
        if node.value is not None and (has_remainder(node.value) or _compares(node.value, found)):
            found |= bound_paths(node)
    return found


def _compares(value: cst.CSTNode, counted: set[str]) -> bool:
    return any(isinstance(node, cst.Comparison) and paths(node) & counted for node in walk(value))


def _split(script: Script, place: Place, backwards: Sequence[cst.Call], steps: Sequence[cst.Call]) -> Iterator[Round]:
    """The round of `place`, or one for each branch of a condition that is loop-invariant."""
    common = script.common([*backwards, *steps])
    if common is None:
        raise Refusal(backwards[0], "this backward pass and the step are too far apart")
    block, statements = common
    holder = statements[0]
    if isinstance(holder, cst.If) and all(one is holder for one in statements):
        for side in (clause.body for clause in clauses(holder)):
            its = [one for one in backwards if script.inside(side, one)]
            theirs = [one for one in steps if script.inside(side, one)]
            if bool(its) != bool(theirs):
                raise Refusal((its or theirs)[0], "this side of the condition steps or differentiates alone")
            if its:
                yield from _split(script, place, its, theirs)
        return
    check_conditions(script, place, block[0])
    places = [block.index(statement) for statement in statements]
    first = min(places[len(backwards) :])
    late = next((one for one, index in zip(backwards, places, strict=False) if index >= first), None)
    if late is not None:
        raise Refusal(late, f"{_TWICE}; this one follows a step and needs a loop of its own")
    yield Round(place, block, tuple(backwards), tuple(steps))


def _calls(test: cst.BaseExpression) -> bool:
    return any(isinstance(node, cst.Call) and dotted(node.func) not in ("isinstance", "hasattr") for node in walk(test))


_TWICE = "two losses are differentiated in turn, and the gradients of one could add to those of the other"
