"""AMP217."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, HalfUnscaled
from amplint.torchlib.names import SHARDED_SCALER

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class UnscaleHalfParameters(Rule):
    """A scaler is used with parameters that were converted to float16.

    ## Why is this bad?
    Gradients have the dtype of their parameters, and `GradScaler` refuses to unscale float16 ones: `unscale_()` and
    `step()` raise `ValueError: Attempting to unscale FP16 gradients.` Divided by the scale, many of them would vanish,
    and float16 weights lose small updates anyway. Autocast and a scaler belong to float32 parameters; autocast casts
    them to float16 where that is safe.

    ## Example
    ```python
    model = Net().cuda().half()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    ```

    ## Use instead
    ```python
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(inputs), targets)
    ```

    ## Fix safety
    Unsafe: `.half()` goes from the model and from what else is converted in the same functions. The model then takes
    twice the memory, and runs in float32 wherever no autocast region is on.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling>
    """

    code = "AMP217"
    name = "unscale-half-parameters"
    severity = Severity.ERROR
    claims = (Claim(Sign.CAN_RAISE, texts=("FP16 gradients",)),)
    screen = ((b"half", b"float16"), (b"unscale_", b".step("), (b"scale(", b"GradScaler"))
    fixable = Applicability.UNSAFE
    reason = "unscale_(), which step() calls, raises ValueError: Attempting to unscale FP16 gradients."

    def on_half_unscaled(self, event: HalfUnscaled) -> Iterator[Report]:
        if event.scaler.cls != SHARDED_SCALER:
            yield self.report(
                event,
                "the scaler unscales the gradients of float16 parameters",
                advice="Keep the parameters in float32 and let autocast cast them.",
                notes=[(event.cast, "the parameters become float16 here"), (event.node, "their gradients are float16")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfUnscaled)
        places = (event.node, event.cast)
        near = [c for c in event.index.halves if any(rewrite.same_function(c, place) for place in places)]
        edits = [rewrite.drop_method(call) for call in near] if event.cast in near else []
        done = tuple(filter(None, edits))
        return Fix("Drop .half()", done, Applicability.UNSAFE) if done and len(done) == len(edits) else None
