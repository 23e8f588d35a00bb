"""Tensors widened to float32 by an operand that was cast."""

from __future__ import annotations

from functools import partial

from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.tensors.halves import is_computed, is_of_layer
from amplint.semantics.tensors.provenance import (
    ARITHMETIC,
    asked_dtype,
    can_be_wide,
    conversion,
    dtype_root,
    last_cast,
    views,
)
from amplint.semantics.tensors.tensors import COMPARISONS, Tensors
from amplint.semantics.values.values import Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.operations import FIRST_DECIDES
from amplint.torchlib.policy import BOOLEAN, FLOAT32, INTEGER, words

_KEEP = operations_with("keeps") | operations_with("follows") | FIRST_DECIDES | words("sum pow Power")
_JOINS, _REDUCES = operations_with("joins"), operations_with("reduces")
_NUMBERS = words("value number")
_WHOLE = BOOLEAN | INTEGER | words("one_hot long bool int")


def widened_by(machine: Machine, value: Value) -> cst.Call | None:
    """The cast of the one operand by which `value` is float32, while the other was not cast; None if there is none."""
    if not isinstance(value, Tensor) or value.dtype != "float32" or not isinstance(value.why_half, cst.Call):
        return None
    return value.why_half if _is_mixed(machine, value.symbol) else None


def lifted_on_a_path(machine: Machine, value: Value) -> cst.Call | None:
    """The call that cast `value` to float32 on one of the paths that lead here, and not on another."""
    found = cast_on_a_path(machine, value.symbol) if isinstance(value, Tensor) and value.dtype is None else None
    if found is None:
        return None
    key = machine.symbols.key(found)
    node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(found)
    return node if isinstance(node, cst.Call) else None


def cast_on_a_path(machine: Machine, symbol: int) -> int | None:
    """The cast to float32 from which `symbol` was computed on one of the paths that lead here, and not on another."""
    symbols = machine.symbols
    while symbols.key(symbol)[0] != "either":
        callee = symbols.method(symbol)
        parts = callee[1] if callee is not None else symbols.parts(symbol)
        if not parts or last_cast(machine, symbol) == symbol:
            return None
        symbol = parts[0]
    casts = [last_cast(machine, one) for one in symbols.alternatives(symbol)]
    found = next((one for one in casts if one is not None and symbols.key(one)[1] == "float32"), None)
    return found if None in casts else None


def lifted_by_operand(machine: Machine, value: Value) -> cst.Call | None:
    """The cast to float32 of one operand of the arithmetic that computed `value`, which is no narrower than that.

    The dtype of the other operands, and so that of `value`, is unknown.
    """
    if not isinstance(value, Tensor) or value.dtype is not None or value.rank == 0:
        return None
    symbols = machine.symbols
    if "float32" not in (value.dtypes or ("float32",)):
        return None
    if symbols.key(dtype_root(machine, value.symbol))[0] not in ARITHMETIC | _JOINS:
        return None
    for one in symbols.closure(value.symbol, partial(_decides_with_dimensions, machine)):
        key = symbols.key(one)
        node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(one)
        if key[:2] in (("cast", "float32"), ("converted", "float32")) and isinstance(node, cst.Call):
            return node
    return None


def widened_on_a_path(machine: Machine, value: Value) -> cst.Call | None:
    """The cast of an operand by which `value` is float32 on one of the paths that lead here, the others without casts.

    The other operand was not cast.
    """
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return None
    symbols = machine.symbols
    root = dtype_root(machine, value.symbol)
    while symbols.key(root)[0] in _KEEP and symbols.parts(root):
        root = dtype_root(machine, symbols.parts(root)[0])
    casts = {one: _cast_in(machine, one) for one in symbols.alternatives(root)}
    found = next((cast for one, cast in casts.items() if cast is not None and _meets_uncast(machine, one)), None)
    if found is None or None not in casts.values():
        return None
    key = symbols.key(found)
    node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(found)
    return node if isinstance(node, cst.Call) else None


def _meets_uncast(machine: Machine, symbol: int, depth: int = 4) -> bool:
    """Whether arithmetic on a cast tensor and on what was not cast, and is no number, computed this."""
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] not in ARITHMETIC:
        return depth > 0 and key[0] in _KEEP and bool(parts) and _meets_uncast(machine, parts[0], depth - 1)
    uncast = [one for one in parts if last_cast(machine, one) is None]
    if len(uncast) < len(parts) and any(machine.symbols.key(one)[0] not in _NUMBERS for one in uncast):
        return True
    return depth > 0 and any(_meets_uncast(machine, one, depth - 1) for one in uncast)


def left_wide(machine: Machine, value: Value) -> cst.Call | None:
    """The cast by which a called function, that has ended, computed `value` in float32 from what it was given.

    A caller that casts for its own layers knows what it does; one of such a function does not see the cast.
    """
    if not isinstance(value, Tensor) or value.rank == 0 or "float32" not in (value.dtypes or ()):
        return None
    for one in machine.symbols.closure(value.symbol, partial(decides, machine)):
        key = machine.symbols.key(one)
        node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(one)
        if not isinstance(node, cst.Call) or key[1] != "float32":
            continue
        source = machine.program.source_of(node)
        around = source.function_around(node) if source is not None else None
        if around is None or around in machine.calls:
            continue
        if _is_left(machine, machine.symbols.parts(one)[0]):
            return node
    return None


def lifted_whole(machine: Machine, value: Tensor) -> cst.Call | None:
    """The cast to float32 of whole numbers or truth values by which `value` is float32, if no other tensor was cast."""
    if value.dtype != "float32":
        return None
    casts = []
    for one in machine.symbols.closure(value.symbol, partial(decides, machine)):
        key = machine.symbols.key(one)
        if key[0] in ("cast", "converted") and key[1] == "float32":
            if not _is_whole(machine, machine.symbols.parts(one)[0]):
                return None
            casts.append(key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(one))
    return next((cast for cast in casts if isinstance(cast, cst.Call)), None)


def _is_whole(machine: Machine, symbol: int) -> bool:
    """Whether an operation that gives truth values or whole numbers computed this."""
    symbol = dtype_root(machine, symbol)
    key, method = machine.symbols.key(symbol)[0], machine.symbols.method(symbol)
    name = method[0] if method is not None else str(key)
    return key in COMPARISONS or name.rpartition(".")[2] in _WHOLE


def lifted_between(machine: Machine, value: Value) -> cst.Call | None:
    """The cast of a layer's result to float32 by which `value`, from which another layer computes, is float32.

    What a region made half is cast for that reason, whatever the weights are.
    """
    if not isinstance(value, Tensor) or value.dtype != "float32" or value.rank == 0:
        return None
    for one in machine.symbols.closure(value.symbol, partial(decides, machine)):
        key = machine.symbols.key(one)
        node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(one)
        if not isinstance(node, cst.Call) or key[1] != "float32":
            continue
        before = [*machine.symbols.closure(machine.symbols.parts(one)[0], partial(decides, machine))]
        if machine[HalfResults].symbols.isdisjoint(before) and any(is_of_layer(machine, each) for each in before):
            return node
    return None


def decides(machine: Machine, symbol: int) -> tuple[int, ...]:
    """The symbols by which `symbol` is float32, if one of them is."""
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in ARITHMETIC or key[0] in _JOINS:
        return parts
    if key[0] == "either":
        casts = [_cast_in(machine, one) for one in machine.symbols.alternatives(symbol)]
        known = [one for one in casts if one is not None]
        return (known[0],) if known and len(known) == len(casts) else (symbol,)
    return parts[:1] if key[0] in _KEEP else (symbol,)


def _cast_in(machine: Machine, symbol: int, depth: int = 4) -> int | None:
    """The cast to float32 of an operand of the arithmetic that computed this, through few operations."""
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[:2] in (("cast", "float32"), ("converted", "float32")):
        return symbol
    if depth == 0 or not (key[0] in ARITHMETIC or key[0] in _JOINS or key[0] in _KEEP):
        return None
    inner = parts if key[0] in ARITHMETIC or key[0] in _JOINS else parts[:1]
    return next((found for one in inner if (found := _cast_in(machine, one, depth - 1)) is not None), None)


def is_lifted_by_autocast(machine: Machine, value: Value) -> bool:
    """Whether an operation that autocast runs in float32 computed `value` from an argument or a layer's result."""
    if not isinstance(value, Tensor) or value.dtypes is not None or value.rank == 0:
        return False
    symbols = machine.symbols
    for one in symbols.closure(value.symbol, partial(_decides_with_dimensions, machine)):
        method, parts = symbols.method(one), symbols.parts(one)
        name, parts = method if method is not None else (str(symbols.key(one)[0]), parts)
        if name in FLOAT32 and parts and asked_dtype(machine, one) is None and is_computed(machine, parts[0]):
            return True
    return False


def _decides_with_dimensions(machine: Machine, symbol: int) -> tuple[int, ...]:
    """The symbols by which `symbol` is float32, without tensors that are reduced to one number, which widen nothing."""
    return () if any(_is_reduced(machine, one) for one in views(machine, symbol)) else decides(machine, symbol)


def _is_reduced(machine: Machine, symbol: int) -> bool:
    """Whether a reduction without a dimension computed this."""
    key, method = machine.symbols.key(symbol), machine.symbols.method(symbol)
    if method is not None:
        return method[0] in _REDUCES and len(machine.symbols.parts(symbol)) == 1
    return key[0] in _REDUCES and not isinstance(next(iter(key[1:2]), None), tuple)


def _is_mixed(machine: Machine, symbol: int, depth: int = 6) -> bool:
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if (key[0] in ARITHMETIC or key[0] in _JOINS) and len(parts) > 1:
        if any(_is_lifted(machine, part) for part in parts) and any(_is_left(machine, part) for part in parts):
            return True
        return depth > 0 and any(_is_mixed(machine, part, depth - 1) for part in parts)
    return depth > 0 and key[0] in _KEEP and bool(parts) and _is_mixed(machine, parts[0], depth - 1)


def _is_lifted(machine: Machine, symbol: int) -> bool:
    """Whether a tensor is float32 by an explicit cast, or by an operation that was asked for it."""
    if conversion(machine, symbol) == "float32":
        return True
    if machine.symbols.key(symbol)[0] in ARITHMETIC:
        return can_be_wide(machine, symbol)
    return any(asked_dtype(machine, one) == "float32" for one in views(machine, symbol))


def _is_left(machine: Machine, symbol: int, depth: int = 6) -> bool:
    """Whether a tensor has the dtype of an argument of the function or of a layer's result, and was not cast."""
    if last_cast(machine, symbol) is not None:
        return False
    if is_computed(machine, symbol):
        return True
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    return depth > 0 and key[0] in _KEEP and bool(parts) and _is_left(machine, parts[0], depth - 1)
