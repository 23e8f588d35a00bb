"""AMP218."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, ScaleDiscarded
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class ScaleResultUnused(Rule):
    """The result of `scaler.scale(loss)` is not what backward runs on.

    ## Why is this bad?
    `scale()` changes nothing in place: it returns a new tensor. When backward runs on the loss itself, the gradients
    carry no scale, underflow in float16 as if there were no scaler, and are then divided by the scale all the same.

    ## Example
    ```python
    scaler.scale(loss)
    loss.backward()
    ```

    ## Use instead
    ```python
    scaler.scale(loss).backward()
    ```

    ## Fix safety
    Backward runs on the scaled loss, as the call of `scale()` shows was meant.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.amp.GradScaler.scale>
    """

    code = "AMP218"
    name = "scale-result-unused"
    severity = Severity.ERROR
    only_numbers = True
    screen = (b"scale(",)
    fixable = Applicability.SAFE
    reason = "scale() returns the scaled loss and leaves the loss as it is, so the gradients carry no scale."

    def on_scale_discarded(self, event: ScaleDiscarded) -> Iterator[Report]:
        yield self.report(
            event,
            "the scaled loss is thrown away, and backward runs on the loss itself",
            advice="Write scaler.scale(loss).backward().",
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ScaleDiscarded)
        backwards = event.index.backwards.get(event.loss, [])
        backward = next((call for call in backwards if rewrite.same_function(call, event.node)), None)
        if backward is None or not isinstance(backward.func, cst.Attribute):
            return None
        edits: list[Edit | None] = [rewrite.replace(backward.func.value, rewrite.text(event.node))]
        statement = rewrite.statement_of(event.node)
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr):
            edits.append(rewrite.remove_statement(event.node))
        done = tuple(edit for edit in edits if edit is not None)
        return Fix("Run backward on the scaled loss", done) if len(done) == len(edits) else None
