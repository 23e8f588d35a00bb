"""Tensors widened to float32 by an operand that was cast."""

from __future__ import annotations

from functools import partial

from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.conversions import home
from amplint.semantics.tensors.halves import is_computed
from amplint.semantics.tensors.provenance import ARITHMETIC, can_be_wide, conversion, dtype_root, last_cast
from amplint.semantics.tensors.tensors import Tensors
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import words

_KEEP = operations_with("keeps") | operations_with("follows") | words("sum mean softmax")


def widened_by(machine: Machine, value: Value) -> cst.Call | None:
    """The cast of the one operand by which `value` is float32, while the other was not cast; None if there is none."""
    if not isinstance(value, Tensor) or value.dtype != "float32" or not isinstance(value.why_half, cst.Call):
        return None
    return value.why_half if _is_mixed(machine, value.symbol) else None


def left_wide(machine: Machine, value: Value) -> cst.Call | None:
    """The cast by which a called function, that has ended, computed `value` in float32 from what it was given.

    A caller that casts for its own layers knows what it does; one of such a function does not see the cast.
    """
    if not isinstance(value, Tensor) or value.rank == 0 or "float32" not in (value.dtypes or ()):
        return None
    for one in machine.symbols.closure(value.symbol, partial(_decides, machine)):
        key = machine.symbols.key(one)
        node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(one)
        if not isinstance(node, cst.Call) or key[1] != "float32":
            continue
        source = machine.program.source_of(node)
        around = home(source, node) if source is not None else None
        if around is None or around in machine.calls:
            continue
        if _is_left(machine, machine.symbols.parts(one)[0]):
            return node
    return None


def _decides(machine: Machine, symbol: int) -> tuple[int, ...]:
    """The symbols by which `symbol` is float32, if one of them is."""
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in ARITHMETIC:
        return parts
    return parts[:1] if key[0] in _KEEP else (symbol,)


def _is_mixed(machine: Machine, symbol: int, depth: int = 6) -> bool:
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in ARITHMETIC and len(parts) == 2:
        left, right = parts
        if (_is_lifted(machine, left) and _is_left(machine, right)) or (
            _is_lifted(machine, right) and _is_left(machine, left)
        ):
            return True
        return depth > 0 and any(_is_mixed(machine, part, depth - 1) for part in parts)
    return depth > 0 and key[0] in _KEEP and bool(parts) and _is_mixed(machine, parts[0], depth - 1)


def _is_lifted(machine: Machine, symbol: int) -> bool:
    """Whether a tensor is float32 by an explicit cast."""
    return conversion(machine, symbol) == "float32" or (
        machine.symbols.key(symbol)[0] in ARITHMETIC and can_be_wide(machine, symbol)
    )


def _is_left(machine: Machine, symbol: int, depth: int = 6) -> bool:
    """Whether a tensor has the dtype of an argument of the function or of a layer's result, and was not cast."""
    if last_cast(machine, symbol) is not None:
        return False
    if is_computed(machine, symbol):
        return True
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    return depth > 0 and key[0] in _KEEP and bool(parts) and _is_left(machine, parts[0], depth - 1)
