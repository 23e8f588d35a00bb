"""AMP604."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Checkpointed, Event

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class CheckpointRngNotPreserved(Rule):
    """A checkpoint does not restore the random state of a segment with dropout.

    ## Why is this bad?
    The segment is run a second time in the backward pass. With `preserve_rng_state=False` dropout drops other elements
    then than it did in the forward pass, so the gradients belong to another network than the loss does. Nothing fails;
    the training is noisier and worse.

    ## Example
    ```python
    features = checkpoint(self.block, features, use_reentrant=False, preserve_rng_state=False)
    ```

    ## Use instead
    ```python
    features = checkpoint(self.block, features, use_reentrant=False)
    ```

    ## Fix safety
    The argument becomes `True`, its default. Saving and restoring the state takes a little time.

    ## References
    - <https://docs.pytorch.org/docs/stable/checkpoint.html>
    """

    code = "AMP604"
    name = "checkpoint-rng-not-preserved"
    severity = Severity.WARNING
    screen = (b"preserve_rng_state", (b"torch.utils.checkpoint", b"torch.utils import checkpoint"))
    fixable = Applicability.SAFE
    reason = "Recomputed in backward, dropout drops other elements than in forward: the gradients are wrong."

    def on_checkpointed(self, event: Checkpointed) -> Iterator[Report]:
        if event.forgets is not None and event.random is not None:
            yield self.report(
                event,
                "preserve_rng_state=False around a segment with dropout",
                advice="Leave preserve_rng_state at True.",
                at=event.forgets,
                notes=[(event.random, "the random numbers are drawn here")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Checkpointed) or event.forgets is None:
            return None
        return Fix("Restore the random state", (rewrite.replace(event.forgets.value, "True"),), Applicability.SAFE)
