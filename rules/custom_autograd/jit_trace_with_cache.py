"""AMP606."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import Event, Traced

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class JitTraceWithCache(Rule):
    """`torch.jit.trace` runs under autocast with the weight cache on.

    ## Why is this bad?
    Autocast casts each weight once in a region and keeps the result. The tracer runs the model again to check what it
    has recorded, sees a tensor that is neither a parameter nor an input and requires a gradient, and raises
    `RuntimeError: Cannot insert a Tensor that requires grad as a constant`, inside `torch.no_grad()` too.

    ## Example
    ```python
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        traced = torch.jit.trace(model, example)
    ```

    ## Use instead
    ```python
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        traced = torch.jit.trace(model, example)
    ```
    Weights that do not require gradients are not cached: a file that freezes its model is left alone, and so is a trace
    with `check_trace=False`.

    ## Fix safety
    Without the cache the region computes the same, and casts a weight as often as it is used.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#torch.autocast>
    """

    code = "AMP606"
    name = "jit-trace-with-cache"
    severity = Severity.ERROR
    screen = (b"autocast", b"jit", b"trace")
    fixable = Applicability.SAFE
    reason = "The tracer refuses the weights that the region has cast and kept: they require gradients."

    def on_traced(self, event: Traced) -> Iterator[Report]:
        yield self.report(
            event,
            "torch.jit.trace raises under autocast with the weight cache on",
            advice="Pass cache_enabled=False to autocast.",
            notes=[(event.entered, "the region is made here")],
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, Traced)
        edit = rewrite.set_argument(event.entered, "cache_enabled", "False")
        return Fix("Switch the weight cache off", (edit,)) if edit else None
