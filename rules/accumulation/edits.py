"""Edits of the length, the weight and the end of an accumulation window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.protocol import other_steps
from amplint.semantics.events import Accumulation, WindowLost
from amplint.source import syntax as cst

from .places import step_of

if TYPE_CHECKING:
    from amplint.findings import Edit
    from amplint.source.rewrite import Rewriter


def divided_loss(backward: cst.CSTNode, every: cst.BaseExpression | None, rewrite: Rewriter) -> Iterator[Edit]:
    """The edit that divides the loss passed to `backward` by `every`, if one is certainly right."""
    call = backward if isinstance(backward, cst.Call) else None
    if every is None or call is None or not isinstance(call.func, cst.Attribute):
        return
    loss = call.func.value
    scaled = isinstance(loss, cst.Call) and isinstance(loss.func, cst.Attribute) and loss.func.attr.value == "scale"
    if rewrite.same_function(backward, every):
        arguments = loss.args if isinstance(loss, cst.Call) and scaled else call.args
        if len(arguments) == 1 and arguments[0].keyword is None and not arguments[0].star:
            inner = arguments[0].value
            yield rewrite.replace(inner, f"{rewrite.operand(inner)} / {rewrite.operand(every)}")
        elif not scaled and all(argument.keyword is not None for argument in call.args):
            yield rewrite.replace(loss, f"({rewrite.operand(loss)} / {rewrite.operand(every)})")


def counter_shift(event: Accumulation, rewrite: Rewriter) -> Edit | None:
    """The edit that adds one to the counter of `i % n`, a plain variable, if the loop has no other `i % n`."""
    counter = event.remainder.left if event.remainder is not None else None
    if event.first != 1 or event.remainder is None or not isinstance(counter, cst.Name):
        return None
    if rewrite.occurrences(event.remainder, event.loop) > 1:
        return None
    return rewrite.replace(counter, f"({counter.value} + 1)")


def or_last_batch(event: WindowLost, rewrite: Rewriter) -> Edit | None:
    """The edit that makes a condition on the counter of `for i, batch in enumerate(loader)` true at the end, too."""
    target, over, guard = event.loop.target, event.loop.iter, rewrite.source.parent(event.remainder)
    counter = target.elements[0].value if isinstance(target, cst.Tuple) and target.elements else None
    if not isinstance(counter, cst.Name) or not isinstance(over, cst.Call) or len(over.args) != 1:
        return None
    loader = over.args[0].value
    named = isinstance(over.func, cst.Name) and over.func.value == "enumerate"
    if not named or not isinstance(loader, (cst.Name, cst.Attribute)) or not isinstance(guard, cst.Comparison):
        return None
    if counter.value not in rewrite.names(guard) or not isinstance(rewrite.source.parent(guard), (cst.If, cst.Assign)):
        return None
    return rewrite.replace(guard, f"{rewrite.text(guard)} or {counter.value} + 1 == len({rewrite.text(loader)})")


def synchronised_at_end(event: Accumulation, rewrite: Rewriter) -> Edit | None:
    """The edit that lets a distributed model reduce gradients on the last micro-batch of a window only.

    None if gradients are stepped with behind the loop as well, where those of a last, shorter window would differ.
    """
    made = rewrite.source.parent(event.parallel) if event.parallel is not None else None
    target = made.targets[0].target if isinstance(made, cst.Assign) else None
    loop = event.loop
    if (
        not isinstance(target, cst.Name)
        or not isinstance(loop, cst.For)
        or not isinstance(loop.body, cst.IndentedBlock)
    ):
        return None
    index = (
        loop.target.elements[0].value if isinstance(loop.target, cst.Tuple) and loop.target.elements else loop.target
    )
    if not isinstance(index, cst.Name) or index.value == "_" or not rewrite.same_function(target, loop):
        return None
    step = step_of(event)
    if event.guard is not None and step is not None and other_steps(step, loop, loop, rewrite):
        return None
    if event.guard is None:
        last = f"{index.value} == {rewrite.operand(event.every)} - 1" if event.every is not None else None
    else:
        reads_index = isinstance(event.guard, cst.Comparison) and index.value in rewrite.names(event.guard)
        last = rewrite.text(event.guard) if reads_index and not event.others else None
    setting = f"{target.value}.require_backward_grad_sync = {last}"
    return rewrite.insert_before(loop.body.body[0], setting) if last is not None else None
