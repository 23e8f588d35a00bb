"""AMP304."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.protocol import other_steps
from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Report, Rule
from amplint.semantics.events import Accumulation, ClearedInWindow, Event, Job, NeverCleared, ScriptEnd, SteppedWithin
from amplint.semantics.values.values import Const
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

from .places import boundary_block, ends_in_parts, step_of

_GRADIENTS = regex(r"\.grad\b|grad_?norm|norm\w{0,60}grad|\bbackward\(")

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_BY_MODEL = "the model clears the gradients on every micro-batch of a window, whether or not a step is due"
_DISCARDED = "gradients are cleared before the last backward pass of a window, which throws away those of the others"


class ZeroGradInsideWindow(Rule):
    """Gradients are cleared on every micro-batch, so nothing accumulates, or never.

    ## Why is this bad?
    The step at the end of the window sees the gradients of the last micro-batch only; the work of all others is thrown
    away. Where the loss is divided by the number of micro-batches, the steps are too small by that factor as well.
    Where nothing clears them, every step repeats the gradients of all steps before it; a scaler hides that, because it
    divides the old ones by the scale again. It does not do so for ever: inf and NaN of one overflow stay in gradients
    that nothing clears, and every later step is skipped. Where every micro-batch steps, and gradients are cleared only
    at the end of a window, each step repeats those of the window so far.

    ## Example
    ```python
    for i, (inputs, targets) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
    ```

    ## Use instead
    ```python
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    Inside of `accelerator.accumulate(model)` the prepared optimizer clears, and steps, only on the last micro-batch of
    a window: `zero_grad()` before that `backward()` throws away what the others have added up. If the number of
    micro-batches is not written out, this is an info: with one, nothing is wrong.

    ## Fix safety
    The call moves to the end of the block that steps, or behind the step that follows a loop over micro-batches, and
    behind the steps of other branches of the loop. Where there is none it is added behind the step. A window that ends
    in several blocks, each with the step of another optimizer, is left as it is, and so is a call in another function
    than the step. Unsafe where the number of micro-batches that an Accelerator counts is not written out.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation>
    """

    code = "AMP304"
    name = "zero-grad-inside-window"
    severity = Severity.ERROR
    only_numbers = True
    screen = (
        b"backward",
        (b"zero_grad", b"autocast", b".step()", *SCALER_SIGNS),
        (b"%", b"range(", b"+= 1", b"autocast", b"accumulate(", b".step()", *SCALER_SIGNS),
    )
    fixable = Applicability.SAFE
    reason = "Only the gradients of the last micro-batch reach the step."

    def __init__(self) -> None:
        self._cleared: list[ClearedInWindow] = []

    def on_accumulation(self, event: Accumulation) -> Iterator[Report]:
        cleared = [done for done in event.inside if done.job is Job.CLEAR and done.certain]
        if cleared and event.counted:
            yield self.report(
                event,
                "gradients are cleared on every micro-batch, so none accumulate",
                advice="Clear them where the window ends, after the step.",
                at=cleared[0].node,
                notes=[(event.node, "steps only here" if event.guard else "runs through one window")],
            )
        elif event.discards is not None:
            yield self.report(
                event,
                _DISCARDED,
                advice="Clear them where the window ends, after the step.",
                at=event.discards,
                notes=[(done, "adds to the gradients of earlier micro-batches") for done, _ in event.backwards],
            )

    def on_stepped_within(self, event: SteppedWithin) -> Iterator[Report]:
        yield self.report(
            event,
            "the optimizer steps on every micro-batch, with gradients that are cleared only at the end of a window",
            reason="Each step repeats the gradients of all micro-batches since then.",
            advice="Step where they are cleared, at the end of the window, or clear them after every step.",
            notes=[
                (event.backward, "adds to the gradients of earlier micro-batches"),
                (event.cleared, "cleared only here"),
            ],
        )

    def on_cleared_in_window(self, event: ClearedInWindow) -> Iterator[Report]:
        self._cleared.append(event)
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        several = len({cleared.step for cleared in self._cleared}) > 1
        for cleared in self._cleared:
            certain = isinstance(cleared.manager.steps, Const)
            message = _DISCARDED
            advice = "Clear them after optimizer.step()."
            if several:
                advice = "Clear them after optimizer.step(), and let no pass for another optimizer add to them."
            if cleared.by_model:
                message = _BY_MODEL
                advice = "Let the prepared optimizer clear them: its zero_grad() does nothing between two steps."
            yield self.report(
                cleared,
                message + ("" if certain else ", if it has several"),
                advice=advice,
                notes=[
                    (cleared.backward, "adds to the gradients of earlier micro-batches"),
                    (cleared.step, "uses them"),
                ],
                severity=None if certain else Severity.INFO,
            )

    def on_never_cleared(self, event: NeverCleared) -> Iterator[Report]:
        if event.elsewhere is not None:
            yield self.report(
                event,
                "gradients are never cleared on this path through the loop, as they are on the other one",
                reason="backward() adds to what is there: after an overflow inf stays, and no step is taken any more.",
                advice="Call optimizer.zero_grad() after the step, or before backward on all paths.",
                notes=[
                    (event.backward, "adds to the gradients of all earlier rounds"),
                    (event.elsewhere, "cleared here"),
                ],
            )
            return
        message, reason = "so every step repeats those of all earlier ones", "adds to the gradients that are there."
        if event.scaled:
            message, reason = "so that no step is taken after an overflow", "adds to what is there, and inf stays inf."
        notes = [(event.backward, "adds to the gradients of all earlier rounds")]
        if event.before is not None:
            notes.append((event.before, "cleared only outside of the loop"))
        yield self.report(
            event,
            f"gradients are {'not cleared between steps' if event.before is not None else 'never cleared'}, {message}",
            reason=f"backward() {reason}",
            advice="Call optimizer.zero_grad() after the step.",
            notes=notes,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, NeverCleared):
            if event.node is event.backward:
                return None
            edit = rewrite.insert_after(event.node, f"{rewrite.text(event.optimizer)}.zero_grad()")
            return Fix("Clear the gradients after the step", (edit,)) if edit else None
        if isinstance(event, SteppedWithin):
            return None
        if isinstance(event, ClearedInWindow):
            if event.by_model or not rewrite.same_function(event.node, event.step):
                return None
            edits = (
                None if _meets_gradients(rewrite, event.step) else rewrite.move_statement(event.node, after=event.step)
            )
            known = isinstance(event.manager.steps, Const)
            safety = Applicability.SAFE if known else Applicability.UNSAFE
            return Fix("Clear the gradients after the step", tuple(edits), safety) if edits else None
        assert isinstance(event, Accumulation)
        cleared = [done.node for done in event.inside if done.job is Job.CLEAR]
        closing = [done for done in event.closing if done.job in (Job.STEP, Job.UPDATE)]
        block = boundary_block(event, rewrite)
        if ends_in_parts(event, rewrite):
            return None
        if len(cleared) != 1 or not closing or not rewrite.same_function(cleared[0], closing[-1].node):
            return None
        last: cst.CSTNode = block.body.body[-1] if block is not None else closing[-1].node
        if block is None and event.guard is not None:
            return None
        edits = rewrite.move_statement(cleared[0], after=last)
        end = step_of(event)
        steps = other_steps(end, block, cleared[0], rewrite) if block is not None and end is not None else []
        others = [rewrite.insert_after(step, rewrite.text(cleared[0])) for step in steps]
        if not edits or None in others:
            return None
        return Fix("Clear the gradients after the step", (*edits, *(edit for edit in others if edit is not None)))


def _meets_gradients(rewrite: Rewriter, after: cst.CSTNode) -> bool:
    """Whether the rest of the function reads gradients, which are cleared by then, or adds others."""
    function = next((one for one in rewrite.source.ancestors(after) if isinstance(one, cst.FunctionDef)), None)
    rows = rewrite.source.text.splitlines()
    end = rewrite.span(function).end.row if function is not None else len(rows)
    return any(_GRADIENTS.search(row) for row in rows[rewrite.span(after).end.row : end])
