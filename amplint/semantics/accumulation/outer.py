"""Windows that a condition ends, in a loop whose iterations are micro-batches."""

from __future__ import annotations

from amplint.semantics.accumulation.boundaries import COUNTER, boundary, constant, first_value, found_in, shifted
from amplint.semantics.accumulation.counters import value_at
from amplint.semantics.accumulation.emission import emit_window
from amplint.semantics.accumulation.guards import follows_all_steps, is_alternative, remainder_in
from amplint.semantics.accumulation.rounds import Round
from amplint.semantics.events import Job, SteppedWithin, Work
from amplint.semantics.memory.rhythm import Boundary, Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.values import Const
from amplint.source import syntax as cst


def emit_outer(
    machine: Machine, loop: cst.CSTNode, rounds: list[Round], guard: cst.BaseExpression, found: Boundary
) -> None:
    """Emit a window that `guard` ends, if the paths confirm it."""
    full = [one for one in rounds if one.has(Job.STEP) and one.ends(machine, guard) is not False]
    rest = [one for one in rounds if one.ends(machine, guard) is False]
    partial = [one for one in rest if not one.steps and not _assumes_single_batch(machine, one, found)]
    untested = any(one.ends(machine, guard) is None for one in full)
    others = found.others or len(partial) < len(rest) or any(one.has(Job.STEP) for one in rest) or untested
    decides = not untested and (
        len(partial) == len(rest) or all(one.has(Job.STEP) for one in rounds if one.ends(machine, guard))
    )
    if not any(one.ends(machine, guard) for one in full) or not partial:
        return
    if len(partial) < len(rest) and not (is_alternative(machine, guard) or _separates_early_steps(rest, partial)):
        return
    if any(len(done.loops) > one.depth for one in rest for done in one.of(Job.STEP)) or _clears_conditionally(
        full, partial
    ):
        return
    if _is_unsettled(full, partial):
        return
    if _has_own_loss(full, partial) or any(_accumulated_before(machine, one) for one in partial):
        return
    if found.modulo is None and found.counter is not None and not _resets_counter(machine, full, found.counter):
        return
    if follows_all_steps(machine, loop, guard, [done.node for one in full for done in one.of(Job.STEP)]):
        return
    remainder = remainder_in(machine, found, guard)
    early = all(one.of(Job.STEP)[0].node in one.before_backward for one in full)
    exact = not (early or others or is_alternative(machine, guard))
    if exact and remainder is not None and first_value(machine, found.counter, loop) is not None:
        machine[Rhythm].exact[loop] = remainder
    machine[Rhythm].windows.add(loop)
    emit_window(
        machine,
        loop,
        guard,
        remainder.right if remainder is not None else None,
        found.every if found.modulo is not None or _simple(machine, found) else None,
        partial,
        full,
        remainder=remainder,
        counted=found.counter is not None,
        first=_first(machine, loop, full, guard, found) if decides and not early else None,
        others=others or early,
        guesses=found.guesses,
        counter=found.counter,
        discards=_discarded(partial, full) if not others else None,
    )


def _is_unsettled(full: list[Round], partial: list[Round]) -> bool:
    """Whether both kinds of paths clear gradients in vain: a later round tells whether a condition decides it."""
    vain = ({done.node for one in some for done in one.of(Job.CLEAR) if done.in_vain} for some in (full, partial))
    return not set.isdisjoint(*vain)


def emit_stepped_within(machine: Machine, rounds: list[Round], guard: cst.BaseExpression) -> None:
    """Emit a step on every micro-batch with gradients that are cleared only where `guard` holds."""
    full, rest = ([one for one in rounds if one.ends(machine, guard) is ends] for ends in (True, False))
    if not full or not rest or len(full) + len(rest) < len(rounds) or any(one.has(Job.CLEAR) for one in rest):
        return
    cleared = [done for one in full for done in one.of(Job.CLEAR)]
    steps = {done.node for one in rest for done in one.of(Job.STEP) if done.certain and len(done.loops) == one.depth}
    backwards = [one.of(Job.BACKWARD)[0] for one in rest]
    if len({done.node for done in cleared}) != 1 or len(steps) != 1 or not all(done.certain for done in backwards):
        return
    if all(one.steps and one.has(Job.CLEAR) for one in full) and all(one.steps for one in rest):
        machine.emit(
            rest[0].state, SteppedWithin, steps.pop(), guard=guard, backward=backwards[0].node, cleared=cleared[0].node
        )


def _discarded(partial: list[Round], full: list[Round]) -> cst.CSTNode | None:
    """The call that clears, before the last backward pass of a window, what the others have added up."""
    if any(one.has(Job.CLEAR) for one in partial):
        return None
    found = {_discarding(one) for one in full}
    return found.pop() if len(found) == 1 else None


def _discarding(one: Round) -> cst.CSTNode | None:
    """The first call that clears gradients, if what each step of a round takes is cleared before its backward pass."""
    clearing: list[Work] = []
    ran = stepped = False
    for done in one.of(Job.CLEAR, Job.BACKWARD, Job.STEP):
        if done.job is Job.CLEAR and (not done.certain or (ran and not stepped)):
            return None
        if done.job is Job.CLEAR:
            clearing.append(done)
            ran = stepped = False
        elif done.job is Job.BACKWARD:
            if not clearing or stepped:
                return None
            ran = True
        else:
            if not ran:
                return None
            stepped = True
    return clearing[0].node if stepped else None


def _assumes_single_batch(machine: Machine, one: Round, found: Boundary) -> bool:
    """Whether the path assumes windows of at most one micro-batch."""
    if found.every is None:
        return False
    more = machine.symbols.intern("GreaterThan", parts=(found.every, symbol_of(machine, Const(1))))
    return one.state.facts.get(more) == Const(False)


def _has_own_loss(full: list[Round], partial: list[Round]) -> bool:
    """Whether another backward pass, of a conditional loss, comes with the step."""
    always = {done.node for one in partial for done in one.of(Job.BACKWARD)}
    ours = [done for one in full for done in one.of(Job.BACKWARD)]
    shared = any(done.node in always for done in ours)
    return shared and any(done.closes and done.node not in always for done in ours)


def _clears_conditionally(full: list[Round], partial: list[Round]) -> bool:
    """Whether gradients are cleared, after backward, by code that runs only within a window.

    That code steps with them in unseen code, or discards them on purpose.
    """
    shared = {done.node for one in full for done in one.of(Job.CLEAR)}
    return any(
        done.node not in shared and done.node not in one.before_backward
        for one in partial
        for done in one.of(Job.CLEAR)
    )


def _accumulated_before(machine: Machine, one: Round) -> bool:
    """Whether an inner loop accumulates these gradients, so that the condition is about the remainder."""
    return all(machine[Rhythm].windows & set(done.loops[one.depth :]) for done in one.of(Job.BACKWARD))


def _separates_early_steps(rest: list[Round], partial: list[Round]) -> bool:
    """Whether a condition separates paths that step early from those that continue to accumulate."""
    stepping = [one for one in rest if one not in partial]
    shared = set.intersection(*({k for k, v in one.state.facts.items() if v == Const(True)} for one in stepping))
    denied = set.intersection(*({k for k, v in one.state.facts.items() if v == Const(False)} for one in partial))
    return bool(shared & denied)


def _resets_counter(machine: Machine, full: list[Round], counter: int) -> bool:
    """Whether the counter of the window is reset there."""
    base = counter
    while machine.symbols.key(base)[0] in ("Add", "Subtract"):
        left, right = machine.symbols.parts(base)
        if machine.symbols.key(base)[0] == "Subtract" and machine.symbols.key(right)[0] != "value":
            return True
        base = right if machine.symbols.key(left)[0] == "value" else left
    name = str(machine.symbols.key(base)[2])
    owner, _, attribute = name.rpartition(".")
    for one in full:
        if owner:
            value = value_at(machine, one.state, owner)
            after = one.state.heap.get(symbol_of(machine, value), {}).get(attribute) if value is not None else None
        else:
            after = machine.lookup(one.state, name)
        if isinstance(after, Const):
            return True
    return False


def _simple(machine: Machine, found: Boundary) -> bool:
    """Whether the compared value is a counter, and no distance between two whose length can change."""
    return found.counter is not None and machine.symbols.key(shifted(machine, found.counter)[0])[0] == COUNTER


def _first(
    machine: Machine, loop: cst.CSTNode, full: list[Round], guard: cst.BaseExpression, found: Boundary
) -> int | None:
    """The number of micro-batches in the first window, None if it is as long as the others or unknown."""
    if found.counter is None or found.remainder is None or found.every is None:
        return None
    if any(_has_other_counter_test(machine, loop, one, guard, found.counter) for one in full):
        return None
    start = first_value(machine, found.counter, loop)
    if start is None:
        return None
    held = found.remainder - start + 1
    number = constant(machine, found.every)
    if isinstance(number, int) and number > 0:
        held = (held - 1) % number + 1
        return held if held != number else None
    return held if held > 0 else None


def _has_other_counter_test(
    machine: Machine, loop: cst.CSTNode, one: Round, guard: cst.BaseExpression, counter: int
) -> bool:
    """Whether another condition on this path, which the steps do not precede, tests the counter as well."""
    base, _ = shifted(machine, counter)
    name = machine.symbols.key(base)
    steps = [done.node for done in one.of(Job.STEP)]
    for symbol in one.state.facts:
        spelled = machine[Rhythm].spelled.get(symbol) if isinstance(symbol, int) else None
        if not isinstance(symbol, int) or spelled is guard:
            continue
        tested = boundary(machine, symbol)
        if tested is not None and (tested.modulo is not None or machine.symbols.key(symbol)[0] != "=="):
            continue
        if found_in(machine, [symbol], *name) is not None and (
            spelled is None or not follows_all_steps(machine, loop, spelled, steps)
        ):
            return True
    return False
