"""AMP111."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING

from amplint.edits.arguments import have_equal_arguments
from amplint.edits.consumers import with_consumers
from amplint.edits.half_results import leaves_the_device
from amplint.findings import Applicability, Edit, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import AutocastCreated, Event, Forward, Purpose, Recipe, ScriptEnd, UnseenForward
from amplint.semantics.values.values import FALSE, TRUE
from amplint.source import syntax as cst

from .refused import is_refused

_SAME = "Evaluate in the dtype of the training."

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class EvaluationDtypeDiffers(Rule):
    """A model is trained under autocast and evaluated without it, the other way round, or in another dtype.

    ## Why is this bad?
    The same weights give other outputs in another dtype. In float32 an evaluation shows nothing of what half does to
    the model that is trained, and perhaps deployed; it also takes more time and memory.

    ## Example
    ```python
    with torch.autocast("cuda"):
        loss = criterion(model(inputs), targets)
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
    ```

    ## Use instead
    ```python
    with torch.no_grad(), torch.autocast("cuda"):
        outputs = model(inputs)
    ```

    `torch.autocast("cuda", enabled=False)` says that float32 is meant. Nothing is told of a model out of sight where
    what imports the file also imports one whose `forward` enters a region by itself.

    In a file that only evaluates, the dtype of a region is compared with those in the files of the project that train,
    if they agree. A method of `self` that subclasses define counts as a model where its name says that it runs one,
    such as `compute_forward`.

    ## Fix safety
    The evaluation's forward passes get the region of the training, and so do the statements behind them that call what
    that region calls with the outputs. Elsewhere these are half then, for other code to convert.
    Where a condition also trains without the region, the evaluation is given other settings, or the outputs go on to
    the CPU, to NumPy or to an object, nothing is written.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP111"
    name = "evaluation-dtype-differs"
    severity = Severity.INFO
    goes_by = ("purpose",)
    claims = (Claim(Sign.REGION_OFF),)
    screen = (b"autocast", (b"eval", b"no_grad", b"inference_mode", b"valid"), (b"backward", b"zero_grad", b"train"))
    fixable = Applicability.UNSAFE
    reason = "The same weights give other outputs in another dtype: what is measured is not what is trained."
    advice = "Enter the same region here, or one with enabled=False where float32 is meant."

    def __init__(self) -> None:
        self._forwards: dict[Purpose, dict[Hashable, list[Forward]]] = {purpose: {} for purpose in Purpose}
        self._half: set[Hashable] = set()
        self._unseen: set[Hashable] = set()
        self._missing: dict[cst.CSTNode, tuple[list[cst.CSTNode], Forward]] = {}
        """For a forward pass that is told, all calls without a region in that function, and the training step."""
        self._refused: set[cst.CSTNode] = set()

    def on_autocast_created(self, event: AutocastCreated) -> Iterator[Report]:
        if is_refused(event):
            self._refused.add(event.node)
        yield from ()

    def on_forward(self, event: Forward) -> Iterator[Report]:
        if event.half:
            self._half.add(event.model)
        elif not event.is_of_loss:
            self._forwards[event.purpose].setdefault(event.model, []).append(event)
        yield from ()

    def on_unseen_forward(self, event: UnseenForward) -> Iterator[Report]:
        self._unseen.add(event.model)
        yield from self.on_forward(event)

    def on_script_end(self, event: ScriptEnd) -> Iterator[Report]:
        for evaluation in self._forwards[Purpose.EVALUATION].values():
            yield from self._trained_elsewhere(evaluation)
        known = self._forwards[Purpose.TRAINING].items()
        for model, training in ((model, forwards) for model, forwards in known if model not in self._half):
            evaluation = self._forwards[Purpose.EVALUATION].get(model, [])
            on = next((forward for forward in training if forward.autocast is Recipe.ON and forward.entered), None)
            if on is not None:
                yield from self._without_region(evaluation, training, on)
                if model not in self._unseen:
                    yield from self._in_another_dtype(evaluation, training, on)
            elif event.complete and all(forward.autocast is Recipe.OFF for forward in training):
                for forward in (forward for forward in evaluation if forward.training is False):
                    if forward.region is not None and forward.region.enabled == TRUE:
                        notes = [(training[0].node, "training runs without autocast")]
                        message, claims = f"{forward.name} is evaluated under autocast only", (Claim(Sign.REGION_ON),)
                        yield self.report(
                            forward, message, notes=notes, claims=claims, besides=training[:1],
                            premises=_unseen(training[0]),
                        )  # fmt: skip

    def _trained_elsewhere(self, evaluation: list[Forward]) -> Iterator[Report]:
        reported: set[cst.CSTNode | None] = set()
        for forward in evaluation:
            dtype = _dtype(forward)
            if forward.trained and dtype not in (None, forward.trained) and forward.entered not in reported:
                reported.add(forward.entered)
                message = (
                    f"{forward.name} is evaluated in {dtype}, and the files that train enter {forward.trained} alone"
                )
                yield self.report(forward, message, claims=(), advice=_SAME)

    def _without_region(self, evaluation: list[Forward], training: list[Forward], on: Forward) -> Iterator[Report]:
        shared = {call for forward in training for _, call in forward.way}
        always = all(forward.autocast is not Recipe.OFF for forward in training)
        places = [(forward, *place) for forward in evaluation if (place := forward.parting(shared))]
        calls: dict[cst.CSTNode | None, list[cst.CSTNode]] = {}
        reported: set[cst.CSTNode | None] = set()
        handled = {one for forward in evaluation if forward.autocast is Recipe.ON for one in forward.calls[-1:]}
        known = all(forward.autocast is not Recipe.UNKNOWN for forward in evaluation)
        others = _trained_without(training)
        for forward, function, call in places if known else ():
            if others and _root(forward) not in {_root(one) for one in training} - others:
                continue
            apart = forward.autocast is Recipe.OFF and handled.isdisjoint(forward.calls)
            if apart:
                calls.setdefault(function, []).append(call)
            if apart and function not in reported and on.entered is not None:
                reported.add(function)
                if always:
                    self._missing[forward.node] = calls[function], on
                message = f"{forward.name} is evaluated without autocast and trained under it"
                notes = [(on.entered, "autocast is on from here"), (on.node, "for this training step")]
                yield self.report(
                    forward, message, advice=self.advice, at=call, notes=notes, besides=(on,), premises=_unseen(forward)
                )

    def _in_another_dtype(self, evaluation: list[Forward], training: list[Forward], on: Forward) -> Iterator[Report]:
        trained = _dtype(on)
        if trained is None or any(_dtype(forward) != trained for forward in training):
            return
        reported: set[cst.CSTNode | None] = set()
        for forward in evaluation:
            dtype = _dtype(forward)
            same = forward.region is not None and on.region is not None and forward.region.node is on.region.node
            if not same and dtype not in (None, trained) and forward.entered not in reported:
                reported.add(forward.entered)
                notes = [(on.entered or on.node, f"{trained} from here"), (on.node, "for this training step")]
                message = f"{forward.name} is evaluated in {dtype} and trained in {trained}"
                yield self.report(forward, message, notes=notes, claims=(), besides=(on,), advice=_SAME)

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        calls, on = self._missing.get(event.node, ([], None))
        if on is None or on.region is None or on.region.node in self._refused:
            return None
        assert isinstance(event, Forward)
        region = on.region.node
        if not have_equal_arguments(region, on.way, event.way, rewrite):
            return None
        edits: list[Edit] = []
        done: list[cst.CSTNode] = []
        for call in calls:
            if not any(one in done for one in (call, *rewrite.source.ancestors(call))):
                done += (statements := with_consumers(call, region, rewrite))
                more = self._entered(call, region, statements, rewrite)
                if more is None:
                    return None
                edits += more
        return Fix("Enter the region of the training", tuple(edits), Applicability.UNSAFE)

    def _entered(
        self, call: cst.CSTNode, region: cst.CSTNode, statements: Sequence[cst.CSTNode], rewrite: Rewriter
    ) -> list[Edit] | None:
        """The edits that enter the region around the statements of a call, None if that cannot be done."""
        header = f"with {rewrite.text(region)}"
        if not statements or leaves_the_device(call, statements, rewrite) or not rewrite.means_the_same(region, call):
            return None
        if len(statements) > 1:
            return rewrite.wrap_statements(statements, header)
        edit = rewrite.wrap_statement(call, header)
        return [edit] if edit is not None else None


def _root(forward: Forward) -> cst.CSTNode | None:
    return forward.way[0][0]


def _trained_without(training: list[Forward]) -> set[cst.CSTNode | None]:
    """The functions without a caller in sight that train without a region, though others train with one.

    What such functions have in common is the name of a parameter, so that nothing shows which of them trains a model.
    """
    return {_root(one) for one in training} - {_root(one) for one in training if one.autocast is not Recipe.OFF}


def _dtype(forward: Forward) -> str | None:
    """The dtype of the region around a forward pass, None if that can be off or have another one."""
    region = forward.region
    if region is None or region.enabled == FALSE or len(region.dtypes or ()) != 1:
        return None
    return next(iter(region.dtypes or ()), None)


def _unseen(forward: Forward) -> tuple[Premise, ...]:
    """What is taken for granted of a model that runs outside of regions."""
    return () if forward.seen else (Premise.NO_REGION_WITHIN,)
