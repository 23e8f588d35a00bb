"""AMP307."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import SyncSetLate


class LateSync(Rule):
    """Whether `DistributedDataParallel` averages gradients is decided after the forward pass that asks for it.

    ## Why is this bad?
    The forward pass prepares the all-reduce of its backward pass if `require_backward_grad_sync` is set; `backward()`
    does not look at it. Where it is set in between, each micro-batch does what the one before was told: gradients are
    averaged on the first of a window, and not on the last. Every process then steps with gradients of its own, and
    their weights part, silently. `no_sync()`, which clears that attribute, around `backward()` alone has no effect.

    ## Example
    ```python
    for micro_step in range(accumulation_steps):
        loss = model(*next(batches)) / accumulation_steps
        model.require_backward_grad_sync = micro_step == accumulation_steps - 1
        loss.backward()
    optimizer.step()
    ```

    ## Use instead
    ```python
    for micro_step in range(accumulation_steps):
        model.require_backward_grad_sync = micro_step == accumulation_steps - 1
        loss = model(*next(batches)) / accumulation_steps
        loss.backward()
    optimizer.step()
    ```

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html>
    - <https://github.com/karpathy/build-nanogpt/pull/30>
    """

    code = "AMP307"
    name = "late-sync"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"DistributedDataParallel", b"backward", (b"require_backward_grad_sync", b"no_sync"))
    reason = "The forward pass decides whether the backward pass averages gradients over all processes."

    def on_sync_set_late(self, event: SyncSetLate) -> Iterator[Report]:
        notes = [(event.forward, "this forward pass prepares the all-reduce, or does not")]
        if event.by_context:
            yield self.report(
                event,
                "no_sync() around the backward pass alone has no effect: gradients are averaged all the same",
                advice="Run the forward pass in it, too.",
                notes=notes,
                claims=(),
                severity=Severity.INFO,
            )
        else:
            yield self.report(
                event,
                "require_backward_grad_sync is set after the forward pass that reads it, and so decides about the next",
                reason="Set for the last micro-batch of a window alone, it leaves the gradients of that unaveraged.",
                advice="Set it before the forward pass.",
                notes=[*notes, (event.backward, "averages gradients as was set before that")],
                claims=(),
            )
