"""AMP213."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.edits import protocol
from amplint.findings import Applicability, Edit, Fix, Severity, Span
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, PenaltyScaled
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class UnscaledGradientPenalty(Rule):
    """A gradient penalty is computed from gradients that carry the loss scale, or that underflowed without it.

    ## Why is this bad?
    `torch.autograd.grad()` runs a backward pass through the float16 part of the network. On a loss without its scale
    small gradients become 0 there, as in any backward pass. On `scaler.scale(loss)` they survive, but are 65536 times
    too large: a squared norm of them is off by a factor of four billion, and the penalty is all that is trained on.
    They belong to no optimizer, so neither `unscale_()` nor `step()` divides them.

    A penalty on the gradients of a critic's outputs (`grad_outputs=torch.ones_like(scores)`, `scores.sum()`) needs no
    scale: there is no mean in it that makes them small.

    ## Example
    ```python
    grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
    loss = loss + sum(grad.pow(2).sum() for grad in grads)
    scaler.scale(loss).backward()
    ```

    ## Use instead
    ```python
    grads = torch.autograd.grad(scaler.scale(loss), model.parameters(), create_graph=True)
    grads = [grad / scaler.get_scale() for grad in grads]
    loss = loss + sum(grad.pow(2).sum() for grad in grads)
    scaler.scale(loss).backward()
    ```

    ## Fix safety
    Unsafe, since the penalty takes another size than the one its weight was chosen for.

    ## References
    - <https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty>
    """

    code = "AMP213"
    name = "unscaled-gradient-penalty"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"create_graph", b"scale(", b"grad(")
    fixable = Applicability.UNSAFE

    def on_penalty_scaled(self, event: PenaltyScaled) -> Iterator[Report]:
        if event.carried:
            yield self.report(
                event,
                "the gradients of the scaled loss go into a penalty without being divided by the scale",
                reason="They are 65536 times too large at first, and no optimizer owns them that would unscale them.",
                advice="Multiply them by 1 / scaler.get_scale() before the penalty is computed.",
                notes=[
                    (event.node, "gradients of the scaled loss"),
                    (event.by, f"the penalty {'that is returned' if event.returned else 'in this loss'} holds them"),
                ],
                premises=[Premise.SCALER_ON] if event.returned else (),
            )
        else:
            yield self.report(
                event,
                "the gradients for the penalty are taken from the loss without its scale",
                reason="In float16 small gradients are 0 without the scale, in this backward pass as in any other.",
                advice="Differentiate scaler.scale(loss) and multiply the gradients by 1 / scaler.get_scale().",
                notes=[(event.node, "gradients of the loss itself"), (event.by, "the same loss is scaled here")],
            )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, PenaltyScaled)
        scaler = protocol.spelling(event.index.scalers.get(event.scaler.symbol, []), event.node, rewrite)
        outputs = rewrite.find_argument(event.node, "outputs", 0) if isinstance(event.node, cst.Call) else None
        holder = rewrite.source.parent(event.node)
        one = isinstance(holder, cst.Subscript)
        if scaler is None or outputs is None or not isinstance(holder, (cst.Subscript, cst.Assign)):
            return None
        if one and not isinstance(rewrite.source.parent(holder), cst.Assign):
            return None
        span = rewrite.span(holder if isinstance(holder, cst.Subscript) else event.node)
        start, end = Span(span.start, span.start), Span(span.end, span.end)
        division = f" / {scaler}.get_scale()"
        edits = [] if one else [Edit(start, f"[grad{division} for grad in ")]
        if not event.carried:
            edits.append(rewrite.replace(outputs.value, protocol.scaled(outputs.value, scaler, rewrite)))
        edits.append(Edit(end, division if one else "]"))
        return Fix("Unscale the gradients of the scaled loss", tuple(edits), Applicability.UNSAFE)
