"""AMP763."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import SizeRefused


class Float8SizesRefused(Rule):
    """A layer of Transformer Engine runs in float8, and one of its sizes is not what float8 products take.

    ## Why is this bad?
    The number of inputs has to be a multiple of 16, and that of outputs of 8. Otherwise the first forward pass in the
    region raises `AssertionError: FP8 execution requires the product of all dimensions except the last to be divisible
    by 8 and the last dimension to be divisible by 16`. The number of rows that the layer gets is asked for the same.

    ## Example
    ```python
    layer = te.Linear(767, 3072)
    with te.fp8_autocast(enabled=True):
        outputs = layer(inputs)
    ```

    ## Use instead
    ```python
    layer = te.Linear(768, 3072)
    with te.fp8_autocast(enabled=True):
        outputs = layer(functional.pad(inputs, (0, 1)))
    ```

    ## References
    - <https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html>
    - <https://github.com/NVIDIA/TransformerEngine/issues/688>
    """

    code = "AMP763"
    name = "float8-sizes-refused"
    severity = Severity.ERROR
    screen = (b"transformer_engine", b"autocast")
    reason = "The first forward pass in the region raises AssertionError: FP8 execution requires ..."

    def on_size_refused(self, event: SizeRefused) -> Iterator[Report]:
        yield self.report(
            event,
            f"this size is no multiple of {event.multiple}, which float8 needs",
            advice="Pad it.",
            notes=[(event.run, "the layer runs in a float8 region here")],
        )
