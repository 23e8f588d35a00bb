"""AMP601."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.functions import restore
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, LeftOut, MixedBackward, OffInBackward, UncastKernelCall

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_DECORATE = "Decorate forward with torch.amp.custom_fwd and backward with torch.amp.custom_bwd."


class CustomFunctionWithoutCustomFwd(Rule):
    """A custom autograd function, used under autocast, mixes dtypes because nothing prepares it for autocast.

    ## Why is this bad?
    Under autocast forward multiplies a half activation by a float32 weight, and autocast casts. Backward runs with
    autocast off: the gradient is half, the saved weight float32, and the product raises `expected m1 and m2 to have the
    same dtype`. A kernel of an extension is not cast for at all: what autocast made half and what it left in float32
    meet there.

    Where the rule is selected by its code, functions that nothing is seen to apply in a region, and those that hand
    tensors to a kernel as they come, or compute in both passes what autocast casts for, are reported as infos although
    nothing tells that they run under autocast. So are those that hand two tensors to a kernel in a forward pass with
    `custom_fwd`, which casts neither without `cast_inputs`.

    ## Example
    ```python
    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return x @ weight.t()

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return grad @ weight, grad.t() @ x
    ```

    ## Use instead
    ```python
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, weight): ...


    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, grad): ...
    ```
    With `cast_inputs=torch.float32` forward runs in float32 and with autocast off, which suits kernels.

    ## Fix safety
    The fix adds both decorators, for the device of the region. Backward then runs its products in half too, which
    changes gradients.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#autocast-and-custom-autograd-functions>
    """

    code = "AMP601"
    name = "custom-function-without-custom-fwd"
    severity = Severity.WARNING
    screen = (b"Function", b"def backward")
    assumed = screen
    fixable = Applicability.UNSAFE

    def on_mixed_backward(self, event: MixedBackward) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.op} in backward of {event.name} mixes a half gradient with the float32 {event.weight}",
            reason="Under autocast forward's result is half, so its gradient is; backward runs with autocast off.",
            advice=_DECORATE,
            at=event.node if event.managed else event.forward.name,
            notes=[(event.product, "autocast makes the result half here"), (event.node, "and the two meet here")],
            severity=None if event.announced else Severity.INFO,
            premises=() if event.applied is not None else (Premise.REGION_OF_CALLER, Premise.APPLIED_THERE),
        )

    def on_left_out(self, event: LeftOut) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.missing} is not converted to the dtype of {event.like}, as the other tensors of the kernel are",
            reason="Under autocast one can be half and the other float32, and the kernel takes tensors of one dtype.",
            advice=f"Convert it too: {event.missing} = {event.missing}.type_as({event.like}).",
            notes=[(event.argument, "it is passed to the kernel here")],
            severity=None if event.announced else Severity.INFO,
            premises=() if event.applied is not None else (Premise.REGION_OF_CALLER, Premise.APPLIED_THERE),
        )

    def on_uncast_kernel_call(self, event: UncastKernelCall) -> Iterator[Report]:
        if event.second is None:
            yield self.report(
                event,
                f"forward of {event.name} hands {event.first} to {event.kernel} as autocast left it",
                reason="Under autocast it can be half, which a kernel takes only if it was written for it.",
                advice="Decorate forward with custom_fwd(cast_inputs=torch.float32), and backward with custom_bwd.",
                at=event.forward.name,
                notes=[(event.node, "it is passed to the kernel here")],
            )
            return
        yield self.report(
            event,
            f"forward of {event.name} hands {event.first} and {event.second} to {event.kernel} as autocast left them",
            reason="Under autocast one can be half and the other float32, and nothing casts for "
            + ("an operation that is given out=." if event.with_out else "a kernel."),
            advice=(
                "custom_fwd casts nothing by itself: pass it cast_inputs=..., or convert one to the dtype of the other."
                if event.decorated
                else "Decorate forward with custom_fwd(cast_inputs=...), or convert one to the dtype of the other."
            ),
            at=event.node if event.with_out else event.buffer or event.forward.name,
            notes=[(event.node, "they are passed to the kernel here")] if not event.with_out else (),
        )

    def on_off_in_backward(self, event: OffInBackward) -> Iterator[Report]:
        yield self.report(
            event,
            f"backward of {event.name} runs {event.op} with autocast off, on what forward made or kept with it on",
            reason="Backward runs outside the region: what is half there and what is float32 meet uncast.",
            advice=_DECORATE,
            at=event.forward.name,
            notes=[(event.first, "autocast casts here"), (event.node, "and not here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        return restore(event, rewrite) if isinstance(event, MixedBackward) else None
