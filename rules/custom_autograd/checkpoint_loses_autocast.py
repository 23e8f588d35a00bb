"""AMP605."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Backward, ManagedBackward, RunsAgain


class CheckpointLosesAutocast(Rule):
    """A home-made checkpoint recomputes in backward without the autocast state of forward.

    ## Why is this bad?
    The backward pass runs outside the region, so the segment is computed again in float32: its activations differ from
    those of forward, take twice the memory, and where half tensors come in from other segments they meet float32
    weights and raise a dtype mismatch. `torch.utils.checkpoint` saves the state in forward and enters it again.

    ## Example
    ```python
    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, run, x):
            ctx.run = run
            ctx.save_for_backward(x)
            with torch.no_grad():
                return run(x)

        @staticmethod
        def backward(ctx, grad):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                output = ctx.run(x)
            output.backward(grad)
            return None, x.grad
    ```

    ## Use instead
    ```python
    output = torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)
    ```
    Or decorate forward with `torch.amp.custom_fwd(device_type="cuda")` and backward with `torch.amp.custom_bwd`.
    Nothing is reported for a class that speaks of autocast itself, nor where all backward passes in sight run within a
    region, which AMP101 reports. Where no file in sight speaks of autocast, this is an info.

    ## References
    - <https://docs.pytorch.org/docs/stable/checkpoint.html>
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions>
    """

    code = "AMP605"
    name = "checkpoint-loses-autocast"
    severity = Severity.WARNING
    assumed = (
        b"Function",
        b"def backward",
        (b"enable_grad", b"set_grad_enabled", b"autograd.grad", b".backward("),
    )
    screen = (*assumed, (b"autocast", b"amp"))
    reason = "Where forward runs under autocast, in half, backward runs the same outside the region, in float32."

    def __init__(self) -> None:
        self._in_region: set[bool] = set()
        """Whether backward passes on what regions computed run in a region."""

    def on_backward(self, event: Backward) -> Iterator[Report]:
        if event.regions or event.region_with is not None:
            self._in_region.add(event.region_with is not None)
        yield from ()

    def on_managed_backward(self, event: ManagedBackward) -> Iterator[Report]:
        self._in_region.add(event.region_with is not None)
        yield from ()

    def on_runs_again(self, event: RunsAgain) -> Iterator[Report]:
        if self._in_region == {True}:
            return
        what = f"recomputes {event.op}" if event.op else "recomputes"
        yield self.report(
            event,
            f"backward of {event.name} {what} without the autocast state of forward",
            advice="Use torch.utils.checkpoint, or decorate forward with custom_fwd and backward with custom_bwd.",
            at=event.backward.name,
            notes=[(event.first, "forward runs it here"), (event.node, "and backward runs it again here")],
            severity=None if event.announced else Severity.INFO,
        )
