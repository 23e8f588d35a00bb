"""AMP113."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import CompiledIsland
from amplint.torchlib.methods import OF_BACKWARD


class CompiledBackwardInHalf(Rule):
    """A compiled model switches autocast off for a part, whose backward pass runs in the half of the region around it.

    ## Why is this bad?
    `torch.compile` traces the backward pass together with the forward pass, in the autocast that is on around the
    compiled model. A region inside that switches autocast off holds for the forward pass alone: matrix products of the
    backward pass get half operands there, where eager mode computes them in float32. What the region was to protect
    overflows or is rounded in the gradients, without an error or a warning.

    ## Example
    ```python
    class Net(nn.Module):
        def forward(self, inputs):
            features = self.body(inputs)
            with torch.autocast("cuda", enabled=False):
                return self.head(features.float())


    model = torch.compile(Net())
    with torch.autocast("cuda", dtype=torch.float16):
        loss = criterion(model(inputs), targets)
    ```

    ## Use instead
    ```python
    torch._functorch.config.backward_pass_autocast = "off"  # as eager mode, where backward runs outside of the region
    model = torch.compile(Net())
    ```
    or compile the body alone.

    ## References
    - <https://docs.pytorch.org/docs/2.13/user_guide/torch_compiler/torch.compiler_backward.html>
    - <https://github.com/pytorch/pytorch/issues/153044>
    """

    code = "AMP113"
    name = "compiled-backward-in-half"
    severity = Severity.WARNING
    screen = (b"compile", b"autocast", b"enabled")
    reason = f"By default ({OF_BACKWARD}) the compiled backward pass has the autocast that is on around the model."

    def on_compiled_island(self, event: CompiledIsland) -> Iterator[Report]:
        yield self.report(
            event,
            "autocast is off here in the forward pass only: the model is compiled, and its backward pass runs in half",
            advice=f'Set torch._functorch.config.{OF_BACKWARD} = "off", or leave this part out of what is compiled.',
            notes=[(event.outer_with, "the region around the compiled model begins here")],
        )
