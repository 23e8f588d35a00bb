"""AMP902."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods import Wish
from amplint.rule import Report
from amplint.semantics.events import Backward

from .whole_file import Opportunity


class Float16WhereBfloat16Serves(Opportunity):
    """A model is trained in float16 with a gradient scaler, where bfloat16 needs none.

    ## Why is this bad?
    It is not, it is an opportunity: bfloat16 has the range of float32. No scaler is needed, no step is skipped, and
    clipping, several optimizers and checkpoints are as simple as in float32. It is as fast as float16 on NVIDIA GPUs
    since Ampere, but rounds more coarsely: to 8 significant bits instead of 11. The rule is off by default: it
    cannot know the hardware.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_fn(model(inputs), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: results change with the precision. It is what `amplint convert --from float16 --write` does. Where that
    refuses the file nothing is reported; the command tells why. Where `--select` names nothing but opportunities, they
    are repaired without `--unsafe-fixes`.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html>
    """

    code = "AMP902"
    name = "float16-where-bfloat16-serves"
    screen = (b"GradScaler", b"autocast", b"backward")
    every_path = True
    wishes = (Wish(source="float16"),)
    title = "Use bfloat16, without a scaler"
    reason = "bfloat16 has the range of float32: it needs no scaler, and no step is skipped."

    def on_backward(self, event: Backward) -> Iterator[Report]:
        made = event.scaler.created if event.scaler is not None else None
        region = next((ran.context for ran in event.regions if ran.context.is_float16_on_cuda), None)
        if made is not None and region is not None:
            yield self.report(
                event,
                "float16 needs this scaler; bfloat16 would not",
                advice="Let `amplint convert --from float16` change to bfloat16, where the hardware has it.",
                at=made,
                notes=[(region.node, "float16 from here"), (event.node, "the loss is scaled for it")],
            )
