"""Statements of an accumulation window, and their moves under its boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.edits.protocol import holds_only, optimizer_of
from amplint.semantics.events import Accumulation, Job, Work
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.findings import Edit
    from amplint.source.rewrite import Rewriter


def guard_statement(event: Accumulation, rewrite: Rewriter) -> cst.If | None:
    """The `if` whose condition is or contains the guard."""
    for above in rewrite.source.ancestors(event.guard) if event.guard is not None else ():
        if isinstance(above, cst.If):
            return above
        if not isinstance(above, (cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)):
            return None
    return None


def window_end_note(event: Accumulation) -> tuple[cst.CSTNode, str]:
    """The note about the end of a window."""
    return event.node, "ends the window" if event.guard is not None else "each run of this loop is one window"


def step_of(event: Accumulation) -> cst.CSTNode | None:
    """The first step at the end of a window."""
    return next((done.node for done in event.closing if done.job is Job.STEP), None)


def boundary_block(event: Accumulation, rewrite: Rewriter) -> cst.If | None:
    """The guard's `if`, if its body contains the step."""
    guard, step = guard_statement(event, rewrite), step_of(event)
    inside = guard is not None and any(node is guard.body for node in rewrite.source.ancestors(step or guard))
    return guard if inside and guard is not None and isinstance(guard.body, cst.IndentedBlock) else None


def ends_in_parts(event: Accumulation, rewrite: Rewriter) -> bool:
    """Whether several blocks end a window, each with the step of another optimizer."""
    steps = [done.node for done in event.closing if done.job is Job.STEP]
    return any(
        optimizer_of(step, rewrite) != optimizer_of(steps[0], rewrite) and not rewrite.shares_block(step, steps[0])
        for step in steps
    )


def place_of_step(event: Accumulation, rewrite: Rewriter) -> cst.CSTNode | None:
    """The statement that steps: in the body of the guard's `if`, or after that `if` if it continues the loop."""
    block, guard, step = boundary_block(event, rewrite), guard_statement(event, rewrite), step_of(event)
    if guard is None or step is None:
        return None
    if block is not None:
        return rewrite.branch_towards(block.body.body[0], step)
    return rewrite.branch_towards(guard, step) if rewrite.shares_block(guard, step) else None


def moved_under(works: list[Work], block: cst.If, before: cst.CSTNode, rewrite: Rewriter) -> list[Edit] | None:
    """Edits that move the statements with `works` from above `block` to above `before`, which is in it or after it.

    None if something else happens in them, such as the backward pass, which every micro-batch needs.
    """
    statements = []
    for done in works:
        statement = rewrite.branch_towards(block, done.node) if rewrite.shares_block(block, done.node) else None
        if statement is None or statement is block or rewrite.span(statement).start > rewrite.span(block).start:
            return None
        statements.append(statement)
    unique = list(dict.fromkeys(statements))
    if not all(holds_only(one, [done.node for done in works], rewrite) for one in unique):
        return None
    return None if rewrite.bound_for(unique, block) else rewrite.move_statements(unique, before)
