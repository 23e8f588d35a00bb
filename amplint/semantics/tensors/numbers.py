"""Where Python numbers meet tensors that can be float16."""

from __future__ import annotations

import math

from amplint.semantics.events import Because, TensorOp
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.tensors import is_number, taken_for_tensor, tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Number, Tensor, Value, standing
from amplint.source import syntax as cst
from amplint.torchlib.names import FLOAT16_MAX, FLOAT16_SMALLEST_NORMAL


def tell(machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, met: Number) -> None:
    half = evidence(machine, state, operand)
    if half is not None and "float16" in half.dtypes:
        assumed = half.because is Because.ASSUMED
        machine.emit(
            state, TensorOp, node, op=op, tensor=operand, number=met, why=half.text, half=half.node, assumed=assumed,
            guesses=taken_for_tensor(machine, operand.symbol) if assumed else (),
        )  # fmt: skip


def meets(machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, met: Number) -> None:
    """A Python number meets a tensor. A large integer that meets something unknown can be a label."""
    size = abs(met.value)
    label = operand.dtype is None and isinstance(met.value, int) and met.value > 0
    if (size > FLOAT16_MAX or 0 < size < FLOAT16_SMALLEST_NORMAL) and not label:
        tell(machine, state, node, op, operand, met)


def number_meets(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    side: tuple[cst.BaseExpression, Value],
    other: tuple[cst.BaseExpression, Value],
) -> None:
    """Report a number on one side and a tensor on the other, or of an infinity times anything but ones."""
    met, operand = standing(side[1], side[0], other[0]), other[1]
    if met is None or is_number(machine, operand):
        return
    if isinstance(operand, Tensor):
        certain = not (math.isinf(met.value) and "ones" in operand.traits)
    else:
        certain = kind == "Multiply" and math.isinf(met.value)
    if certain:
        meets(machine, state, node, kind, tensor(machine, operand), met)


def floor_of(side: tuple[cst.BaseExpression, Value], other: tuple[cst.BaseExpression, Value]) -> Number | None:
    met = standing(side[1], side[0], other[0])
    return met if met is not None and 0 < met.value < 1 else None
