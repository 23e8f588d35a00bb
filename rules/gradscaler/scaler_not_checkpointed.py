"""AMP211."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits.checkpoints import add_scaler
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import WIDE, AutocastCreated, CheckpointLacksScaler, Event
from amplint.semantics.values.values import FALSE
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_UNUSED = (
    "Nothing in sight restores the optimizer's state yet. A run that does will begin again at the initial scale and"
    " skip steps until that has come down."
)


class ScalerNotCheckpointed(Rule):
    """The optimizer's state goes into the checkpoint, or comes back from it, and the scaler's does not.

    ## Why is this bad?
    The scale is part of the state of a training run: it has been found over thousands of steps. A run that resumes
    without it begins again at 65536, overflows, and skips its first steps until the scale has come down; a scale that
    had grown beyond that needs 2000 clean steps for each doubling. Loss curves of resumed runs show a dent that an
    uninterrupted run does not have. Nothing is raised or logged.

    ## Example
    ```python
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
    ```

    ## Use instead
    ```python
    checkpoint = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoint["scaler"] = scaler.state_dict()
    torch.save(checkpoint, path)
    ```
    and, to resume:
    ```python
    scaler.load_state_dict(checkpoint["scaler"])
    ```

    An info where nothing in sight restores the optimizer's state. Silent where all regions run in bfloat16.

    ## Fix safety
    An entry is added to the checkpoint. It is restored only from checkpoints that hold it, so that old ones still load.

    ## References
    - <https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming>
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.state_dict>
    """

    code = "AMP211"
    name = "scaler-not-checkpointed"
    severity = Severity.WARNING
    screen = ((b"save", b"checkpoint", b"ckpt", b"state_dict"), SCALER_SIGNS)
    fixable = Applicability.SAFE
    reason = "Without its state the scaler begins again at its initial scale and skips steps until that has come down."

    def __init__(self) -> None:
        self._wide: list[bool] = []

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        if event.context.enabled != FALSE:
            self._wide.append(event.context.dtypes is not None and event.context.dtypes <= WIDE)
        yield from ()

    def on_checkpoint_lacks_scaler(self, event: CheckpointLacksScaler) -> Iterator[Report]:
        if self._wide and all(self._wide) and not event.index.halves:
            return
        made = event.scaler.created
        notes = [(event.step, "the scaler that steps here")] if made is None else [(made, "the scaler, made here")]
        others = [(place.node, "the optimizer's state is saved here too") for place in event.saves[1:]]
        restores = [(place.node, "the optimizer's state is restored here") for place in event.restores]
        if event.saved:
            message = "the optimizer's state is restored here, the scaler's is saved but never restored"
            advice = "Call scaler.load_state_dict() with the saved state."
            restores = restores[1:]
            others = []
        elif not event.saves:
            message = "training resumes with the optimizer's state but not the scaler's"
            advice = "Save scaler.state_dict() in the checkpoint and load it here."
            restores = restores[1:]
        else:
            message = "the checkpoint holds the optimizer's state but not the scaler's"
            advice = "Save scaler.state_dict() beside the optimizer's state, and load it when training resumes."
        reason, severity = ("", None) if event.resumes else (_UNUSED, Severity.INFO)
        notes += [*others, *restores]
        yield self.report(event, message, advice=advice, reason=reason, notes=notes, severity=severity)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, CheckpointLacksScaler)
        return add_scaler(event, rewrite)
