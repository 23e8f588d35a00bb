"""Operands that are half whatever the dtype of their input is, beside one whose dtype is not known."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import FixedHalf, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.clash_pairs import is_kept
from amplint.semantics.tensors.datasets import prepares_data
from amplint.semantics.tensors.halves import is_unconverted, may_be_half
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.provenance import conversion, was_asked_for
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.operations import ALIKE


def met(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand]) -> None:
    """Report an operation, outside of any region in sight, that refuses unequal dtypes."""
    if op not in ALIKE or FixedHalf.kind not in machine.wanted or innermost(machine, state)[0] is not None:
        return
    half = next((one for one in operands if _is_fixed(machine, one.value)), None)
    if half is None or branches_on_dtypes(machine) or prepares_data(machine):
        return
    other = next((one for one in operands if one is not half and _is_free(machine, one, op)), None)
    if other is not None:
        machine.emit(state, FixedHalf, node, op=op, half=half, assumed=True)


def _is_fixed(machine: Machine, value: Value) -> bool:
    """Whether a tensor was converted to a half dtype that is written out, or made in one."""
    if not isinstance(value, Tensor) or value.dtype not in HALF_DTYPES or value.supposed or value.rank == 0:
        return False
    return value.dtype in (conversion(machine, value.symbol), was_asked_for(machine, value.symbol))


def _is_free(machine: Machine, operand: Operand, op: str) -> bool:
    """Whether an operand has the dtype of an argument, of a layer's result or of the module."""
    if operand.dtype is None and is_kept(machine, operand.value):
        return True
    return is_unconverted(machine, operand) and may_be_half(machine, operand, op)
