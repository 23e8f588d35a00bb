"""What kind of operation one is."""

from __future__ import annotations

from amplint.trace.check import plain
from amplint.trace.record import Operation, is_floating

PRODUCTS = frozenset({"addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "convolution", "linear", "mm", "mv"})
"""Matrix products and convolutions by their names in the dispatcher."""
_IDLE = frozenset(
    {
        *("alias", "detach", "empty", "empty_like", "expand", "lift_fresh", "permute", "reshape", "select", "slice"),
        *("squeeze", "t", "transpose", "unsqueeze", "_unsafe_view", "view"),
    }
)
"""Operators that compute nothing."""
_CONVERSIONS = frozenset(
    f"torch.Tensor.{name}" for name in ("bfloat16", "double", "float", "half", "to", "type", "type_as")
)


def computes(operation: Operation) -> bool:
    """Whether it computes floating point numbers; copies and views of them alone are no computation, casts are."""
    floating = any(map(is_floating, (*operation.inputs, *operation.outputs)))
    return floating and operation.op not in _IDLE


def is_float32_product(operation: Operation) -> bool:
    """Whether it is a matrix product or convolution that ran in float32 in the forward pass of a region."""
    return (
        operation.phase == "forward"
        and operation.autocast != ""
        and plain(operation) in PRODUCTS
        and "float32" in operation.inputs
        and "float32" in operation.outputs
    )


def is_cast(operation: Operation) -> bool:
    """Whether it converts from one floating dtype to another."""
    return operation.op == "_to_copy" and len({*floating(operation.inputs), *floating(operation.outputs)}) > 1


def is_own_cast(operation: Operation) -> bool:
    """Whether it converts because the user's code says so (`x.float()`), not because autocast does."""
    return is_cast(operation) and operation.api in _CONVERSIONS


def computed_in(operation: Operation) -> str:
    """The dtype that it computes in, that of its result; `float16 -> float32` for a cast. It `computes`."""
    inputs, outputs = floating(operation.inputs), floating(operation.outputs)
    if is_cast(operation) and inputs and outputs:
        return f"{inputs[0]} -> {outputs[0]}"
    return (outputs or inputs)[0]


def floating(dtypes: tuple[str, ...]) -> list[str]:
    """Those of `dtypes` that floating point numbers have."""
    return [dtype for dtype in dtypes if is_floating(dtype)]
