"""AMP302."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import Accumulation, Event, Job, LossLeftWhole, LossMultiplied, ScriptEnd
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst

from .edits import divided_loss
from .places import window_end_note

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class LossNotDivided(Rule):
    """The loss of a micro-batch is not divided by the number of micro-batches that are added up.

    ## Why is this bad?
    Every `backward()` adds to the gradients that are there. A loss is a mean over its own batch, so four micro-batches
    give four times the gradient of one batch of the same size: the learning rate is in effect four times as high, a
    clipping threshold four times as tight, and both change with the number of accumulation steps. float16 gradients are
    that much closer to overflow.

    ## Example
    ```python
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets)
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    for i, (inputs, targets) in enumerate(loader):
        loss = criterion(model(inputs), targets) / accumulation_steps
        loss.backward()
        if (i + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    Hugging Face's Trainer divides the loss of a model whose `forward` takes `num_items_in_batch` no more: it is for the
    model to divide by that number. A `compute_loss` that takes a mean instead leaves gradients larger by
    `gradient_accumulation_steps`; setting `self.model_accepts_loss_kwargs = False` behind `super().__init__()` lets the
    Trainer divide. Where the number of micro-batches is not written out, this is an info.

    ## Fix safety
    The fix divides where backward runs. It is unsafe: gradients get smaller, and a learning rate that was found with
    the larger ones may have to grow. A loss that is meant as a sum over the window is right as it is; where a sum is in
    sight, or the code that computes the loss is not, nothing is reported; where a model out of sight returns the loss,
    an info that names the assumption of a mean. Where the other branch of a condition divides, this is an info, too.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation>
    - <https://github.com/huggingface/trl/pull/2615>
    """

    code = "AMP302"
    name = "loss-not-divided"
    severity = Severity.WARNING
    screen = (
        (b"backward", b"num_items_in_batch"),
        (b"%", b"range(", b"+= 1", b"accum", b"micro", b"chunk(", b"tensor_split(", b"num_items_in_batch"),
    )
    fixable = Applicability.UNSAFE
    reason = "Gradients add up over the window, so they grow with the number of micro-batches."

    def __init__(self) -> None:
        self._windows: dict[cst.CSTNode, Accumulation] = {}
        self._divided: set[cst.CSTNode] = set()
        self._alone: dict[cst.CSTNode, cst.CSTNode] = {}
        """Undivided backward passes of a branch, with a divided one of the branch beside it."""
        self._multiplied: dict[cst.CSTNode, LossMultiplied] = {}
        self._cleared: set[cst.CSTNode] = set()
        """Loops that clear the gradients of every micro-batch, so that none add up, which AMP304 reports."""

    def on_accumulation(self, event: Accumulation) -> Iterator[Report]:
        if event.discards is not None:
            return
        for backward in event.by_position:
            yield self.report(
                event,
                "the loss is divided by the place of its micro-batch in the window, not by how many there are",
                reason="The first micro-batch counts as a whole batch, each further one for less.",
                advice="Divide each by the number of micro-batches.",
                at=backward,
                notes=[window_end_note(event)],
            )
        if event.counted and any(done.job is Job.CLEAR and done.certain for done in event.inside):
            self._cleared.add(event.loop)
        verdicts = {divided for _, divided in event.backwards}
        beside = next((node for node, divided in event.backwards if divided), None)
        if beside is not None:
            self._alone |= dict.fromkeys(event.alone, beside)
        if True in verdicts or event.rescaled:
            self._divided.update(node for node, _ in event.backwards if event.rescaled or node not in event.alone)
        self._windows.update((node, event) for node, divided in event.backwards if divided is False)

    def on_loss_multiplied(self, event: LossMultiplied) -> Iterator[Report]:
        self._multiplied[event.node] = event
        yield from ()

    def on_loss_left_whole(self, event: LossLeftWhole) -> Iterator[Report]:
        yield self.report(
            event,
            "compute_loss() returns a loss that is not divided by the number of micro-batches",
            reason="Trainer leaves the division to models that take num_items_in_batch, and gradients add up.",
            advice="Divide a sum by num_items_in_batch, or set self.model_accepts_loss_kwargs = False.",
            severity=None if event.certain else Severity.INFO,
        )

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for multiplied in self._multiplied.values():
            yield self.report(
                multiplied,
                "the loss is multiplied by the number of micro-batches where it should be divided",
                advice="Divide it by their number.",
                severity=Severity.INFO,
            )
        loops: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for backward, window in self._windows.items() if not self._multiplied else ():
            if self._is_whole(backward) and window.loop not in self._cleared:
                loops.setdefault(window.loop, []).append(backward)
        for backward, *others in loops.values():
            window = self._windows[backward]
            yield self.report(
                window,
                "the loss is not divided by the number of micro-batches whose gradients add up",
                advice=_advice(backward, window.every),
                at=backward,
                notes=[
                    *((other, "nor is it here") for other in others),
                    *((self._alone[one], "here it is") for one in (backward,) if one in self._alone),
                    window_end_note(window),
                ],
                severity=Severity.INFO if backward in self._alone else None,
                premises=(Premise.MEAN_RETURNED,) if {backward, *others} <= window.of_models else (),
            )

    def _is_whole(self, backward: cst.CSTNode) -> bool:
        """Whether the loss of a backward pass is divided on no path."""
        return backward not in self._divided

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if not isinstance(event, Accumulation):
            return None
        if event.by_position:
            return None
        beside = [node for node, window in self._windows.items() if window.loop is event.loop]
        own = [node for node, divided in event.backwards if not divided]
        nodes = [*dict.fromkeys(own + [one for one in beside if self._is_whole(one)])]
        edits = [edit for node in nodes for edit in divided_loss(node, event.every, rewrite)]
        ending = {done.node for done in event.closing if done.job is Job.BACKWARD} if event.guard is not None else set()
        if len(edits) < len(nodes) or not ending <= set(nodes):
            return None  # micro-batches would weigh unequally
        return Fix("Divide the loss by the number of micro-batches", tuple(edits), Applicability.UNSAFE)


def _advice(backward: cst.CSTNode, every: cst.BaseExpression | None) -> str:
    """The corrected backward pass, with the number of micro-batches if that is a number, a name or a length."""
    number = every.value if isinstance(every, cst.Integer) else (dotted(every) if every is not None else None)
    if isinstance(every, cst.Call) and dotted(every.func) == "len" and len(every.args) == 1:
        counted = dotted(every.args[0].value)
        number = f"len({counted})" if counted is not None else None
    if number is None:
        return "Divide it by their number before backward."
    return f"Divide it before backward: {_divided(backward, number)}."


def _divided(backward: cst.CSTNode, number: str) -> str:
    """The corrected backward pass, with the names of the code if these are plain."""
    loss = backward.func.value if isinstance(backward, cst.Call) and isinstance(backward.func, cst.Attribute) else None
    if isinstance(loss, cst.Call) and loss.args and (dotted(loss.func) or "").endswith(".scale"):
        return f"{dotted(loss.func)}({dotted(loss.args[0].value) or 'loss'} / {number}).backward()"
    if isinstance(backward, cst.Call) and backward.args and backward.args[0].keyword is None:
        return f"{dotted(backward.func) or 'backward'}({dotted(backward.args[0].value) or 'loss'} / {number})"
    return f"({(dotted(loss) if loss is not None else None) or 'loss'} / {number}).backward()"
