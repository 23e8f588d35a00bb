"""Accumulation windows: the loop that accumulates gradients, the window's boundary, and the work inside.

Every call that touches gradients is recorded with its loop iteration. At the end of an iteration, the paths through it
are compared: if one condition sends those with a backward pass either to a step or to the next iteration, gradients
accumulate until it holds. A loop over `range(n)` with a backward pass whose step follows the loop is a window as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.accumulation import flagged, uncleared
from amplint.semantics.accumulation.boundaries import (
    COUNTER,
    boundary,
    constant,
    first_value,
    found_in,
    length,
    may_be_uneven,
    pass_through_guesses,
    pieces,
    repeats,
    runs_once,
    shifted,
    uneven,
)
from amplint.semantics.accumulation.counters import begin_iteration, value_at, window_methods, window_tests
from amplint.semantics.accumulation.divisors import (
    changes_reduction,
    divided,
    divided_by_position,
    may_be_sum,
    may_divide,
)
from amplint.semantics.accumulation.work import WorkDone
from amplint.semantics.events import Accumulation, Job, SteppedWithin, WindowLost, Work
from amplint.semantics.losses import shares
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.rhythm import Boundary, Rhythm
from amplint.semantics.models.models import is_model, is_unwrapped
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Operands, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.regions.ran import without_gradients
from amplint.semantics.values.state import State
from amplint.semantics.values.values import TRUE, Const, Function, Instance, Module, Ref, Tensor, Unknown, Value
from amplint.semantics.words import CALLED_MODULE, MAY_SKIP_SYNC, SAYS_MICRO_BATCHES
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.catalogue import in_place, spellings
from amplint.torchlib.methods import SAME_NUMBERS

_PLACED = (Job.UNSCALE, Job.CLIP, Job.UPDATE, Job.CLEAR)
_LOGICAL = frozenset({"not", "and", "or"})
_MAKERS = frozenset({"DistributedDataParallel", "DataLoader"})
_OTHER_WRAPPERS = frozenset({"apex.parallel.DistributedDataParallel", "deepspeed.initialize"})
"""Wrappers of a model in a program with several ways to distribute it, which reduce gradients themselves."""
_STATIC_GRAPH = regex(r"\b_set_static_graph\(|\bstatic_graph[ \t]*=[ \t]*(?!False)")
_CHANGING = in_place(spellings("div", "mul"))
CHANGED = "<changed in place>"


def note(machine: Machine, state: State, job: Job, node: cst.CSTNode, in_vain: bool = False) -> None:
    """Record a job of `node` on this path."""
    if not machine.muted:
        done = Work(job, node, machine.loops, state.iteration, closes=_at_end(machine, state), in_vain=in_vain)
        state.change(WorkDone).add(done)


def _at_end(machine: Machine, state: State) -> bool:
    """Whether a condition implies that this micro-batch ends a window.

    One tested only before all loops implies nothing about an iteration.
    """
    early = machine[Rhythm].early if machine.loops else ()
    for symbol, fact in state.facts.items():
        if symbol in early and symbol not in machine[Rhythm].repeated:
            continue
        found = boundary(machine, symbol) if isinstance(symbol, int) else None
        if found is not None and bool(fact.value) is found.holds:
            return True
    return False


def record_backward(machine: Machine, state: State, node: cst.CSTNode, loss: Value) -> None:
    """Record a backward pass and its argument."""
    plain = loss.plain if isinstance(loss, Tensor) and loss.plain is not None else symbol_of(machine, loss)
    machine[Rhythm].losses.setdefault(node, set()).add(plain)
    shares.backward_ran(machine, state, plain)
    if state.heap.get(plain, {}).get(CHANGED) is not None:
        machine[Rhythm].opaque.add(plain)
    note(machine, state, Job.BACKWARD, node)


def end_iteration(machine: Machine, loop: cst.CSTNode, states: list[State], first: bool = False) -> None:
    """Compare the paths on which an iteration of `loop`, the `first` or not, or a call of a function ended."""
    for state in states:
        uncleared.note(machine, loop, state)
    uncleared.compare(machine, loop, states)
    rounds = [_Round(state, len(machine.loops), first) for state in states]
    rounds = [one for one in rounds if one.has(Job.BACKWARD)]
    if not any(one.has(Job.STEP) for one in rounds):
        if isinstance(loop, cst.For) and rounds and _micro_batch_name(loop) and repeats(machine, loop) is not None:
            machine[Rhythm].inside |= {done.node for one in rounds for done in one.of(Job.UNSCALE)}
        return
    _inner_windows(machine, rounds)
    _lost_windows(machine, rounds)
    asked = {node: found for one in rounds for node, (_, found) in one.asked(machine).items()}
    if len(asked) == 1:
        for one in rounds:
            one.suppose(machine, *next(iter(asked.items())))
    for guard, found in asked.items():
        if found.counter is not None or isinstance(loop, cst.FunctionDef):
            _outer_window(machine, loop, rounds, guard, found)
        if found.counter is not None and not found.others:
            _stepped_within(machine, rounds, guard)
    if isinstance(loop, cst.FunctionDef) and loop not in machine[Rhythm].windows:
        flagged.compare(machine, loop, states)


class _Round:
    """One path through one iteration; gradients cleared before the first backward pass of the `first` one are older."""

    def __init__(self, state: State, depth: int, first: bool) -> None:
        self.state = state
        self.depth = depth
        now = state.iteration[:depth]
        work = [done for done in state[WorkDone].work if done.iteration[:depth] == now]
        ran = next((place for place, done in enumerate(work) if done.job is Job.BACKWARD), len(work))
        self.work = tuple(
            replace(done, in_vain=True)
            if first and place < ran and done.job is Job.CLEAR and len(done.loops) == depth
            else done
            for place, done in enumerate(work)
        )
        self._asked: dict[cst.BaseExpression, tuple[bool, Boundary]] | None = None

    def of(self, *jobs: Job) -> list[Work]:
        """The calls that do one of these jobs."""
        return [done for done in self.work if done.job in jobs]

    def has(self, job: Job) -> bool:
        """Whether a call does this job."""
        return any(done.job is job for done in self.work)

    @property
    def steps(self) -> bool:
        """Whether a step is taken on each path that joined here."""
        return any(done.job is Job.STEP and done.certain for done in self.work)

    def asked(self, machine: Machine) -> dict[cst.BaseExpression, tuple[bool, Boundary]]:
        """The conditions about windows that this path decided, and whether they end one here."""
        if self._asked is None:
            self._asked = {}
            for symbol, fact in self.state.facts.items():
                found = boundary(machine, symbol) if isinstance(symbol, int) else None
                node = machine[Rhythm].spelled.get(symbol) if isinstance(symbol, int) else None
                here = machine.loops in machine[Rhythm].asked.get(symbol, ())  # type: ignore[arg-type]
                if here and found is not None and node is not None:
                    self._asked[node] = (bool(fact.value) is found.holds, found)
        return self._asked

    def suppose(self, machine: Machine, guard: cst.BaseExpression, found: Boundary) -> None:
        """Take `guard` to end a window on joined paths whose every step is taken where one ends."""
        steps = self.of(Job.STEP)
        if steps and guard not in self.asked(machine) and all(done.closes and not done.mixed for done in steps):
            self.asked(machine)[guard] = (True, found)

    def ends(self, machine: Machine, guard: cst.BaseExpression) -> bool | None:
        """Whether `guard` ends a window on this path, None if it was not tested or joined paths differ."""
        found = self.asked(machine).get(guard)
        return found[0] if found is not None else None


def _outer_window(
    machine: Machine, loop: cst.CSTNode, rounds: list[_Round], guard: cst.BaseExpression, found: Boundary
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
    if len(partial) < len(rest) and not (_is_alternative(machine, guard) or _separates_early_steps(rest, partial)):
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
    if _follows_all_steps(machine, loop, guard, [done.node for one in full for done in one.of(Job.STEP)]):
        return
    remainder = _remainder(machine, found, guard)
    early = all(one.of(Job.STEP)[0].node in _before_backward(one) for one in full)
    exact = not (early or others or _is_alternative(machine, guard))
    if exact and remainder is not None and first_value(machine, found.counter, loop) is not None:
        machine[Rhythm].exact[loop] = remainder
    machine[Rhythm].windows.add(loop)
    _emit_accumulation(
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


def _is_unsettled(full: list[_Round], partial: list[_Round]) -> bool:
    """Whether both kinds of paths clear gradients in vain: a later round tells whether a condition decides it."""
    vain = ({done.node for one in some for done in one.of(Job.CLEAR) if done.in_vain} for some in (full, partial))
    return not set.isdisjoint(*vain)


def _stepped_within(machine: Machine, rounds: list[_Round], guard: cst.BaseExpression) -> None:
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


def _discarded(partial: list[_Round], full: list[_Round]) -> cst.CSTNode | None:
    """The call that clears, before the last backward pass of a window, what the others have added up."""
    if any(one.has(Job.CLEAR) for one in partial):
        return None
    found = {_discarding(one) for one in full}
    return found.pop() if len(found) == 1 else None


def _discarding(one: _Round) -> cst.CSTNode | None:
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


def _follows_all_steps(machine: Machine, loop: cst.CSTNode, guard: cst.CSTNode, steps: Sequence[cst.CSTNode]) -> bool:
    """Whether a condition follows all steps of a loop, so that it decides something else.

    What runs in a called function is where the loop calls it.
    """
    order = {node: place for place, node in enumerate(walk(loop))}
    led = {guard, *(site for sites in machine[Rhythm].sites.get(guard, ()) for site in sites)}
    asked = [order[node] for node in led if node in order]
    sites = machine[CallIndex].sites
    ran = [[order[node] for node in sites.get(step, (step,)) if node in order] for step in steps]
    return bool(asked) and all(places and max(places) < min(asked) for places in ran)


def _assumes_single_batch(machine: Machine, one: _Round, found: Boundary) -> bool:
    """Whether the path assumes windows of at most one micro-batch."""
    if found.every is None:
        return False
    more = machine.symbols.intern("GreaterThan", parts=(found.every, symbol_of(machine, Const(1))))
    return one.state.facts.get(more) == Const(False)


def _lost_windows(machine: Machine, rounds: list[_Round]) -> None:
    """Emit loops over a data loader, or over unknown batches, whose last, shorter window no step follows."""
    for loop in {done.loops[one.depth] for one in rounds for done in one.work if len(done.loops) > one.depth}:
        remainder = machine[Rhythm].exact.get(loop)
        if remainder is None or not isinstance(loop, cst.For) or not may_be_uneven(machine, loop):
            continue
        cleared = [_cleared_first(one, loop) for one in rounds]
        if cleared[0] is not None and all(node is cleared[0] for node in cleared):
            known = uneven(machine, loop) and rounds[0].depth > 0
            machine.emit(
                rounds[0].state, WindowLost, remainder, loop=loop, remainder=remainder, cleared=cleared[0],
                guesses=pass_through_guesses(machine, loop) if known else (),
                premises=() if known else (Premise.UNEVEN,),
            )  # fmt: skip
        elif all(_carries_over(one, loop) for one in rounds):
            machine.emit(
                rounds[0].state, WindowLost, remainder, loop=loop, remainder=remainder, cleared=None,
                premises=(Premise.UNEVEN,),
            )  # fmt: skip


def _carries_over(one: _Round, loop: cst.CSTNode) -> bool:
    """Whether the gradients that `loop` leaves stay for its next run: nothing around it or at its start clears them."""
    if not one.work or one.depth == 0 or any(loop not in done.loops for done in one.work):
        return False
    return not any(done.job is Job.CLEAR and done.node in _before_backward(one) for done in one.work)


def _cleared_first(one: _Round, loop: cst.CSTNode) -> cst.CSTNode | None:
    """The call that clears the gradients before `loop`, if no step uses what it leaves."""
    within = [index for index, done in enumerate(one.work) if loop in done.loops]
    if not within or any(done.job in (Job.STEP, Job.RESCALE) for done in one.work[within[-1] + 1 :]):
        return None
    first = [done for done in one.work[: within[0]] if done.job is Job.CLEAR and len(done.loops) == one.depth]
    return first[-1].node if first and first[-1].certain else None


def _has_own_loss(full: list[_Round], partial: list[_Round]) -> bool:
    """Whether another backward pass, of a conditional loss, comes with the step."""
    always = {done.node for one in partial for done in one.of(Job.BACKWARD)}
    ours = [done for one in full for done in one.of(Job.BACKWARD)]
    shared = any(done.node in always for done in ours)
    return shared and any(done.closes and done.node not in always for done in ours)


def _clears_conditionally(full: list[_Round], partial: list[_Round]) -> bool:
    """Whether gradients are cleared, after backward, by code that runs only within a window.

    That code steps with them in unseen code, or discards them on purpose.
    """
    shared = {done.node for one in full for done in one.of(Job.CLEAR)}
    return any(
        done.node not in shared and done.node not in _before_backward(one)
        for one in partial
        for done in one.of(Job.CLEAR)
    )


def _accumulated_before(machine: Machine, one: _Round) -> bool:
    """Whether an inner loop accumulates these gradients, so that the condition is about the remainder."""
    return all(machine[Rhythm].windows & set(done.loops[one.depth :]) for done in one.of(Job.BACKWARD))


def _is_alternative(machine: Machine, guard: cst.CSTNode) -> bool:
    """Whether another condition, joined by `or`, ends windows where `guard` does not."""
    source = machine.program.source_of(guard)
    around = next(iter(source.ancestors(guard)), None) if source is not None else None
    return isinstance(around, cst.BooleanOperation) and isinstance(around.operator, cst.Or)


def _guarded(machine: Machine, guard: cst.CSTNode | None) -> frozenset[cst.CSTNode]:
    """What runs only where a condition holds that `guard` is an alternative of."""
    source = machine.program.source_of(guard) if guard is not None and _is_alternative(machine, guard) else None
    if guard is None or source is None:
        return frozenset()
    statement = next((one for one in source.ancestors(guard) if not isinstance(one, cst.BooleanOperation)), None)
    return frozenset(walk(statement.body)) if isinstance(statement, cst.If) else frozenset()


def _separates_early_steps(rest: list[_Round], partial: list[_Round]) -> bool:
    """Whether a condition separates paths that step early from those that continue to accumulate."""
    stepping = [one for one in rest if one not in partial]
    shared = set.intersection(*({k for k, v in one.state.facts.items() if v == Const(True)} for one in stepping))
    denied = set.intersection(*({k for k, v in one.state.facts.items() if v == Const(False)} for one in partial))
    return bool(shared & denied)


def _resets_counter(machine: Machine, full: list[_Round], counter: int) -> bool:
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


def _before_backward(one: _Round) -> set[cst.CSTNode]:
    found: set[cst.CSTNode] = set()
    for done in one.work:
        if done.job is Job.BACKWARD:
            break
        found.add(done.node)
    return found


def _simple(machine: Machine, found: Boundary) -> bool:
    """Whether the compared value is a counter, and no distance between two whose length can change."""
    return found.counter is not None and machine.symbols.key(shifted(machine, found.counter)[0])[0] == COUNTER


def _remainder(machine: Machine, found: Boundary, guard: cst.BaseExpression) -> cst.BinaryOperation | None:
    """The expressions for the counter and the number of micro-batches of a window, in `guard` if it has them."""
    spelled = machine[Rhythm].spelled.get(found.modulo) if found.modulo is not None else None
    if not isinstance(spelled, cst.BinaryOperation):
        return None
    written = (one for one in walk(guard) if isinstance(one, cst.BinaryOperation))
    return next((one for one in written if _is_alike(one, spelled)), spelled)


def _is_alike(one: cst.BinaryOperation, other: cst.BinaryOperation) -> bool:
    """Whether two remainders of variables are written alike."""
    sides = [(dotted(each.left), dotted(each.right)) for each in (one, other)]
    return type(one.operator) is type(other.operator) and None not in sides[0] and sides[0] == sides[1]


def _first(
    machine: Machine, loop: cst.CSTNode, full: list[_Round], guard: cst.BaseExpression, found: Boundary
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
    machine: Machine, loop: cst.CSTNode, one: _Round, guard: cst.BaseExpression, counter: int
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
            spelled is None or not _follows_all_steps(machine, loop, spelled, steps)
        ):
            return True
    return False


def _inner_windows(machine: Machine, rounds: list[_Round]) -> None:
    """Emit the loops over micro-batches whose gradients the rest of the iteration uses in a step.

    Iterations that discard the gradients are left out.
    """
    rounds = [one for one in rounds if not _discards_gradients(one)]
    inner = {done.loops[one.depth] for one in rounds for done in one.of(Job.BACKWARD) if len(done.loops) > one.depth}
    for loop in inner:
        if not isinstance(loop, cst.For):
            continue
        said, cut = _micro_batch_name(loop), pieces(machine, loop)
        if not said and cut is None:
            continue
        every = cut if cut is not None else repeats(machine, loop)
        if every is None:
            every = length(machine, loop, rounds[0].state.iteration[: rounds[0].depth])
        within = [[done for done in one.work if loop in done.loops] for one in rounds]
        behind = [[done for done in one.work if loop not in done.loops] for one in rounds]
        if any(done.job is Job.STEP for work in within for done in work):
            continue
        if not all(any(done.job is Job.STEP for done in work) for work in behind):
            continue
        spelled = next((n for n in walk(loop.iter) if isinstance(n, cst.Call) and _is_range(n)), None)
        _emit_accumulation(
            machine, loop, None, spelled.args[-1].value if spelled else None, every, rounds, rounds, inner=loop,
            guesses=SAYS_MICRO_BATCHES.guesses(said) if cut is None else (),
        )  # fmt: skip


def _discards_gradients(one: _Round) -> bool:
    """Whether a path clears gradients after a backward pass, without a step."""
    jobs = [done.job for done in one.work]
    return Job.STEP not in jobs and Job.BACKWARD in jobs and Job.CLEAR in jobs[jobs.index(Job.BACKWARD) :]


def _is_range(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value in ("range", "trange")


def _micro_batch_name(loop: cst.For) -> str:
    """The name in a loop's header that implies micro-batches, empty without one."""
    words = [node.value for part in (loop.target, loop.iter) for node in walk(part) if isinstance(node, cst.Name)]
    return next(filter(SAYS_MICRO_BATCHES.search, words), "")


def _emit_accumulation(
    machine: Machine,
    loop: cst.CSTNode,
    guard: cst.BaseExpression | None,
    every: cst.BaseExpression | None,
    number: int | None,
    partial: list[_Round],
    full: list[_Round],
    remainder: cst.BinaryOperation | None = None,
    counted: bool = True,
    first: int | None = None,
    others: bool = False,
    inner: cst.CSTNode | None = None,
    guesses: tuple[Guessed, ...] = (),
    counter: int | None = None,
    discards: cst.CSTNode | None = None,
) -> None:
    def belongs(done: Work, within: bool) -> bool:
        return inner is None or (inner in done.loops) is within

    backwards = {
        done.node: _verdict(machine, done.node, number)
        for one in partial
        for done in one.of(Job.BACKWARD)
        if belongs(done, within=True)
    }
    asked = [one for one in full if guard is None or one.ends(machine, guard)]
    ending = {done.node for one in asked for done in one.of(Job.BACKWARD) if belongs(done, within=True)}
    backwards |= {node: False for node in ending - set(backwards) if _verdict(machine, node, number) is False}
    guarded = _guarded(machine, guard)
    inside = _together(
        [done for done in one.of(*_PLACED) if inner or not (done.closes or done.in_vain or done.node in guarded)]
        for one in partial
    )
    machine[Rhythm].inside |= {done.node for done in inside if done.job is Job.UNSCALE and belongs(done, within=True)}
    machine.emit(
        full[0].state,
        Accumulation,
        guard if guard is not None else loop,
        loop=loop,
        guard=guard,
        every=every,
        remainder=remainder,
        backwards=tuple(backwards.items()),
        inside=tuple(done for done in inside if belongs(done, within=True)),
        closing=tuple(
            done for done in _together(one.of(*Job) for one in full) if inner is None or inner not in done.loops
        ),
        counted=counted,
        first=first,
        others=others,
        rescaled=any(map(_rescales_before_step, full)),
        parallel=_always_synchronised(machine),
        discards=discards,
        by_position=frozenset(node for node in backwards if _is_divided_by_position(machine, node, number, counter)),
        of_models=frozenset(node for node in backwards if _is_of_models(machine, node)),
        alone=_alone(machine, backwards, (*partial, *full)),
        guesses=guesses,
    )


def _alone(
    machine: Machine, backwards: Mapping[cst.CSTNode, bool | None], rounds: Sequence[_Round]
) -> frozenset[cst.CSTNode]:
    """The undivided backward passes that run on no path with a divided one, of a branch beside that one's."""
    divided_ones = {node for node, divided_so in backwards.items() if divided_so}
    ran = [{done.node for done in one.of(Job.BACKWARD)} for one in rounds]
    return frozenset(
        node
        for node, divided_so in backwards.items()
        if divided_so is False
        and not any(node in nodes and nodes & divided_ones for nodes in ran)
        and any(_are_of_one_choice(machine, node, other) for other in divided_ones)
    )


def _are_of_one_choice(machine: Machine, left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Whether two nodes are in different branches of one `if` that tests no number of micro-batches."""
    source = machine.program.source_of(left)
    if source is None or machine.program.source_of(right) is not source:
        return False
    above, others = [left, *source.ancestors(left)], {right, *source.ancestors(right)}
    choice = next((one for one in above if one in others), None)
    return isinstance(choice, cst.If) and not any(
        isinstance(node, (cst.Comparison, cst.BinaryOperation)) for node in walk(choice.test)
    )


def _rescales_before_step(one: _Round) -> bool:
    """Whether a path may multiply gradients between its first backward pass and a step.

    What happens before that pass, or behind the step, concerns no gradient of the window.
    """
    ran = rescaled = False
    for done in one.work:
        if done.job is Job.BACKWARD and not ran:
            ran, rescaled = True, False
        elif done.job is Job.RESCALE:
            rescaled = True
        elif done.job is Job.STEP and rescaled:
            return True
    return False


def _always_synchronised(machine: Machine) -> cst.Call | None:
    """The only distributed model of a program in which nothing disables its synchronisation, as something can.

    With a static graph `no_sync()` raises: INTERNAL ASSERT FAILED in reducer.cpp.
    """
    makers = {id(call): call for call in machine[Rhythm].parallel}
    if len(makers) != 1 or machine[Rhythm].bypassed or any(map(_may_skip_sync, machine.program.chunks)):
        return None
    return next(iter(makers.values()))


def _clauses(machine: Machine, symbol: int) -> Iterator[int]:
    """A condition and its operands."""
    symbols = machine.symbols
    return symbols.closure(symbol, lambda one: symbols.parts(one) if symbols.key(one)[0] in _LOGICAL else ())


@cached_per_chunk
def _may_skip_sync(chunk: Chunk) -> bool:
    return MAY_SKIP_SYNC.search(chunk.text) is not None or _STATIC_GRAPH.search(chunk.text) is not None


def _verdict(machine: Machine, backward: cst.CSTNode, number: int | None) -> bool | None:
    if any(
        (loss, number) in machine[Rhythm].divided_after_backward for loss in machine[Rhythm].losses.get(backward, ())
    ):
        return False
    if number is None or any(map(changes_reduction, machine.program.main.chunks)):
        return None
    verdicts = {divided(machine, loss, number) for loss in machine[Rhythm].losses.get(backward, ())}
    return True if True in verdicts else False if False in verdicts else None


def _is_of_models(machine: Machine, backward: cst.CSTNode) -> bool:
    losses = machine[Rhythm].losses.get(backward, set())
    return bool(losses) and losses <= machine[Rhythm].of_models


def _is_divided_by_position(machine: Machine, backward: cst.CSTNode, number: int | None, counter: int | None) -> bool:
    """Whether a loss is divided by the counter of its window, and on no other path by the number of micro-batches."""
    losses = machine[Rhythm].losses.get(backward, ())
    if counter is None or not any(divided_by_position(machine, loss, counter) for loss in losses):
        return False
    return number is None or not any(divided(machine, loss, number) for loss in losses)


def _together(rounds: Iterable[list[Work]]) -> list[Work]:
    """The jobs of all paths, in order; certain if all paths do them."""
    lists = list(rounds)
    found: dict[cst.CSTNode, Work] = {}
    for done in (done for work in lists for done in work):
        found.setdefault(done.node, done)
    certain = {
        node for node in found if all(any(done.node is node and done.certain for done in work) for work in lists)
    }
    return [done if node in certain else replace(done, certain=False) for node, done in found.items()]


class Windows(Tracker):
    """Tracks accumulation windows."""

    methods = _CHANGING
    part = WorkDone

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Functions and methods that return whether a window ends, in files that run a backward pass."""
        if not any("backward" in chunk.words for chunk in chunks):
            return Words()
        return Words(frozenset().union(*map(window_methods, chunks), *map(window_tests, chunks)))

    def call_begins(self, state: State, call: Call) -> None:
        """Record a forward pass that bypasses the wrapper of a distributed model."""
        if is_unwrapped(self.machine, call.callee) and not without_gradients(state):
            self.machine[Rhythm].bypassed = True

    def handles_library_call(self, name: str) -> bool:
        """Whether this is a distributed model or a data loader."""
        return (name.startswith("torch.") and name.rpartition(".")[2] in _MAKERS) or name in _OTHER_WRAPPERS

    def library_call(self, state: State, call: Call) -> Value | None:
        """Record a distributed model or a data loader."""
        assert isinstance(call.callee, Ref)
        rhythm, name = self.machine[Rhythm], call.callee.name
        if name in _OTHER_WRAPPERS:
            rhythm.bypassed = True
        elif name.endswith("DistributedDataParallel") and call.arguments.given:
            rhythm.parallel.append(call.node)
        if name.startswith("torch.utils.data."):
            loader = unseen_result(self.machine, state, name, call.arguments)
            rhythm.loaders.setdefault(symbol_of(self.machine, loader), call.node)
            return loader
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `loss.div_(n)`."""
        if call.name in _CHANGING and isinstance(call.owner, (Tensor, Unknown)):
            state.set_attribute(call.owner.symbol, CHANGED, TRUE)
        return None

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """Record the division of a loss after its backward pass."""
        if operands.kind == "Divide":
            loss, by = symbol_of(self.machine, operands.left[1]), symbol_of(self.machine, operands.right[1])
            while (found := self.machine.symbols.method(loss)) is not None and found[0] in SAME_NUMBERS:
                loss = found[1][0]
            rhythm = self.machine[Rhythm]
            if any(loss in losses for losses in rhythm.losses.values()):
                rhythm.divided_after_backward.add((loss, by))
        return None

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the result of an unseen inherited method, which may count micro-batches, and losses that are sums.

        So is what a model out of sight returns, of which either can be true.
        """
        is_method = not isinstance(call.callee, Instance) and not CALLED_MODULE.search(call.name)
        counts = call.inherited and call.entered is None and is_method
        opaque = self.machine[Rhythm].opaque
        sums = isinstance(call.callee, Module) and call.callee.symbol in opaque
        if counts or sums or may_be_sum(last_name(call.node.func), call.arguments):
            opaque.add(symbol_of(self.machine, result))
        if isinstance(call.callee, Unknown) and is_model(self.machine, state, call.callee, call.node.func):
            self.machine[Rhythm].of_models.add(symbol_of(self.machine, result))

    def unfollowed_returns(self, function: Function, result: Value) -> None:
        """Record the result of a function that is not interpreted and no forward pass, which may have divided it."""
        computes = isinstance(function.node, cst.FunctionDef) and function.node.name.value == "forward"
        if not computes and may_divide(function.chunk):
            self.machine[Rhythm].opaque.add(symbol_of(self.machine, result))

    def condition(self, node: cst.BaseExpression, value: Value) -> None:
        """Record a condition that may test the end of a window."""
        if isinstance(value, Unknown):
            rhythm = self.machine[Rhythm]
            rhythm.spelled.setdefault(value.symbol, node)
            rhythm.sites.setdefault(node, set()).add(self.machine.sites)
            rhythm.asked.setdefault(value.symbol, set()).add(self.machine.loops)
            asked = rhythm.repeated if self.machine.loops else rhythm.early
            if value.symbol not in asked:
                asked.update(_clauses(self.machine, value.symbol))

    def arithmetic(self, node: cst.BinaryOperation, value: Value) -> None:
        """Record a modulo that may test the end of a window."""
        if isinstance(node.operator, cst.Modulo) and isinstance(value, Unknown):
            self.machine[Rhythm].spelled.setdefault(value.symbol, node)

    def unseen_call_begins(self, state: State, me: Instance | None) -> None:
        """What the constructor did is no work of the round that a method runs."""
        if state[WorkDone].work:
            state.change(WorkDone).forget()

    def loop_begins(self, node: cst.For, source: int) -> None:
        """Record the iterable of a loop."""
        self.machine[Rhythm].sources[node] = source

    def has_one_iteration(self, source: int) -> bool:
        """Whether a loop iterates over one number."""
        return runs_once(self.machine, source)

    def iteration_begins(self, state: State, loop: cst.For | cst.While, first: bool) -> None:
        """Forget the counters of the loop."""
        begin_iteration(self.machine, state, loop, first)

    def iteration_ends(self, node: cst.CSTNode, states: Sequence[State], first: bool) -> None:
        """Compare the paths at the end of an iteration, which may end a window."""
        end_iteration(self.machine, node, list(states), first)
