"""Screening words, operands and notes shared by the rules about float32 among half tensors."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import Clash, Operand, Operation
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.methods import FLOAT32_BY_DEFAULT
from amplint.torchlib.names import HALF_DTYPES, WIDE_DTYPES
from amplint.torchlib.policy import BANNED, NOT_CAST_IN_PLACE

MAKING = tuple(f"{name}(".encode() for name in FLOAT32_BY_DEFAULT)
WRITES = operations_with("writes")
"""Operations that write a source, which must have the same dtype, into a tensor."""
JOINS = operations_with("joins")
MEETING = (
    *MAKING, b"register_buffer", b"Parameter", b"Embedding(", b"_like(", b".new_", b"softmax(",
    b"scaled_dot_product_attention", b"dtype=self.", b"dtype=dtype", b"dtype=weight_dtype", b".half()", b".float()",
    b"float32)",
    *sorted(name.encode() for name in WRITES),
)  # fmt: skip


def takes_dtype(call: cst.Call) -> bool:
    """Whether a call that creates a tensor has a parameter `dtype`, as `where` on two numbers has not."""
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value in FLOAT32_BY_DEFAULT


def operand_notes(event: Clash) -> Iterator[tuple[cst.CSTNode, str]]:
    """The constructor of the float32 tensor, and the node that made the other one half."""
    made, why = event.steady.made, event.half.half
    if made is not None:
        yield made, "the float32 tensor is made here"
    if why is not None and why.node is not None:
        yield why.node, why.text


def is_told_elsewhere(event: Operation) -> bool:
    """Whether autocast refuses the operation itself, or does not cast this form of it."""
    own_form = event.in_place and f"{event.op}_" in NOT_CAST_IN_PLACE
    return event.op in BANNED or own_form or event.arguments.get("out") is not None


def half_of(event: Operation) -> Operand | None:
    """The half operand of an operation with another operand, or weights, in float32."""
    halves = [operand for operand in event.operands if operand.dtype in HALF_DTYPES]
    others = [operand for operand in event.operands if operand.dtype in WIDE_DTYPES]
    return halves[0] if halves and (others or event.module is not None) else None


def buffer_of(event: Operation) -> tuple[Operand, cst.Call] | None:
    """A half operand of a join, and the call that creates a float32 one without a dtype."""
    halves = [operand for operand in event.operands if operand.dtype in HALF_DTYPES]
    made = [operand.made for operand in event.operands if operand.dtype == "float32"]
    calls = [call for call in made if call is not None]
    return (halves[0], calls[0]) if event.op in JOINS and halves and len(made) == len(calls) > 0 else None
