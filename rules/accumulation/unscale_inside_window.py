"""AMP301."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Accumulation, Event, Job
from amplint.source import syntax as cst

from .places import ends_in_parts, guard_statement, moved_under, place_of_step

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class UnscaleInsideWindow(Rule):
    """`unscale_()`, clipping or `update()` run on micro-batches that do not end the accumulation window.

    ## Why is this bad?
    The gradients of a window are whole only after its last micro-batch. `unscale_()` before that divides them by the
    scale, the next backward adds scaled ones, and the next `unscale_()` raises `RuntimeError: unscale_() has already
    been called on this optimizer since the last update()`. Clipping every micro-batch cuts the sum as it grows: the
    last micro-batches count more than the first. `update()` without a step raises `AssertionError`, or changes the
    scale in the middle of the window.

    ## Example
    ```python
    scaler.scale(loss / accumulation_steps).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if (i + 1) % accumulation_steps == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    scaler.scale(loss / accumulation_steps).backward()
    if (i + 1) % accumulation_steps == 0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ```

    ## Fix safety
    The statements move under the condition that ends the window, where they stand beside it and nothing else reads what
    they assign.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation>
    """

    code = "AMP301"
    name = "unscale-inside-window"
    severity = Severity.ERROR
    screen = (b"backward", (b"unscale_", b"clip_grad", b".update("), b".step(")
    fixable = Applicability.SAFE
    reason = "More gradients are added before the step; only then are they whole."

    def __init__(self) -> None:
        self.first: dict[cst.CSTNode, cst.CSTNode] = {}

    def on_accumulation(self, event: Accumulation) -> Iterator[Report]:
        early = [done for done in event.inside if done.job in _WHAT]
        if not early or self.first.setdefault(event.node, early[0].node) is not early[0].node:
            return
        if event.discards is not None and all(done.job is Job.CLIP for done in early):
            return
        if event.supposed:
            yield self.report(
                event,
                "unscale_() runs in calls that do not step",
                reason="Of two such calls in a row the second raises: unscale_() has already been called.",
                advice="Unscale the gradients where they are stepped with, after the last backward pass.",
                at=early[0].node,
                notes=[(event.node, "the caller decides here whether the step is taken")],
                severity=Severity.INFO,
            )
            return
        window = "the window is full only where this holds" if event.guard else "this loop runs through the window"
        yield self.report(
            event,
            f"{_WHAT[early[0].job]} on micro-batches that do not end the accumulation window",
            advice="Move it to where the window is full, before the step.",
            at=early[0].node,
            notes=[
                (event.node, window),
                *((other.node, f"{_WHAT[other.job]} too early as well") for other in early[1:]),
            ],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Accumulation)
        if event.supposed or ends_in_parts(event, rewrite):
            return None
        block, before = guard_statement(event, rewrite), place_of_step(event, rewrite)
        early = [done for done in event.inside if done.job in (Job.UNSCALE, Job.CLIP)]
        if block is None or not isinstance(before, cst.BaseStatement) or len(early) != len(event.inside):
            return None
        edits = moved_under(early, block, before, rewrite)
        return Fix("Move it to the end of the window", tuple(edits)) if edits else None


_WHAT = {Job.UNSCALE: "unscale_() runs", Job.CLIP: "gradients are clipped", Job.UPDATE: "update() runs"}
