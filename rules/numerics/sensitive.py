"""Message and notes shared by the rules about operations that should run in float32."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import How, Sensitive
from amplint.source import syntax as cst

OUTSIDE = "Outside of autocast it runs in the dtype of its input, which is half where the model is."
_SAYS = {
    How.HALF: "{op} runs in {dtype}",
    How.CONVERTED_BACK: "{op} runs in half where its input is, and its result is converted back as if it were wider",
    How.WEIGHT: "{op} of a parameter runs in half once the module is converted to half",
    How.ROUTING: "{op}, which chooses among experts, runs in half where its input is",
    How.OUTPUT: "{op} runs in half where its input comes out of what was converted to half",
    How.GRADIENT: "{op} of gradients runs in half where the parameters are half",
    How.KERNEL: "the gradient of one number is added up in half where what the forward pass was given is half",
    How.BACKWARD: "{op} adds up gradients in half where what the forward pass was given is half",
    How.ELSEWHERE: "{op} runs in half where its input is, which another branch converts to float32",
    How.NARROWED: "{op} runs in half where its input is: what was converted to float32 is converted back before it",
    How.DRAWN: "{op} runs in half where its input is, and its probabilities are added up or drawn from",
    How.CANCELS: "a variance is the difference of a mean square and a squared mean, which cancel where they are half",
    How.AREA: "the area of a box is past what float16 holds where its sides are past 256",
    How.OWN_SUM: "weights are divided by their own sum, which is 0 or infinite in half before it is in float32",
    How.COMPLEMENT: "{op} runs in half where its input is, and what is close to 1 becomes 1",
    How.COMPARED: "{op} runs in half where its input is, and a divergence or a logarithm is computed from it",
}


def precision_message(event: Sensitive) -> str:
    """The message."""
    return _SAYS[event.how].format(op=event.op, dtype=event.operand.dtype)


def operand_evidence(event: Sensitive) -> Iterator[tuple[cst.CSTNode, str]]:
    """The evidence that the operand can be half."""
    half = event.operand.half
    if half is not None and half.node is not None:
        yield half.node, half.text
