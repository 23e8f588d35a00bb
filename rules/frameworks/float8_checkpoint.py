"""AMP762."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import WithinFloat8


class Float8Checkpoint(Rule):
    """`torch.utils.checkpoint` runs a layer of Transformer Engine again that computes in float8.

    ## Why is this bad?
    The second run, in the backward pass, has to quantize by the scales of the first one. PyTorch's checkpoint knows
    nothing of them: the layer takes the run for a new one, counts it in the histories of its scales, or saves other
    tensors than before, which raises. `transformer_engine.pytorch.checkpoint` keeps the scales.

    ## Example
    ```python
    with te.fp8_autocast(enabled=True):
        outputs = torch.utils.checkpoint.checkpoint(layer, inputs, use_reentrant=False)
    ```

    ## Use instead
    ```python
    with te.fp8_autocast(enabled=True):
        outputs = te.checkpoint(layer, inputs)
    ```

    ## References
    - <https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/pytorch.html>
    - <https://github.com/NVIDIA/TransformerEngine/issues/415>
    """

    code = "AMP762"
    name = "float8-checkpoint"
    severity = Severity.WARNING
    screen = (b"transformer_engine", b"autocast", b"checkpoint")
    reason = "PyTorch's checkpoint does not keep the scales by which the first run has quantized."

    def on_within_float8(self, event: WithinFloat8) -> Iterator[Report]:
        if event.what == "checkpoint":
            yield self.report(
                event,
                "PyTorch's checkpoint runs a float8 layer again",
                advice="Use transformer_engine.pytorch.checkpoint.",
                notes=[(event.entered, "the float8 region begins here")],
            )
