"""AMP414."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.rule import Report, Rule
from amplint.semantics.events import UNIFORM, Event, Operation, RandomCompared
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_ONE_IN = {"float16": 2048, "bfloat16": 256}
_LOGARITHMS = frozenset({"log", "log2", "log10"})


class RandomInHalf(Rule):
    """Random numbers between 0 and 1 are drawn in half, and their logarithm is taken or they are compared.

    ## Why is this bad?
    `torch.rand` in bfloat16 draws multiples of 1/256, in float16 of 1/2048, one of which is 0: every 512th number on
    the CPU. Gumbel noise, `-log(-log(u))`, is infinite for each of them, and the softmax of that NaN. A comparison
    with a probability is off by up to half such a step: dropout with `u > p` drops elements also for `p = 0`.

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
    A comparison alone is reported as an info: how exact the probability has to be, the model decides.

    ## Fix safety
    Unsafe: where the dtype is written at the draw, the numbers are drawn in float32, and so is what is made of them.

    ## References
    - <https://github.com/pytorch/pytorch/issues/96947>
    - <https://github.com/jwohlwend/boltz/issues/553>
    """

    code = "AMP414"
    name = "random-in-half"
    severity = Severity.WARNING
    screen = ((b"half", b"float16"), b"rand")
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
                reason=f"They are multiples of 1/{_ONE_IN[value.dtype]}: one in hundreds is 0, its logarithm infinite.",
                advice="Draw in float32, and keep the numbers above 0.",
                notes=[(first.half.node, first.half.text)] if first.half.node is not None else (),
            )

    def on_random_compared(self, event: RandomCompared) -> Iterator[Report]:
        yield self.report(
            event,
            f"random numbers in {event.dtype} are compared",
            reason=f"They are multiples of 1/{_ONE_IN[event.dtype]}, and so are the probabilities that they give.",
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
