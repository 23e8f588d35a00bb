"""AMP761."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.findings import Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import WithinFloat8


class Float8RegionTooWide(Rule):
    """A float8 region of Transformer Engine goes on over the backward pass or the step.

    ## Why is this bad?
    Where the outermost region ends, Transformer Engine gathers the largest values that all layers have seen, on all
    ranks, and renews their scales. A region around a whole loop does so once, at its very end: with delayed scaling
    each forward pass then quantizes by the scales of the beginning. And a backward pass belongs outside of the region,
    as the user guide says: it has the precision of its forward pass in any case.

    ## Example
    ```python
    with te.fp8_autocast(enabled=True):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    ```

    ## Use instead
    ```python
    for inputs, targets in loader:
        with te.fp8_autocast(enabled=True):
            outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()
    ```

    ## References
    - <https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/fp8_primer.html>
    - <https://github.com/NVIDIA/TransformerEngine/pull/93>
    """

    code = "AMP761"
    name = "float8-region-too-wide"
    severity = Severity.WARNING
    screen = (b"transformer_engine", b"autocast", (b"backward(", b".step("))
    reason = "The scales are renewed where the region ends, on all ranks together."

    def on_within_float8(self, event: WithinFloat8) -> Iterator[Report]:
        said = {"backward": "backward runs", "step": "the optimizer steps"}.get(event.what)
        if said is not None:
            yield self.report(
                event,
                f"{said} in a float8 region",
                advice="End the region behind the forward pass.",
                notes=[(event.entered, "the region begins here")],
            )
