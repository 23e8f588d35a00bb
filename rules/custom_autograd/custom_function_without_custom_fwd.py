"""AMP601."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.functions import restore
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.regex import regex
from amplint.rule import Report, Rule
from amplint.semantics.events import (
    CustomFunctionEvent,
    Event,
    LeftOut,
    MixedBackward,
    OffInBackward,
    PassRaises,
    UncastKernelCall,
)

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_EITHER = regex(r"b?float16")
_CHOSEN = {"float16": Premise.FLOAT16_CHOSEN, "bfloat16": Premise.BFLOAT16_CHOSEN}
_DECORATE = "Decorate forward with torch.amp.custom_fwd and backward with torch.amp.custom_bwd."


class CustomFunctionWithoutCustomFwd(Rule):
    """A custom autograd function, used under autocast, mixes dtypes because nothing prepares it for autocast.

    ## Why is this bad?
    Under autocast forward multiplies a half activation by a float32 weight, and autocast casts. Backward runs with
    autocast off: the gradient is half, the saved weight float32, and the product raises `expected m1 and m2 to have the
    same dtype`. A kernel of an extension is not cast for at all: what autocast made half and what it left in float32
    meet there.

    Both passes are followed with dtypes alone, into functions and methods of the tree, as if a caller had autocast on:
    inputs that are named like weights, or for which an attribute is passed, are float32, others in the dtype of the
    region. What raises then is reported, as an info where nothing is seen to apply the function in a region: products
    of two dtypes, in-place operations and those that are given `out=`, for which autocast does not cast, and Triton
    kernels whose `tl.dot` meets two dtypes. That goes for functions with `custom_fwd` as well, which casts nothing
    without `cast_inputs`.

    Where the rule is selected by its code, what raises for inputs that are all float32 is reported, too, and functions
    that hand tensors to another kernel as they come, or compute in both passes what autocast casts for, although
    nothing tells that they run under autocast. So are those that hand two tensors to a kernel in a forward pass with
    `custom_fwd`.

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
    The fix adds both decorators, for the device of the region, where nothing raises with them. Backward then runs its
    products in half too, which changes gradients.

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
            premises=_of_caller(event, () if event.certain else (Premise.APPLIED_THERE,)),
        )

    def on_pass_raises(self, event: PassRaises) -> Iterator[Report]:
        method = event.backward if event.in_backward else event.forward
        reason = event.reason if event.low is not None else _EITHER.sub("half", event.reason)
        if event.in_backward and not event.decorated:
            why = "Backward runs with autocast off, on a gradient in the dtype of what forward returned."
        else:
            why = "Autocast casts nothing for it."
        unseen = [(event.wide, Premise.INPUTS_WIDE), (event.unsure, Premise.RUNS_THERE)]
        unseen += [(event.low == dtype, premise) for dtype, premise in _CHOSEN.items()]
        yield self.report(
            event,
            f"{event.op} in {method.name.value} of {event.name} raises under autocast: {reason}",
            reason=why,
            advice=_DECORATE if event.curable else "Convert what it combines to one dtype.",
            at=event.forward.name if event.curable else event.node,
            notes=[(event.node, "it runs here")] if event.curable else (),
            severity=None if event.announced else Severity.INFO,
            premises=_of_caller(event, tuple(premise for holds, premise in unseen if holds)),
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
        if isinstance(event, MixedBackward) or (isinstance(event, PassRaises) and event.curable):
            return restore(event, rewrite)
        return None


def _of_caller(event: CustomFunctionEvent, further: tuple[Premise, ...]) -> tuple[Premise, ...]:
    """The premises of a finding in a function that nothing is seen to apply in a region, `further` ones besides."""
    if event.applied is not None:
        return tuple(premise for premise in further if premise is not Premise.APPLIED_THERE)
    return (Premise.REGION_OF_CALLER, *further)
