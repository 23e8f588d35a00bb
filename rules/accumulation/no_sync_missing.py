"""AMP306."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Accumulation, Event

from .edits import synchronised_at_end
from .places import window_end_note

if TYPE_CHECKING:
    from amplint.source import syntax as cst
    from amplint.source.rewrite import Rewriter


class NoSyncMissing(Rule):
    """`DistributedDataParallel` averages gradients over all processes on every micro-batch.

    ## Why is this bad?
    Every backward of a distributed model ends with an all-reduce of all gradients. Only the last one of a window is
    needed: the sum of averages is the average of sums. With four micro-batches three quarters of the traffic are for
    nothing, and on a slow network most of the time of a step.

    ## Example
    ```python
    model = DistributedDataParallel(model)
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    model = DistributedDataParallel(model)
    for i, (inputs, targets) in enumerate(loader):
        full = (i + 1) % accumulation_steps == 0
        with nullcontext() if full else model.no_sync():
            loss = criterion(model(inputs), targets) / accumulation_steps
            loss.backward()
        if full:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    The fix sets `require_backward_grad_sync`, the attribute that `no_sync()` switches, at the start of the loop. It is
    unsafe: sums are rounded in another order, and processes that do not end their windows together wait for each other.

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html>
    """

    code = "AMP306"
    name = "no-sync-missing"
    severity = Severity.INFO
    screen = (b"DistributedDataParallel", b"backward", (b"%", b"range(", b"+= 1"))
    fixable = Applicability.UNSAFE
    reason = "Only the gradients of a whole window have to agree between processes."

    def __init__(self) -> None:
        self._first: dict[cst.CSTNode, cst.CSTNode] = {}

    def on_accumulation(self, event: Accumulation) -> Iterator[Report]:
        if event.parallel is None or not event.counted or not event.backwards:
            return
        backward = event.backwards[0][0]
        if self._first.setdefault(event.loop, backward) is backward:
            yield self.report(
                event,
                "gradients are reduced over all processes on every micro-batch",
                advice="Run forward and backward of all but the last one in model.no_sync().",
                at=backward,
                notes=[(event.parallel, "the distributed model"), window_end_note(event)],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Accumulation)
        edit = synchronised_at_end(event, rewrite)
        return Fix("Reduce at the end of the window only", (edit,), Applicability.UNSAFE) if edit else None
