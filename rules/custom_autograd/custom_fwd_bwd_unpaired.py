"""AMP602."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.functions import pair
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, Unpaired

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class CustomFwdBwdUnpaired(Rule):
    """Only one of `custom_fwd` and `custom_bwd` decorates a custom autograd function.

    ## Why is this bad?
    `custom_fwd` remembers whether autocast was on in forward, `custom_bwd` switches it on or off for backward to match.
    Without `custom_bwd`, backward runs in float32 rules on the half tensors that forward saved: its matrix products
    raise a dtype mismatch. Without `custom_fwd` there is nothing to restore, and every backward pass raises
    `AttributeError: ... has no attribute '_fwd_used_autocast'`, autocast or not.

    ## Example
    ```python
    class Scale(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight.t(), x.t() @ grad
    ```

    ## Use instead
    ```python
    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.t(), x.t() @ grad
    ```
    Functions without a backward pass of their own are left alone.

    ## Fix safety
    The missing decorator is added, for the same device. A decorator of the wrong kind is replaced by the right one.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions>
    """

    code = "AMP602"
    name = "custom-fwd-bwd-unpaired"
    severity = Severity.ERROR
    screen = ((b"custom_fwd", b"custom_bwd"), b"Function")
    fixable = Applicability.SAFE

    def on_unpaired(self, event: Unpaired) -> Iterator[Report]:
        present = event.api.rpartition(".")[2]
        missing, method = ("custom_bwd", "backward") if present == "custom_fwd" else ("custom_fwd", "forward")
        message = f"{missing} is missing on {method} of {event.name}"
        if event.instead is not None:
            message = f"{method} of {event.name} has {present} where {missing} belongs"
        if missing == "custom_fwd":
            reason = "custom_bwd asks for what custom_fwd has remembered, so every backward pass raises AttributeError."
        elif event.casts:
            reason = "A backward pass that runs in a region is then cast again, although forward ran with autocast off."
        else:
            reason = "Backward runs with autocast off, on the tensors that forward computed and saved with autocast on."
        yield self.report(
            event,
            message,
            reason=reason,
            advice=f"Decorate {method} with {missing}.",
            at=event.instead or event.method.name,
            notes=[(event.decorator, f"{present} is here")],
            severity=Severity.WARNING if event.casts else None,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        return pair(event, rewrite) if isinstance(event, Unpaired) else None
