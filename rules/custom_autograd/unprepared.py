"""What AMP601 says of functions of which nothing tells whether they run under autocast."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.rule import Report, Rule
from amplint.semantics.function_events import HandedOver, OffInBackward

DECORATE = "Decorate forward with torch.amp.custom_fwd and backward with torch.amp.custom_bwd."


class UnpreparedFunctions(Rule):
    """Custom functions that autocast would harm."""

    def on_handed_over(self, event: HandedOver) -> Iterator[Report]:
        yield self.report(
            event,
            f"forward of {event.name} hands {event.first} and {event.second} to {event.kernel} as autocast left them",
            reason="Under autocast one can be half and the other float32, and nothing casts for a kernel.",
            advice="Decorate forward with custom_fwd(cast_inputs=...), or convert one to the dtype of the other.",
            at=event.buffer or event.forward.name,
            notes=[(event.node, "the kernel is handed them here")],
        )

    def on_off_in_backward(self, event: OffInBackward) -> Iterator[Report]:
        yield self.report(
            event,
            f"backward of {event.name} runs {event.op} with autocast off, on what forward made or kept with it on",
            reason="Backward runs outside the region: what is half there and what is float32 meet uncast.",
            advice=DECORATE,
            at=event.backward.name,
            notes=[(event.first, "autocast casts here"), (event.node, "and not here")],
        )
