"""AMP501."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Because, Event, ToNumpy

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


class Bfloat16ToNumpy(Rule):
    """A tensor that is or can be bfloat16 is converted to NumPy.

    ## Why is this bad?
    NumPy has no bfloat16: `.numpy()` raises `TypeError: Got unsupported ScalarType BFloat16`. The line works in float32
    and float16, so it breaks when the precision is switched to bfloat16, often in a validation loop at the end of the
    first epoch. What a model returns from a bfloat16 region is bfloat16 in most cases, and float32 where it ends with
    a norm: where the model is not seen, the finding is an info. What Lightning's Trainer predicts with such a
    precision is bfloat16, too, and an Accelerator gathers tensors in their dtype. Functions of NumPy that get a
    tensor convert it themselves, as `np.asarray` and `np.sqrt` do, and so does torchvision's `ToPILImage`. Selected by
    its code, the rule also reports tensors of unknown dtype, also where only float16 is converted before.

    ## Example
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(images)
    scores.append(logits.softmax(dim=-1).cpu().numpy())
    ```

    ## Use instead
    ```python
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(images)
    scores.append(logits.softmax(dim=-1).cpu().float().numpy())
    ```

    ## Fix safety
    The fix puts `.float()` before `.numpy()`, which changes nothing for a float32 tensor. Unsafe where the tensor may
    be float16 as well: its array, which was float16, becomes float32.

    ## References
    - <https://docs.pytorch.org/docs/stable/generated/torch.Tensor.numpy.html>
    """

    code = "AMP501"
    name = "bfloat16-to-numpy"
    severity = Severity.ERROR
    applies_to_bfloat16 = True
    claims = (Claim(Sign.RAISES, texts=("BFloat16",), ops=("numpy",)),)
    screen = (
        (b".numpy(", b"np.", b"numpy.", b"ToPILImage", b"to_pil_image"),
        (b"bfloat16", b"bf16", b"dtype"),
        (b"bfloat16", b"bf16", b"float16"),
    )
    assumed = ((b".numpy(", b"np.as", b"np.array", b"ToPILImage", b"to_pil_image"),)
    fixable = Applicability.SAFE
    reason = "NumPy has no bfloat16, so the conversion raises TypeError."

    def on_to_numpy(self, event: ToNumpy) -> Iterator[Report]:
        half = event.operand.half
        if half is None or "bfloat16" not in half.dtypes:
            return
        certain = half.because in (Because.CAST, Because.PARAMETERS)
        yield self.report(
            event,
            f"{event.by}() raises for a bfloat16 tensor"
            if certain
            else f"{event.by}() raises if this tensor is bfloat16",
            advice="Convert it first: .float().numpy()." if event.by == "numpy" else "Convert it first: x.float().",
            notes=[(half.node, half.text)] if half.node is not None else (),
            severity=Severity.INFO if half.because is Because.ANNOUNCED else None,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        assert isinstance(event, ToNumpy)
        half = event.operand.half
        only = half is not None and set(half.dtypes) == {"bfloat16"}
        safety = Applicability.SAFE if only else Applicability.UNSAFE
        return Fix("Convert to float32", (rewrite.add_float(event.operand.node),), safety)
