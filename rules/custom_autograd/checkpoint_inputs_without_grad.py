"""AMP603."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Checkpointed, Event
from amplint.torchlib.names import REENTRANT_ASKED_SINCE, REENTRANT_CHOSEN_SINCE

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class CheckpointInputsWithoutGrad(Rule):
    """A reentrant checkpoint runs a segment none of whose inputs requires a gradient, or is given keywords for it.

    ## Why is this bad?
    The reentrant variant of `torch.utils.checkpoint` records the segment only when one of its inputs requires a
    gradient. The first layer of a model gets its input from the data, a model with frozen embeddings does too further
    on: the parameters of that segment get no gradient and are never trained. PyTorch only warns: `None of the inputs
    have requires_grad=True. Gradients will be None`. The reentrant variant is what runs where `use_reentrant` is not
    given, which PyTorch warns about as well; such a call is reported as an info where its inputs are not visible.

    It passes no keywords to the segment either: `checkpoint(block, x, mask=mask)` is an error, as it raises
    `ValueError: Unexpected keyword arguments: mask`.

    PyTorch before 2.1 does not warn where `use_reentrant` is not given: where the project asks for no later version, a
    call whose inputs are not visible is not reported. Before 1.11 it has the reentrant variant alone, and refuses the
    keyword: no repair is offered then.

    ## Example
    ```python
    for images, labels in loader:
        features = checkpoint(model.stem, images)
    ```

    ## Use instead
    ```python
    for images, labels in loader:
        features = checkpoint(model.stem, images, use_reentrant=False)
    ```

    ## Fix safety
    The variant without reentrance computes the same values and gradients, and those that were missing. Where keywords
    are passed, it is offered if the segment is seen to take them.

    ## References
    - <https://docs.pytorch.org/docs/stable/checkpoint.html#torch.utils.checkpoint.checkpoint>
    """

    code = "AMP603"
    name = "checkpoint-inputs-without-grad"
    severity = Severity.WARNING
    screen = ((b"torch.utils.checkpoint", b"torch.utils import checkpoint"), b"checkpoint")
    fixable = Applicability.SAFE

    def on_checkpointed(self, event: Checkpointed) -> Iterator[Report]:
        name = "checkpoint_sequential" if event.sequential else "checkpoint"
        if event.reentrant and event.passed and not event.sequential:
            given = ", ".join(event.passed)
            yield self.report(
                event,
                f"this reentrant checkpoint is given keywords for its segment and raises ValueError: {given}",
                reason="Without use_reentrant=False the reentrant variant runs: it takes positional inputs alone.",
                advice=_advice(event, given),
                severity=Severity.ERROR,
            )
        elif event.reentrant and event.lost:
            yield self.report(
                event,
                "none of the inputs of this reentrant checkpoint requires a gradient: its parameters get none",
                reason="The reentrant variant records a segment only when one of its inputs requires a gradient.",
                advice="Let one of the inputs require a gradient."
                if _has_one_variant(event)
                else "Pass use_reentrant=False.",
            )
        elif event.reentrant and not event.chosen and not event.wanted and not _is_before(event, REENTRANT_ASKED_SINCE):
            yield self.report(
                event,
                f"{name} is called without use_reentrant, which PyTorch warns about and means to refuse",
                reason="The reentrant variant runs. Where no input requires a gradient, it gives the parameters none.",
                advice="Pass use_reentrant=False.",
                severity=Severity.INFO,
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Checkpointed)
        if (event.passed and not event.taken) or _has_one_variant(event):
            return None
        edit = rewrite.set_argument(event.call, "use_reentrant", "False")
        return Fix("Use the variant without reentrance", (edit,)) if edit else None


def _advice(event: Checkpointed, given: str) -> str:
    """How the keywords of this name get to the segment."""
    if _has_one_variant(event):
        return f"Pass {given} by position."
    return (
        "Pass use_reentrant=False." if event.taken else f"Pass use_reentrant=False, and let the segment take {given}."
    )


def _has_one_variant(event: Checkpointed) -> bool:
    """Whether the versions of PyTorch that the project asks for have the reentrant variant alone."""
    return _is_before(event, REENTRANT_CHOSEN_SINCE)


def _is_before(event: Checkpointed, version: tuple[int, int]) -> bool:
    """Whether the project asks for versions of PyTorch before `version` alone."""
    return event.torch is not None and event.torch.before is not None and event.torch.before <= version
