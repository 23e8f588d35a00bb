"""Windows that are a loop over micro-batches within an iteration."""

from __future__ import annotations

from amplint.semantics.accumulation.boundaries import length, pieces, repeats
from amplint.semantics.accumulation.emission import emit_window
from amplint.semantics.accumulation.rounds import Round
from amplint.semantics.events import Job
from amplint.semantics.python.machine import Machine
from amplint.semantics.words import SAYS_MICRO_BATCHES
from amplint.source import syntax as cst
from amplint.source.tree import walk


def emit_inner(machine: Machine, rounds: list[Round]) -> None:
    """Emit the loops over micro-batches whose gradients the rest of the iteration uses in a step.

    Iterations that discard the gradients are left out.
    """
    rounds = [one for one in rounds if not _discards_gradients(one)]
    inner = {done.loops[one.depth] for one in rounds for done in one.of(Job.BACKWARD) if len(done.loops) > one.depth}
    for loop in inner:
        if not isinstance(loop, cst.For):
            continue
        said, cut = micro_batch_name(loop), pieces(machine, loop)
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
        emit_window(
            machine, loop, None, spelled.args[-1].value if spelled else None, every, rounds, rounds, inner=loop,
            guesses=SAYS_MICRO_BATCHES.guesses(said) if cut is None else (),
        )  # fmt: skip


def _discards_gradients(one: Round) -> bool:
    """Whether a path clears gradients after a backward pass, without a step."""
    jobs = [done.job for done in one.work]
    return Job.STEP not in jobs and Job.BACKWARD in jobs and Job.CLEAR in jobs[jobs.index(Job.BACKWARD) :]


def _is_range(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value in ("range", "trange")


def micro_batch_name(loop: cst.For) -> str:
    """The name in a loop's header that implies micro-batches, empty without one."""
    words = [node.value for part in (loop.target, loop.iter) for node in walk(part) if isinstance(node, cst.Name)]
    return next(filter(SAYS_MICRO_BATCHES.search, words), "")
