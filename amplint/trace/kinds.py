"""Classification of operations."""

from __future__ import annotations

from functools import cache

from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.methods import FLOATING_CASTS
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.tables import policy
from amplint.trace.check import plain
from amplint.trace.data import Operation, is_floating

PRODUCTS = operations_with("blas") - {"dot", "vdot"} | {"addr", "convolution", "linear"}
"""Matrix products and convolutions by their names in the dispatcher."""
_IDLE = (
    operations_with("view")
    | operations_with("blank")
    | {"set", "resolve_conj", "resolve_neg", "_has_compatible_shallow_copy_type"}
)
"""Operators that compute nothing, without the mark of their in-place forms."""
_CONVERSIONS = frozenset(f"torch.Tensor.{name}" for name in (*FLOATING_CASTS, "to", "type", "type_as"))


_INNER = {
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "linalg_vector_norm": "norm",
    "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss2d",
}
"""Operators that are run for those of autocast's tables."""
_LOSSES = operations_with("loss") | {"log_softmax", "nll_loss2d"}
"""What a loss is made of: outside of regions none of it is to be in half, on any device."""
_CASTING = frozenset({"multi_head_attention_forward", "rms_norm", "scaled_dot_product_attention"})
"""Functions that cast for themselves where a device has no kernel for the whole of them."""
SCALED = frozenset({"_scaled_mm", "_scaled_mm_v2", "_scaled_grouped_mm", "_scaled_grouped_mm_v2"})
"""Matrix products of float8 operands, which they get with the scales."""
_RELATIVE = frozenset({"pow", "reciprocal", "rsqrt"})
"""Operators that lose no more digits than a product does: bfloat16 has the range for their results."""


def computes(operation: Operation) -> bool:
    """Whether it computes floating point values; copies and views do not, casts do."""
    floating = any(map(is_floating, (*operation.inputs, *operation.outputs)))
    return floating and plain(operation) not in _IDLE


def casts_inside(operation: Operation) -> bool:
    """Whether it is part of a function that chooses its dtypes by the kernels of the device."""
    return operation.api.rpartition(".")[2] in _CASTING


def is_product(operation: Operation) -> bool:
    """Whether it is a matrix product, a convolution or an attention, in any dtype and phase."""
    op = plain(operation).removesuffix("_backward")
    return op in PRODUCTS or op in SCALED or op.startswith("_scaled_dot_product_")


def is_float32_product(operation: Operation) -> bool:
    """Whether it is a matrix product or convolution that ran in float32 in the forward pass of a region."""
    return (
        operation.phase == "forward"
        and operation.autocast != ""
        and plain(operation) in PRODUCTS
        and "float32" in operation.inputs
        and "float32" in operation.outputs
        and not casts_inside(operation)
    )


def is_coarse(operation: Operation, device: str) -> bool:
    """Whether autocast for `device` keeps it in float32, but it ran in half and returned half.

    The log-softmax that `F.cross_entropy` computes of half logits is excepted; losses outside of regions, which CUDA's
    autocast would keep in float32, are included.
    """
    op, names = plain(operation), _kept(device)
    if not operation.autocast:
        names |= _kept("cuda") & _LOSSES
    return (
        operation.phase == "forward"
        and not (operation.api.endswith(".cross_entropy") and op == "_log_softmax")
        and (op in names or _INNER.get(op) in names)
        and any(dtype in HALF_DTYPES for dtype in operation.inputs)
        and (op not in _RELATIVE or "float16" in operation.inputs)
        and operation.outputs[:1] in {(dtype,) for dtype in HALF_DTYPES}
        and all(dtype in HALF_DTYPES for dtype in operation.inputs[:1] if is_floating(dtype))
    )


@cache
def _kept(device: str) -> frozenset[str]:
    """The operators that autocast for `device`, or for CUDA if that has none, keeps in float32."""
    table = policy()
    groups = (table.float32, table.float32_set_dtype, table.float32_append_dtype)
    names = (name for group in groups for name in group.get(device, group["cuda"]))
    return frozenset(name.partition(".")[0] for name in names if "upsample_nearest" not in name)  # which only copy


def is_cast(operation: Operation) -> bool:
    """Whether it converts between floating dtypes; in inference mode, and inside of tensor subclasses, as `to`."""
    return operation.op in ("_to_copy", "to") and len({*floating(operation.inputs), *floating(operation.outputs)}) > 1


def is_own_cast(operation: Operation) -> bool:
    """Whether it is a conversion by the user's code (`x.float()`), not by autocast."""
    return is_cast(operation) and operation.api in _CONVERSIONS


def computed_in(operation: Operation) -> str:
    """The computation dtype, that of the result; `float16 -> float32` for a cast. Requires `computes`.

    For float8 products it is that of the operands.
    """
    inputs, outputs = floating(operation.inputs), floating(operation.outputs)
    if operation.op in SCALED and inputs:
        return inputs[0]
    if is_cast(operation) and inputs and outputs:
        return f"{inputs[0]} -> {outputs[0]}"
    return (outputs or inputs)[0]


def floating(dtypes: tuple[str, ...]) -> list[str]:
    """The floating dtypes among `dtypes`."""
    return [dtype for dtype in dtypes if is_floating(dtype)]


def is_float8(dtype: str) -> bool:
    """Whether it is an 8-bit floating format."""
    return dtype.startswith("float8")
