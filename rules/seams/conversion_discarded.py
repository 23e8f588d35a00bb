"""AMP506."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.regex import regex
from amplint.rule import Report, Rule
from amplint.semantics.events import ConversionDiscarded, Event
from amplint.source import syntax as cst
from amplint.torchlib.methods import DISCARDED_CAST

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class DiscardedConversion(Rule):
    """A tensor is converted to another dtype, and the result is not kept.

    ## Why is this bad?
    `model.half()` and `model.to(dtype)` convert the parameters of a module where they are. The same methods of a tensor
    return a new one and leave the tensor as it was: what was to be float32 stays half, and meets other dtypes behind.

    ## Example
    ```python
    coordinates = points + 0.5
    coordinates.to(torch.float32)
    return coordinates / size
    ```

    ## Use instead
    ```python
    coordinates = points + 0.5
    coordinates = coordinates.to(torch.float32)
    return coordinates / size
    ```

    ## Fix safety
    The fix keeps the result in the variable. It is unsafe, since what is computed behind it was in the other dtype. A
    module refuses a plain tensor in the place of a parameter, so a parameter gets the result as its `data`. Other
    attributes are left alone: later calls would find them converted, too.

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html>
    """

    code = "AMP506"
    name = "conversion-discarded"
    severity = Severity.WARNING
    screen = (regex(DISCARDED_CAST.encode()),)
    fixable = Applicability.UNSAFE
    reason = "A tensor is not converted in place, as a module is."

    def on_conversion_discarded(self, event: ConversionDiscarded) -> Iterator[Report]:
        into = f" to {event.dtype}" if event.dtype is not None else ""
        yield self.report(
            event,
            f"this {'parameter' if event.is_parameter else 'tensor'} is converted{into}, but the result is not kept",
            advice="Replace its data: x.data = x.to(dtype)."
            if event.is_parameter
            else "Assign the result, x = x.to(dtype), or drop the statement.",
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ConversionDiscarded)
        node = event.node
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return None
        if isinstance(node.func.value, cst.Attribute) and not event.is_parameter:
            return None
        place = rewrite.text(node.func.value)
        kept = f"{place}.data = {rewrite.text(node)}" if event.is_parameter else f"{place} = {rewrite.text(node)}"
        return Fix("Keep the result", (rewrite.replace(node, kept),), Applicability.UNSAFE)
