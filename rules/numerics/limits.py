"""How to spell the limits of a tensor's dtype in a repair, whatever that dtype turns out to be."""

from __future__ import annotations

import libcst as cst

from amplint.semantics.events import TensorOp
from amplint.source.rewrite import Rewriter


def limit(event: TensorOp, rewrite: Rewriter) -> str | None:
    """`torch.finfo(x.dtype).min` or `.max` in the place of a constant, None where nothing short names the dtype."""
    number = event.number
    if number is None or (isinstance(number.value, int) and event.tensor.dtype is None):
        return None
    beside = number.beside
    if isinstance(beside, cst.BinaryOperation) and isinstance(beside.left, (cst.Integer, cst.Float)):
        beside = beside.right
    call = event.node if isinstance(event.node, cst.Call) else None
    wanted = rewrite.find_argument(call, "dtype") if call is not None and beside is None else None
    if wanted is not None:
        dtype = rewrite.text(wanted.value)
    elif beside is not None and is_path(beside):
        dtype = f"{rewrite.text(beside)}.dtype"
    elif event.tensor.dtype == "float16" and event.region is None:
        dtype = "torch.float16"
    else:
        return None
    return f"torch.finfo({dtype}).{'max' if number.value > 0 else 'min'}"


def is_path(node: cst.BaseExpression) -> bool:
    """Whether `node` is a name or a chain of attributes of one."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)
