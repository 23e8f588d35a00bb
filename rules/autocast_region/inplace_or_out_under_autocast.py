"""AMP110."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, NotCast
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class InplaceOrOutUnderAutocast(Rule):
    """A matrix product in an in-place or `out=` form is left out of autocast.

    ## Why is this bad?
    Autocast casts the inputs of an operation, and cannot cast a tensor that the result is written into. So it leaves
    `x.addmm_(a, b)` and `torch.mm(a, b, out=c)` alone: they run in float32, without the matrix units for half, and
    raise where one of the tensors comes from an operation that autocast has cast.

    ## Example
    ```python
    with torch.autocast("cuda"):
        scores.baddbmm_(queries, keys)
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda"):
        scores = scores.baddbmm(queries, keys)
    ```

    ## Fix safety
    The result is bound to the same name and is half. Other names for the old tensor no longer see it.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior>
    """

    code = "AMP110"
    name = "inplace-or-out-under-autocast"
    severity = Severity.INFO
    claims = (Claim(Sign.STAYS_WIDE), Claim(Sign.RAISES, texts=("dtype", "scalar type")))
    screen = (b"autocast", (b"mm_(", b"addmv_(", b"addr_(", b"out="))
    fixable = Applicability.UNSAFE

    def on_not_cast(self, event: NotCast) -> Iterator[Report]:
        form = "in-place" if event.op.endswith("_") else "out="
        notes = [(event.region_with, "autocast is on from here")] if event.region_with is not None else []
        notes.append((event.single, "this is float32"))
        if event.half is not None:
            notes.append((event.half, "this is half"))
        yield self.report(
            event,
            f"autocast does not cast the {form} form of {event.op.rstrip('_')}",
            reason="It raises on inputs of two dtypes." if event.half is not None else "It runs in float32.",
            advice=f"Use the form that returns its result: {event.op.rstrip('_')}(...).",
            notes=notes,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, NotCast)
        assert isinstance(event.node, cst.Call)
        call, target = event.node, rewrite.text(event.target)
        if not isinstance(rewrite.source.parent(call), cst.Expr) or not re.fullmatch(r"[\w.]+", target):
            return None
        function = rewrite.text(call.func).rstrip("_")
        kept = [rewrite.text(argument) for argument in call.args if argument is not rewrite.find_argument(call, "out")]
        edit = rewrite.replace(call, f"{target} = {function}({', '.join(text.rstrip(', ') for text in kept)})")
        return Fix("Bind the result instead", (edit,), Applicability.UNSAFE)
