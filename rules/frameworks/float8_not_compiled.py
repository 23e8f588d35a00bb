"""AMP752."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import LeftUncompiled


class Float8NotCompiled(Rule):
    """A model with float8 layers of torchao is trained without `torch.compile`, which makes it slower than bfloat16.

    ## Why is this bad?
    Before each product a float8 layer looks for the largest value of both operands, scales them and casts them.
    `torch.compile` merges that with what computes the operands. Without it these are kernels of their own, which read
    and write everything again: training takes two to three times as long as in bfloat16, and more memory.

    ## Example
    ```python
    convert_to_float8_training(model, module_filter_fn=fits)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```

    ## Use instead
    ```python
    convert_to_float8_training(model, module_filter_fn=fits)
    model = torch.compile(model)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    ```
    Nothing is reported where any name in the script has to do with compiling, or where a framework runs the loop.

    ## References
    - <https://docs.pytorch.org/ao/stable/api_reference/api_ref_float8.html>
    - <https://github.com/pytorch/ao/issues/685>
    """

    code = "AMP752"
    name = "float8-not-compiled"
    severity = Severity.INFO
    screen = (b"convert_to_float8_training",)
    reason = "Without torch.compile, scaling and casting operands takes longer than float8 products save."

    def on_left_uncompiled(self, event: LeftUncompiled) -> Iterator[Report]:
        yield self.report(
            event,
            "layers are converted to float8, and nothing compiles the model",
            advice="Compile it: model = torch.compile(model).",
        )
