"""AMP404."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.codemods import from_logits
from amplint.edits.repairs import island, loss_on_logits
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, TensorOp
from amplint.torchlib.policy import BANNED, treatment

if TYPE_CHECKING:
    from amplint.source import syntax as cst
    from amplint.source.rewrite import Rewriter


class BceInAutocast(Rule):
    """Binary cross-entropy on probabilities runs under CUDA autocast.

    ## Why is this bad?
    `F.binary_cross_entropy` and `nn.BCELoss` raise `RuntimeError: ... are unsafe to autocast` in a region that is on
    for CUDA, whatever the dtypes are: their backward pass needs gradients that float16 does not hold. CPU autocast runs
    them in float32.

    ## Example
    ```python
    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy(torch.sigmoid(logits), targets)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda"):
        loss = F.binary_cross_entropy_with_logits(logits, targets)
    ```
    Where the sigmoid cannot go, leave the region: `with torch.autocast("cuda", enabled=False):` and `.float()` inputs.

    ## Fix safety
    The fix takes the sigmoid away and changes the loss to its `with_logits` form, which computes the same value. A
    sigmoid at the end of a model is taken out of it where every use of the model's output is in sight: those other than
    the loss get `torch.sigmoid(output.float())`. That is unsafe in a file that does not run by itself: others may use
    the model, too. Where a loss or an output cannot be followed, the statement of the loss gets a region that is off,
    and the probabilities are converted to float32: they keep the digits that half has left of them.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#prefer-binary-cross-entropy-with-logits-over-binary-cross-entropy>
    """

    code = "AMP404"
    name = "bce-in-autocast"
    severity = Severity.ERROR
    claims = (Claim(Sign.RAISES, texts=("unsafe to autocast",)),)
    screen = (b"autocast", (b"binary_cross_entropy", b"BCELoss"))
    assumed = ((b"binary_cross_entropy", b"BCELoss"),)
    fixable = Applicability.SAFE
    reason = "PyTorch refuses to run it there, whatever the dtype: float16 would not hold the gradients behind it."

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        devices = (event.region.devices if event.region is not None else None) or ()
        if (event.assumed and event.calls and event.op in BANNED) or any(
            event.op in treatment().banned.get(device, ()) for device in devices
        ):
            notes = [(event.region_with, "the region begins here")] if event.region_with is not None else []
            yield self.report(
                event,
                f"binary cross-entropy of probabilities raises {'where' if event.assumed else 'under'} CUDA autocast"
                f"{' is on' if event.assumed else ''}",
                advice="Drop the sigmoid and use binary_cross_entropy_with_logits or BCEWithLogitsLoss; without a "
                "sigmoid, compute it in float32 where autocast is off.",
                at=event.module if event.assumed else None,
                notes=[*_module_note(event), *notes],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, TensorOp)
        logits = loss_on_logits(event, rewrite) or from_logits(rewrite.source.text, rewrite.source.path)
        return logits or island(event, rewrite)


def _module_note(event: TensorOp) -> Iterator[tuple[cst.CSTNode, str]]:
    """The other place of a module: its call where it is reported at the construction, and vice versa."""
    if event.module is not None:
        yield (event.node, "it is called here") if event.assumed else (event.module, "the loss is made here")
