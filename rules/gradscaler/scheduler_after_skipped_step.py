"""AMP212."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, Event, SchedulerStep, ScriptEnd
from amplint.source import syntax as cst
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.findings import Edit
    from amplint.semantics.events.base import Index
    from amplint.source.rewrite import Rewriter

BEFORE = "scale_before"


class SchedulerAfterSkippedStep(Rule):
    """A scheduler that advances on every step does so too when the scaler has skipped the step.

    ## Why is this bad?
    `scaler.step()` leaves the optimizer alone when gradients overflowed, as they often do in the first iterations. The
    scheduler counts on: warm-up is over too early, one-cycle schedules are out of step with training, and PyTorch warns
    `Detected call of lr_scheduler.step() before optimizer.step()` when it is the very first step. Schedulers that
    advance once per epoch are not concerned.

    ## Example
    ```python
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    ```

    ## Use instead
    `update()` lowers the scale exactly when a step was skipped.
    ```python
    scaler.step(optimizer)
    scale_before = scaler.get_scale()
    scaler.update()
    if scaler.get_scale() >= scale_before:
        scheduler.step()
    ```

    ## Fix safety
    Unsafe: the schedule moves later by the number of skipped steps, and reading the scale waits for the GPU.

    ## References
    - <https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate>
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.step>
    """

    code = "AMP212"
    name = "scheduler-after-skipped-step"
    severity = Severity.INFO
    screen = ((b".step(", b"step_", b"_step", b"Step"), SCALER_SIGNS)
    fixable = Applicability.UNSAFE
    reason = "When gradients overflow the scaler skips the optimizer's step, and the schedule runs ahead of training."

    def __init__(self) -> None:
        self.steps: list[SchedulerStep] = []
        self.known: set[int] = set()
        self.float16: set[int] = set()

    def on_backward(self, event: Backward) -> Iterator[Report]:
        if event.scaler is not None and event.regions:
            self.known.add(event.scaler.symbol)
            self.float16 |= {event.scaler.symbol} if event.may_scale_float16 else set()
        yield from ()

    def on_scheduler_step(self, event: SchedulerStep) -> Iterator[Report]:
        self.steps += [event] if not event.waits else []
        yield from ()

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for step in self.steps:
            if step.scaler in self.float16 or step.scaler not in self.known:
                yield self.report(
                    step,
                    "the scheduler advances even when the scaler has skipped the optimizer's step",
                    advice="Advance it only when update() has not lowered the scale.",
                    notes=[*step.steps_from(step.stepped), (step.node, "advances whether or not the step was taken")],
                )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, SchedulerStep)
        call = event.call
        updates = event.index.updates.get(event.scaler, [])
        update = next((node for node in updates if rewrite.shares_block(node, call)), None)
        spelled = next((rewrite.text(node) for node in event.index.scalers.get(event.scaler, [])), None)
        if update is None and spelled is not None and spelled.startswith("self."):
            towards = (rewrite.call_towards(node, call) for node in updates)
            update = next((node for node in towards if node is not None), None)
        edits: list[Edit | None]
        if update is None or spelled is None or BEFORE in rewrite.source.text or _names_several(event.index, rewrite):
            return None
        reading = f"{BEFORE} = {spelled}.get_scale()"
        guard = f"if {spelled}.get_scale() >= {BEFORE}"
        if rewrite.span(update).start < rewrite.span(call).start:
            wrapped = rewrite.wrap_statements(self._adjacent(event, rewrite), guard)
            edits = [rewrite.insert_before(update, reading), *(wrapped if wrapped is not None else [None])]
        elif not rewrite.shares_block(call, update):
            return None
        else:
            guarded = f"{guard}:\n    {rewrite.text(call)}"
            edits = [rewrite.replace(call, reading), rewrite.insert_after(update, guarded)]
        known = tuple(one for one in edits if one is not None)
        complete = len(known) == len(edits)
        return Fix("Wait for steps that are taken", known, Applicability.UNSAFE) if complete else None

    def _adjacent(self, event: SchedulerStep, rewrite: Rewriter) -> list[cst.CSTNode]:
        """The statement of a step with the adjacent ones that step schedulers behind the same scaler."""
        stepping = {rewrite.statement_of(one.call) for one in self.steps if one.scaler == event.scaler}
        block, own = [*rewrite.block_of(event.call)], rewrite.statement_of(event.call)
        if not isinstance(own, cst.SimpleStatementLine):
            return []
        first = last = next(index for index, one in enumerate(block) if one is own)
        while first > 0 and block[first - 1] in stepping:
            first -= 1
        while last + 1 < len(block) and block[last + 1] in stepping:
            last += 1
        return [*block[first : last + 1]]


def _names_several(index: Index, rewrite: Rewriter) -> bool:
    """Whether updates are those of scalers with several names, any of which can skip the step."""
    nodes = (node for scaler in index.updates for node in index.scalers.get(scaler, ()))
    return len({rewrite.text(node) for node in nodes}) > 1
