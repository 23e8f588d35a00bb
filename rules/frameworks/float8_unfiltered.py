"""AMP751."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import ConvertedToFloat8
from amplint.torchlib.float8 import MULTIPLE


class Float8Unfiltered(Rule):
    """`convert_to_float8_training` converts every linear layer, also those that float8 products refuse or spoil.

    ## Why is this bad?
    Float8 products need sizes that are multiples of 16: a layer with another one raises `Expected trailing dimension of
    mat1 to be divisible by 16` in its first forward pass on a GPU. A layer for a vocabulary of 50257 tokens or for ten
    classes is such a one. The last layer, whose logits go into the loss, and small layers are better left in bfloat16
    anyway: the first loses accuracy, the others time. `module_filter_fn` says which layers are converted.

    ## Example
    ```python
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 50257))
    convert_to_float8_training(model)
    ```

    ## Use instead
    ```python
    def fits(module, name):
        return name != "2" and module.in_features % 16 == 0 and module.out_features % 16 == 0


    convert_to_float8_training(model, module_filter_fn=fits)
    ```
    Where no size is written out, this is an info.

    ## References
    - <https://docs.pytorch.org/ao/stable/api_reference/api_ref_float8.html>
    - <https://github.com/pytorch/ao/issues/571>
    """

    code = "AMP751"
    name = "float8-unfiltered"
    severity = Severity.ERROR
    screen = (b"convert_to_float8_training",)
    reason = "Layers whose sizes are no multiples of 16 raise on a GPU, and the last layer loses accuracy."

    def on_converted_to_float8(self, event: ConvertedToFloat8) -> Iterator[Report]:
        if event.refused is None:
            message = "every linear layer is converted to float8, the last one and those of odd sizes included"
        else:
            message = f"a linear layer of size {event.refused[1]}, no multiple of {MULTIPLE}, is converted to float8"
        yield self.report(
            event,
            message,
            advice="Say which layers are converted: module_filter_fn=...",
            notes=[(event.refused[0], "this layer")] if event.refused is not None else [],
            severity=None if event.refused is not None else Severity.INFO,
        )
