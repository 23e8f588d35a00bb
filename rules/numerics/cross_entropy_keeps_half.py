"""AMP413."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, Operation
from amplint.torchlib.names import HALF_DTYPES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class CrossEntropyKeepsHalf(Rule):
    """Cross-entropy of half logits keeps its log-softmax in half under CUDA autocast.

    ## Why is this bad?
    `F.cross_entropy` and `nn.CrossEntropyLoss` are no autocast operations themselves. They call `log_softmax` with the
    dtype of the logits, which autocast respects, and only then `nll_loss`, which it lifts: the loss is float32, but
    what it averages has been rounded to half. The stored log-probabilities, three digits in float16 and two in
    bfloat16, are also what backward works with.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(head(features), labels)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = F.cross_entropy(head(features).float(), labels)
    ```
    Training in float16 is known to work with three digits: reported only where the rule is selected by its code.
    `F.nll_loss(F.log_softmax(logits, dim=1), labels)` is computed in float32 as well.

    ## Fix safety
    Unsafe: the logits are converted to float32, which takes memory for a copy of them.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior>
    """

    code = "AMP413"
    name = "cross-entropy-keeps-half"
    severity = Severity.INFO
    claims = (Claim(Sign.TAKES, ops=("log_softmax",)),)
    screen = (b"autocast", (b"cross_entropy", b"CrossEntropyLoss"))
    fixable = Applicability.UNSAFE
    reason = "log_softmax is called with the dtype of the logits, which autocast respects."

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        devices = event.region.devices if event.region is not None else None
        if event.op != "cross_entropy" or first is None or first.half is None or "cuda" not in (devices or ()):
            return
        if first.dtype in HALF_DTYPES:
            yield self.report(
                event,
                f"cross_entropy rounds the log-probabilities to {first.dtype}",
                advice="Convert the logits: logits.float().",
                premises=(Premise.DIGITS,) if first.dtype == "float16" else (),
                notes=[(first.half.node, first.half.text)] if first.half.node is not None else (),
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Operation)
        edit = rewrite.add_float(event.operands[0].node)
        return Fix("Convert the logits to float32", (edit,), Applicability.UNSAFE)
