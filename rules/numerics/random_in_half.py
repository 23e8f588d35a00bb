"""AMP414."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Report, Rule
from amplint.semantics.events import UNIFORM, Event, Operation, RandomCompared
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_ZERO_IN = {"float16": 4096, "bfloat16": 512}
"""One number in how many is 0: those of float32 that round up to 1 become 0."""
_LOGARITHMS = frozenset({"log", "log2", "log10"})


class RandomInHalf(Rule):
    """Random numbers between 0 and 1 are drawn in half, and their logarithm is taken or they are compared.

    ## Why is this bad?
    `torch.rand` draws in float32 and rounds to the dtype. What rounds up to 1 becomes 0, so that in bfloat16 every
    512th number is exactly 0, in float16 every 4096th. Gumbel noise, `-log(-log(u))`, is infinite for each of them, and
    the softmax of that NaN. A comparison `u < p` is true for each of them, whatever `p` is: for a probability of 0.001
    it is true three times as often in bfloat16, a quarter more often in float16, and dropout with `u > p` drops
    elements also for `p = 0`. For large `p`, half a step of the dtype at `p` comes to that.

    ## Example
    ```python
    noise = torch.rand(8, device=x.device, dtype=torch.bfloat16)
    gumbel = -torch.log(-torch.log(noise))
    ```

    ## Use instead
    ```python
    noise = torch.rand(8, device=x.device, dtype=torch.float32)
    gumbel = -torch.log(-torch.log(noise.clamp_min(1e-20)))
    ```
    A comparison alone is reported as an info: how exact the probability has to be, the model decides. Where the rule is
    selected by its code, so is one of numbers that are drawn in the dtype of another tensor of unknown dtype.

    ## Fix safety
    Unsafe: where the dtype is written at the draw, the numbers are drawn in float32, and so is what is made of them.

    ## References
    - <https://github.com/pytorch/pytorch/issues/96947>
    - <https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/cuda/DistributionTemplates.h>
    - <https://github.com/jwohlwend/boltz/issues/553>
    """

    code = "AMP414"
    name = "random-in-half"
    severity = Severity.WARNING
    screen = ((b"half", b"float16"), b"rand")
    assumed = ((b"rand_like(", b"rand("), (b"rand_like(", b".dtype"))
    fixable = Applicability.UNSAFE

    def on_operation(self, event: Operation) -> Iterator[Report]:
        first = event.operands[0] if event.operands else None
        value = first.value if first is not None else None
        if event.op not in _LOGARITHMS or first is None or not isinstance(value, Tensor) or event.assumed:
            return
        if UNIFORM in value.traits and value.dtype in HALF_DTYPES and first.half is not None:
            yield self.report(
                event,
                f"the logarithm is taken of random numbers in {value.dtype}, some of which are 0",
                reason=f"What rounds up to 1 becomes 0: one in {_ZERO_IN[value.dtype]} is 0, its logarithm infinite.",
                advice="Draw in float32, and keep the numbers above 0.",
                notes=[(first.half.node, first.half.text)] if first.half.node is not None else (),
            )

    def on_random_compared(self, event: RandomCompared) -> Iterator[Report]:
        if event.dtype is None:
            yield self.report(
                event,
                "random numbers are drawn in the dtype of another tensor and compared",
                reason="In bfloat16 one in 512 is exactly 0, and the others have two digits.",
                advice="Draw in float32: torch.rand(x.shape, device=x.device, dtype=torch.float32).",
                severity=Severity.INFO,
                premises=[Premise.HALF_THERE],
            )
            return
        yield self.report(
            event,
            f"random numbers in {event.dtype} are compared",
            reason=f"One in {_ZERO_IN[event.dtype]} is exactly 0, which counts for small probabilities.",
            advice="Draw in float32.",
            notes=[(event.half.node, event.half.text)] if event.half.node is not None else (),
            severity=Severity.INFO,
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        half = event.half if isinstance(event, RandomCompared) else None
        if isinstance(event, Operation) and event.operands:
            half = event.operands[0].half
        drawn = half.node if half is not None else None
        if not isinstance(drawn, cst.Call) or rewrite.find_argument(drawn, "dtype") is None:
            return None
        edit = rewrite.set_argument(drawn, "dtype", "torch.float32")
        return Fix("Draw in float32", (edit,), Applicability.UNSAFE, ("import torch",)) if edit is not None else None
