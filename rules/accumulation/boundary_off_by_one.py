"""AMP305."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Accumulation, Event, Job

from .edits import counter_shift

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class BoundaryOffByOne(Rule):
    """The condition that ends a window already holds for the first micro-batches of a loop.

    ## Why is this bad?
    A counter that starts at 0 is divisible by anything: the first step of every epoch is taken with the gradients of a
    single micro-batch, and the last micro-batches of the epoch are left for no step. Where the loss is divided by the
    number of micro-batches, that first step is too small as well.

    ## Example
    ```python
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
        if i % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
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

    ## Fix safety
    The fix counts from one. It is unsafe because every step then happens at another micro-batch.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation>
    """

    code = "AMP305"
    name = "boundary-off-by-one"
    severity = Severity.WARNING
    screen = (b"backward", b"%")
    fixable = Applicability.UNSAFE
    reason = "The counter of the first micro-batch is 0, which every number divides."

    def on_accumulation(self, event: Accumulation) -> Iterator[Report]:
        if event.first is not None and event.guard is not None and event.discards is None:
            many = "1 micro-batch" if event.first == 1 else f"{event.first} micro-batches"
            yield self.report(
                event,
                f"the first window of this loop ends after {many}",
                advice="Count from one: (i + 1) % accumulation_steps == 0.",
                at=event.remainder,
                notes=[(done.node, "steps here") for done in event.closing if done.job is Job.STEP][:1],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Accumulation)
        edit = counter_shift(event, rewrite)
        return Fix("Count micro-batches from one", (edit,), Applicability.UNSAFE) if edit else None
