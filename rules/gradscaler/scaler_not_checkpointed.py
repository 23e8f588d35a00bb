"""AMP211."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from amplint.edits.checkpoints import add_scaler
from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import (
    WIDE,
    AutocastCreated,
    CheckpointLacksApex,
    CheckpointLacksScaler,
    CheckpointOneSided,
    Event,
    ScalerKept,
)
from amplint.semantics.values.values import FALSE
from amplint.torchlib.names import SCALER_SIGNS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_FLOAT16 = frozenset({"float16"})


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

    An info where a setting chooses the dtype of all regions, or where the scaler is passed to unseen code that
    trains, and reported only where the rule is selected by its code if nothing in sight restores the optimizer's state.
    An info, too, where a file saves the scaler's state and restores only the optimizer's, or the reverse, and no
    training is in sight. Where the rule is selected by its code, it also reports a class that keeps and steps a scaler
    and has no method that could save it, and checkpoints without the state of a scaler that their class makes, or their
    function is given. Silent where all regions run in bfloat16. The state of apex, `amp.state_dict()`, is asked for in
    the same way, as an info.

    ## Fix safety
    An entry is added to the checkpoint. It is restored only from checkpoints that hold it, so that old ones still load.

    ## References
    - <https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html#saving-resuming>
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.state_dict>
    """

    code = "AMP211"
    name = "scaler-not-checkpointed"
    severity = Severity.WARNING
    screen = ((b"save", b"checkpoint", b"ckpt", b"state_dict"), (*SCALER_SIGNS, b"apex"))
    assumed = (b"GradScaler",)
    fixable = Applicability.SAFE
    of_callers = ("scaler_kept",)
    reason = "Without its state the scaler begins again at its initial scale and skips steps until that has come down."

    def __init__(self) -> None:
        self._dtypes: list[Set[str] | None] = []

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        if event.context.enabled != FALSE:
            by_device = event.context.defaulted and event.context.devices is None
            self._dtypes.append(_FLOAT16 if by_device else event.context.dtypes)
        yield from ()

    def on_checkpoint_lacks_scaler(self, event: CheckpointLacksScaler) -> Iterator[Report]:
        if self._dtypes and all(one is not None and one <= WIDE for one in self._dtypes) and not event.index.halves:
            return
        unseen = [] if event.resumes else [Premise.RESUMED]
        if event.out_of_sight:
            unseen.append(Premise.SAVED_NOWHERE_ELSE)
        if self._dtypes and not any(one == _FLOAT16 for one in self._dtypes):
            unseen.append(Premise.FLOAT16_CHOSEN)
        made = event.scaler.created
        notes = [(event.step, "the scaler that steps here")] if made is None else [(made, "the scaler, made here")]
        others = [(place.within or place.node, "the optimizer's state is saved here too") for place in event.saves[1:]]
        restores = [(place.within or place.node, "the optimizer's state is restored here") for place in event.restores]
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
            others = [
                (place.within, "the optimizer's state is saved here") for place in event.saves[:1] if place.within
            ] + others
            which = "a checkpoint that this call leads to" if event.saves[0].within else "the checkpoint"
            message = f"{which} holds the optimizer's state but not the scaler's"
            advice = "Save scaler.state_dict() beside the optimizer's state, and load it when training resumes."
        notes += [*others, *restores]
        yield self.report(event, message, advice=advice, notes=notes, premises=unseen)

    def on_checkpoint_lacks_apex(self, event: CheckpointLacksApex) -> Iterator[Report]:
        done = "the checkpoint holds" if event.saves else "training resumes with"
        yield self.report(
            event,
            f"{done} the optimizer's state but not that of apex's loss scaler",
            advice="Save amp.state_dict() too, and pass it to amp.load_state_dict() after amp.initialize().",
            notes=[(event.initialized, "from here on apex scales the losses of this optimizer")],
            severity=Severity.INFO,
            premises=() if event.restores else (Premise.RESUMED,),
        )

    def on_checkpoint_one_sided(self, event: CheckpointOneSided) -> Iterator[Report]:
        if self._dtypes and all(one is not None and one <= WIDE for one in self._dtypes) and not event.index.halves:
            return
        done, reverse = ("saved", "restored") if event.saves else ("restored", "saved")
        if event.assumed:
            message = f"the optimizer's state is {done} here, and that of the scaler is not"
            note = "the scaler of this class, or of this function"
            premises = [Premise.SAVED_NOWHERE_ELSE, Premise.RESUMED]
        else:
            message = f"the optimizer's state is {done} here, the scaler's is {reverse} but never {done}"
            note = f"the scaler's state is {reverse} here"
            premises = [Premise.SAVED_NOWHERE_ELSE if event.saves else Premise.RESUMED]
        yield self.report(
            event,
            message,
            advice="Save scaler.state_dict() beside the optimizer's state, and load it when training resumes.",
            notes=[(event.other, note)],
            severity=Severity.INFO,
            premises=premises,
        )

    def on_scaler_kept(self, event: ScalerKept) -> Iterator[Report]:
        yield self.report(
            event,
            f"{event.name} keeps this scaler and has no method that saves its state",
            advice="Give the class state_dict() and load_state_dict() with the scaler's state, and save it.",
            notes=[(event.step, "it steps here")],
            premises=[Premise.SAVED_NOWHERE_ELSE, Premise.RESUMED],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        return add_scaler(event, rewrite) if isinstance(event, CheckpointLacksScaler) else None
