"""AMP205."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ClippedEarly, Event, GradientUse, GradState
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_UNSCALE = "Call scaler.unscale_(optimizer) first, once per optimizer."
_CLIP_WHOLE = "Clip where the window is full, behind scaler.unscale_(optimizer), which runs once before each step."
_DIVIDE = "Divide what is read by scaler.get_scale(), or read it between scaler.unscale_(optimizer) and the step."

_REASON = "They are still multiplied by the loss scale{start}, so limits and norms mean something else."


class ClipWithoutUnscale(Rule):
    """Gradients are clipped, measured or changed while they still carry the loss scale.

    ## Why is this bad?
    After `scaler.scale(loss).backward()` every gradient is multiplied by the loss scale, 65536 at the start. A clipping
    threshold of 1.0 then acts like 0.000015 and takes nearly all of every gradient away; a logged norm is off by the
    same factor, which changes whenever the scale does. Nothing raises: the run only trains badly. A function out of
    sight whose name says that it measures gradients is reported as an info.

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    ```

    ## Fix safety
    `unscale_()` is inserted only where a `scaler.step()` of the same optimizer follows in the block around it and no
    other path unscales; the step then leaves out its own unscaling, so only the size of what is clipped changes.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping>
    """

    code = "AMP205"
    name = "clip-without-unscale"
    severity = Severity.ERROR
    only_numbers = True
    screen = (
        (
            *(b"clip", b".grad", b"get_total_norm", b"grad_norm", b"gradient_norm", b"grad_stat", b"gradient_stat"),
            *(b"log_grad", b"grad_flow", b"gradients("),
        ),
        (b"scale(", b"caler"),
    )
    fixable = Applicability.SAFE
    reason = _REASON.format(start="")

    def __init__(self) -> None:
        self._uses: dict[cst.CSTNode, list[GradientUse]] = {}
        """The uses of the scaled gradients of each backward pass, in the order of their execution."""

    def on_gradient_use(self, event: GradientUse) -> Iterator[Report]:
        gradients = event.gradients
        if gradients.state is GradState.SCALED and gradients.consumed is None and gradients.backward is not None:
            self._uses.setdefault(gradients.backward, []).append(event)
            unless = "unless this method unscales them first, " if event.hidden else ""
            by_name = (Severity.WARNING if event.mutates else Severity.INFO) if event.guesses else None
            shown = Severity.WARNING if event.what == "logged" else by_name
            yield self.report(
                event,
                f"{unless}gradients are {event.what} while they still carry the loss scale",
                reason=_REASON.format(start=_start(event)),
                severity=Severity.INFO if event.hidden else shown,
                advice=(_CLIP_WHOLE if event.partial else _UNSCALE) if event.mutates else _DIVIDE,
                notes=event.steps_from(gradients.backward),
            )

    def on_clipped_early(self, event: ClippedEarly) -> Iterator[Report]:
        if event.certain:
            message = "gradients are clipped before unscale_() divides them by the loss scale"
        else:
            message = "unless the caller has unscaled them, gradients are clipped while they still carry the loss scale"
        yield self.report(
            event,
            message,
            advice=_UNSCALE,
            notes=[(event.unscaled, "divides them by the scale here" if event.certain else "unscales them here")],
            severity=(Severity.WARNING if event.guesses else None) if event.certain else Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        if isinstance(event, ClippedEarly) or (isinstance(event, GradientUse) and event.hidden):
            return None
        assert isinstance(event, GradientUse)
        assert event.gradients.scaler is not None
        scaler, optimizer = event.gradients.scaler.symbol, _optimizer(event)
        if optimizer is None or self._follows_another(event, optimizer, rewrite):
            return None
        if any(rewrite.same_function(call, event.node) for call in event.index.unscales.get(optimizer, [])):
            return None
        step = next((s for s in event.index.steps.get(optimizer, []) if rewrite.shares_block(s, event.node)), None)
        if step is None:
            return None
        before = rewrite.branch_towards(step, event.node)
        place = before if isinstance(before, (cst.For, cst.While)) else event.node
        spelled = protocol.spelling(event.index.optimizers.get(optimizer, []), step, rewrite)
        owner = protocol.spelling(event.index.scalers[scaler], step, rewrite)
        choice = protocol.choice_of_scaling(place, rewrite)
        where = protocol.where_scaled(choice, place, rewrite) if choice is not None else None
        if not spelled or not owner or (choice is not None and where is None):
            return None
        edit = protocol.unscale(place, spelled, owner, rewrite, where)
        known = Applicability.UNSAFE if event.guesses else Applicability.SAFE
        return Fix("Unscale the gradients first", (edit,), known) if edit else None

    def _follows_another(self, event: GradientUse, optimizer: int, rewrite: Rewriter) -> bool:
        """Whether the repair of an earlier use of the same gradients in the block unscales them for this one."""
        for earlier in self._uses.get(event.gradients.backward, ()) if event.gradients.backward is not None else ():
            if earlier.node is event.node:
                return False
            if _optimizer(earlier) == optimizer and rewrite.shares_block(earlier.node, event.node):
                return True
        return False


def _optimizer(event: GradientUse) -> int | None:
    """The only optimizer that takes the gradients, None for none or several."""
    known = {one for one in event.optimizers if one in event.index.steps}
    scaler = event.gradients.scaler
    found = known or set(event.index.partners.get(scaler.symbol, []) if scaler is not None else [])
    return next(iter(found)) if len(found) == 1 else None


def _start(event: GradientUse) -> str:
    """The scale at which a scaler begins that is made without another one, "" for any other."""
    made = event.gradients.scaler.created if event.gradients.scaler is not None else None
    if not isinstance(made, cst.Call) or any(one.star for one in made.args):
        return ""
    by_name = {one.keyword.value for one in made.args if one.keyword is not None}
    positional = [one for one in made.args if one.keyword is None and not isinstance(one.value, cst.SimpleString)]
    return "" if positional or "init_scale" in by_name else " (65536 at the start)"
