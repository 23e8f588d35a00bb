"""AMP109."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, RegionMissed

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class AutocastNotInThread(Rule):
    """A forward pass runs in a thread that does not see the autocast region around it.

    ## Why is this bad?
    Autocast is thread-local, like `torch.no_grad()`: a region is on only in the thread that entered it. A thread or an
    executor started inside the region begins without one, so what it runs stays in float32, silently, or meets the half
    tensors of the other threads and raises a type mismatch.

    ## Example
    ```python
    with torch.autocast("cuda"):
        with ThreadPoolExecutor() as executor:
            outputs = list(executor.map(model, batches))
    ```

    ## Use instead
    ```python
    def forward(batch):
        with torch.autocast("cuda"):
            return model(batch)


    with ThreadPoolExecutor() as executor:
        outputs = list(executor.map(forward, batches))
    ```

    ## Fix safety
    Calling the region decorates the target with it: `torch.autocast("cuda")(model)`. The work of the thread then runs
    in half, as was intended, so results change.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP109"
    name = "autocast-not-in-thread"
    severity = Severity.WARNING
    screen = ((b"autocast", b"is_grad_enabled"), (b"hread", b"run_in_executor", b"multiprocessing.dummy"))
    assumed = (b"is_grad_enabled", b"hread")
    fixable = Applicability.UNSAFE
    reason = "Autocast is thread-local: a new thread starts without the region that is on where it was started."

    def on_region_missed(self, event: RegionMissed) -> Iterator[Report]:
        target = event.thread.target
        if event.lost_with is None:
            yield self.report(
                event,
                f"the thread that runs {target} takes over the gradient mode but not autocast",
                reason="Both are thread-local: where the caller's autocast is on, the thread computes in float32.",
                advice="Hand torch.is_autocast_enabled() and the dtype on, and enter autocast with them in the thread.",
                notes=[(event.work, "the caller's gradient mode is set here")],
                severity=Severity.INFO,
            )
            return
        notes = [(event.lost_with, "autocast is on from here, in this thread only")]
        if event.work is not event.node:
            notes.append((event.work, "this runs in the new thread, with autocast off"))
        yield self.report(
            event,
            f"autocast is not on in the thread that runs {target}",
            advice=f"Enter autocast inside of {target}.",
            notes=notes,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, RegionMissed)
        argument = event.thread.argument
        if event.lost is None or argument is None or not rewrite.same_function(event.lost.node, event.node):
            return None
        edit = rewrite.replace(argument, f"{rewrite.text(event.lost.node)}({rewrite.text(argument)})")
        return Fix("Enter autocast in the thread", (edit,), Applicability.UNSAFE)
