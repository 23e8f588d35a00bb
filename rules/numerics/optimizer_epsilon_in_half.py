"""AMP409."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.repairs import keep_in_float32
from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, HalfStepped
from amplint.torchlib.names import FLOAT16_ROUNDS_TO_ZERO
from amplint.torchlib.optimizers import EPSILONS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class OptimizerEpsilonInHalf(Rule):
    """The eps of an optimizer is 0 in the dtype of the parameters it updates.

    ## Why is this bad?
    Adam divides by the root of a running mean of squared gradients plus `eps`, all in the dtype of the parameters. The
    usual 1e-8 is 0 in float16, as is everything up to 2.98e-8, and so is the square of any gradient below 1.7e-4: a
    weight whose gradient is 0, as behind a ReLU, becomes 0 / 0, and its model NaN after the first step. RMSprop,
    Adagrad, Adamax, NAdam and RAdam do the same. bfloat16 holds these numbers; `fused=True` computes in float32.

    ## Example
    ```python
    model = Net().cuda().half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    ```

    ## Use instead
    ```python
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(inputs), targets)
    ```
    float32 parameters, autocast and a gradient scaler also keep the updates and gradients that float16 loses.

    ## Fix safety
    Unsafe: the fix keeps the parameters in float32, as that of AMP410 does. Where their conversion cannot be taken out,
    it passes `eps=1e-4`, which float16 holds: steps are smaller where gradients are small, and what else float16
    parameters lose stays lost.

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html>
    """

    code = "AMP409"
    name = "optimizer-epsilon-in-half"
    severity = Severity.ERROR
    only_numbers = True
    claims = (Claim(Sign.HOLDS, ("float16",), ops=("step",)),)
    screen = ((b"half", b"float16"), b".step(", regex("|".join(EPSILONS).encode()))
    fixable = Applicability.UNSAFE
    reason = "Without it the optimizer divides by 0 where gradients are 0 or small, and weights become NaN."

    def on_half_stepped(self, event: HalfStepped) -> Iterator[Report]:
        if event.dtype == "float16" and event.epsilon is not None and event.epsilon <= FLOAT16_ROUNDS_TO_ZERO:
            yield self.report(
                event,
                f"the optimizer's eps of {event.epsilon:g} is 0 in float16, the dtype of its parameters",
                advice="Keep the parameters in float32 and use autocast, or pass an eps that float16 holds: 1e-4.",
                at=event.made,
                notes=[(event.cast, "the parameters become float16 here"), (event.node, "this step divides by it")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, HalfStepped)
        if (kept := keep_in_float32(event, event.cast, rewrite)) is not None:
            return kept
        cls = event.cls.rpartition(".")[2]
        edit = rewrite.set_argument(event.made, "eps", "1e-4", EPSILONS[cls][1])
        return Fix("Pass an eps that float16 holds", (edit,), Applicability.UNSAFE) if edit is not None else None
