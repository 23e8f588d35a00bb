"""Last, shorter windows whose gradients no step uses."""

from __future__ import annotations

from amplint.premises import Premise
from amplint.semantics.accumulation.boundaries import may_be_uneven, pass_through_guesses, uneven
from amplint.semantics.accumulation.rounds import Round
from amplint.semantics.events import Job, WindowLost
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python.machine import Machine
from amplint.source import syntax as cst


def emit_lost(machine: Machine, rounds: list[Round]) -> None:
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


def _carries_over(one: Round, loop: cst.CSTNode) -> bool:
    """Whether the gradients that `loop` leaves stay for its next run: nothing around it or at its start clears them."""
    if not one.work or one.depth == 0 or any(loop not in done.loops for done in one.work):
        return False
    return not any(done.job is Job.CLEAR and done.node in one.before_backward for done in one.work)


def _cleared_first(one: Round, loop: cst.CSTNode) -> cst.CSTNode | None:
    """The call that clears the gradients before `loop`, if no step uses what it leaves.

    Where paths have joined, what the others did within the loop may stand behind a step that follows it.
    """
    within = [index for index, done in enumerate(one.work) if loop in done.loops]
    behind = [done for done in one.work[within[0] + 1 :] if loop not in done.loops] if within else []
    if not within or any(done.job in (Job.STEP, Job.RESCALE) for done in behind):
        return None
    first = [done for done in one.work[: within[0]] if done.job is Job.CLEAR and len(done.loops) == one.depth]
    return first[-1].node if first and first[-1].certain else None
