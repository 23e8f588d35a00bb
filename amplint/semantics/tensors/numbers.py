"""Python numbers combined with tensors that can be float16."""

from __future__ import annotations

import math

from amplint.semantics.events import Because, TensorOp
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.provenance import dtype_root, views
from amplint.semantics.tensors.tensors import FROM_PARAMETER, Tensors, is_number, tensor, tensor_guesses
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Number, Tensor, Value, number_operand
from amplint.source import syntax as cst
from amplint.torchlib.names import (
    FLOAT16_MAX,
    FLOAT16_ROUNDS_TO_ONE,
    FLOAT16_SMALLEST_NORMAL,
    FLOAT32_ROUNDS_TO_ONE,
    HALF_DTYPES,
)
from amplint.torchlib.policy import words

_STEPS = 6
_KEEPS_ELEMENTS = words("Add tril triu masked_fill where cast")
"""Operations that keep elements of their first operand."""


def emit_out_of_range(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operand: Tensor,
    met: Number,
    *,
    supposing: bool = False,
) -> None:
    half = evidence(machine, state, operand)
    if half is not None and "float16" in half.dtypes:
        assumed = supposing or half.because is Because.ASSUMED
        machine.emit(
            state, TensorOp, node, op=op, tensor=operand, number=met, why=half.text, half=half.node, assumed=assumed,
            guesses=tensor_guesses(machine, operand.symbol) if assumed else (),
        )  # fmt: skip


def report_out_of_range(
    machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, met: Number
) -> None:
    """Report a number out of float16's range combined with a tensor, unless it may be a label.

    An upper bound just below 1, which float32 tells apart from it, is out of it as well.
    """
    size = abs(met.value)
    label = operand.dtype is None and isinstance(met.value, int) and met.value > 0
    bound = op == "clamp_max" and FLOAT32_ROUNDS_TO_ONE < 1 - met.value <= FLOAT16_ROUNDS_TO_ONE
    if (size > FLOAT16_MAX or 0 < size < FLOAT16_SMALLEST_NORMAL or bound) and not label:
        emit_out_of_range(machine, state, node, op, operand, met)


def constant_operand(
    machine: Machine, value: Value, node: cst.BaseExpression, beside: cst.BaseExpression | None = None
) -> Number | None:
    """The number that `node` evaluates to, or with which its tensor is filled."""
    known = number_operand(value, node, beside)
    if known is not None or not isinstance(value, Tensor) or not machine[Tensors].constants:
        return known
    held = machine[Tensors].constants.get(dtype_root(machine, value.symbol))
    return Number(held.value, node, beside, held.place) if held is not None else None


def record_elements(machine: Machine, tensor: Tensor, met: Number, *, everywhere: bool = False) -> None:
    """Record that some elements of `tensor`, or `everywhere` all, are a number."""
    if everywhere:
        machine[Tensors].constants[tensor.symbol] = met
    if FLOAT16_MAX < abs(met.value) < math.inf and tensor.dtype not in HALF_DTYPES:
        machine[Tensors].extremes[tensor.symbol] = met


def report_cast(machine: Machine, state: State, node: cst.CSTNode, before: Tensor, made: Tensor) -> None:
    """Report a cast to float16 of a tensor with elements out of its range."""
    extremes = machine[Tensors].extremes
    if not extremes or made.dtype not in ("float16", FROM_PARAMETER, None):
        return
    symbol = before.symbol
    for _ in range(_STEPS):
        *seen, symbol = views(machine, symbol)
        found = next((extremes[one] for one in (*seen, symbol) if one in extremes), None)
        if found is not None:
            emit_out_of_range(machine, state, node, "to", made, found, supposing=made.dtype != "float16")
        if found is not None or machine.symbols.key(symbol)[0] not in _KEEPS_ELEMENTS:
            return
        symbol = machine.symbols.parts(symbol)[0]


def report_number_operand(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    side: tuple[cst.BaseExpression, Value],
    other: tuple[cst.BaseExpression, Value],
) -> None:
    """Report a number combined with a tensor, or an infinity multiplied by anything but ones."""
    met, operand = constant_operand(machine, side[1], side[0], other[0]), other[1]
    if met is None or is_number(machine, operand):
        return
    if isinstance(operand, Tensor):
        certain = not (math.isinf(met.value) and "ones" in operand.traits)
    else:
        certain = kind == "Multiply" and math.isinf(met.value)
    if certain:
        report_out_of_range(machine, state, node, kind, tensor(machine, operand), met)


def floor_of(
    machine: Machine, side: tuple[cst.BaseExpression, Value], other: tuple[cst.BaseExpression, Value]
) -> Number | None:
    met = constant_operand(machine, side[1], side[0], other[0])
    return met if met is not None and 0 < met.value < 1 else None
