"""Emission of a window: its backward passes, their divisors, and the calls within and at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.accumulation.divisors import changes_reduction, divided, divided_by_position
from amplint.semantics.accumulation.guards import guarded_nodes
from amplint.semantics.accumulation.rounds import Round
from amplint.semantics.events import Accumulation, Job, Work
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python.machine import Machine
from amplint.semantics.words import MAY_SKIP_SYNC
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import walk

_PLACED = (Job.UNSCALE, Job.CLIP, Job.UPDATE, Job.CLEAR)
_STATIC_GRAPH = regex(r"\b_set_static_graph\(|\bstatic_graph[ \t]*=[ \t]*(?!False)")


def emit_window(
    machine: Machine,
    loop: cst.CSTNode,
    guard: cst.BaseExpression | None,
    every: cst.BaseExpression | None,
    number: int | None,
    partial: list[Round],
    full: list[Round],
    remainder: cst.BinaryOperation | None = None,
    counted: bool = True,
    first: int | None = None,
    others: bool = False,
    inner: cst.CSTNode | None = None,
    guesses: tuple[Guessed, ...] = (),
    counter: int | None = None,
    discards: cst.CSTNode | None = None,
) -> None:
    """Emit a window of `number` micro-batches, written `every`, between `partial` iterations and `full` ones.

    `full` iterations end it. It ends where `guard` holds, or with the loop `inner`, which is within the iteration.
    """

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
    guarded = guarded_nodes(machine, guard)
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
    machine: Machine, backwards: Mapping[cst.CSTNode, bool | None], rounds: Sequence[Round]
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


def _rescales_before_step(one: Round) -> bool:
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


@cached_per_chunk
def _may_skip_sync(chunk: Chunk) -> bool:
    return MAY_SKIP_SYNC.search(chunk.text) is not None or _STATIC_GRAPH.search(chunk.text) is not None


def _verdict(machine: Machine, backward: cst.CSTNode, number: int | None) -> bool | None:
    """Whether the loss of a backward pass is divided by `number`, None if that is unknown."""
    if any(
        (loss, number) in machine[Rhythm].divided_after_backward for loss in machine[Rhythm].losses.get(backward, ())
    ):
        return False
    if number is None or any(map(changes_reduction, machine.program.main.chunks)):
        return None
    verdicts = {divided(machine, loss, number) for loss in machine[Rhythm].losses.get(backward, ())}
    return True if True in verdicts else False if False in verdicts else None


def _is_of_models(machine: Machine, backward: cst.CSTNode) -> bool:
    """Whether every loss of a backward pass is the output of a model."""
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
