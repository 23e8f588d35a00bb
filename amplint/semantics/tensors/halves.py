"""Operands that can be half without evidence: arguments of functions, and results of layers."""

from __future__ import annotations

from functools import partial

from amplint.semantics.events import Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.tensors.kinship import follows_dtype, tensors_in
from amplint.semantics.tensors.provenance import (
    ARITHMETIC,
    conversion,
    creating_call,
    dtype_root,
    is_array,
    is_chosen,
    views,
)
from amplint.semantics.tensors.tensors import runs_layers
from amplint.semantics.tensors.weights import Weights
from amplint.semantics.values.values import Const, Tensor, Unknown, Value
from amplint.semantics.words import MASK, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.operations import FIRST_DECIDES
from amplint.torchlib.policy import LOWER, words

_JOINS = operations_with("joins")
_PRODUCTS = LOWER | {"MatrixMultiply"}
_SOURCES = operations_with("tensor-source")
"""Operations whose source operand is always a tensor, never a number."""
_OF_TENSORS_ONLY = operations_with("alike") - frozenset().union(*map(operations_with, ("number", "follows", "writes")))
"""Operations whose operands are always tensors, never numbers."""
_LOOPS = words("builtins.enumerate builtins.zip builtins.reversed")


def may_be_half(machine: Machine, operand: Operand, op: str = "") -> bool:
    value = operand.value
    if op not in _JOINS and _is_mask(machine, value):
        return False
    if isinstance(value, Tensor):
        if value.dtype is not None or value.among is not None:
            return operand.half is not None and value.dtype in HALF_DTYPES
        return value.rank != 0 and is_computed(machine, value.symbol)
    if not isinstance(value, Unknown) or _counts(machine, value.symbol) or not is_computed(machine, value.symbol):
        return False
    if op in _SOURCES or (op in _OF_TENSORS_ONLY and not _is_entry(machine, value.symbol)):
        return True
    return _is_tensor(machine, value.symbol)


def _is_entry(machine: Machine, symbol: int) -> bool:
    """Whether this is, or views, what a dictionary of unseen code holds under a key."""
    symbols = machine.symbols
    indices = (symbols.parts(one)[1:] for one in views(machine, symbol) if symbols.key(one)[0] == "index")
    keys = (symbols.key(index) for given in indices for index in given)
    return any(key[0] == "value" and isinstance(key[1], Const) and isinstance(key[1].value, str) for key in keys)


def is_unconverted(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether a possible tensor has an unknown dtype and was not cast."""
    value = operand.value
    if isinstance(value, Tensor) and (value.dtypes is not None or value.rank == 0):
        return False
    return isinstance(value, (Tensor, Unknown)) and conversion(machine, value.symbol) is None


def is_unknown(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether this is a tensor of unknown dtype that may have dimensions."""
    return isinstance(operand.value, Tensor) and operand.value.dtypes is None and operand.value.rank != 0


def is_layer_result(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether this is the result of a layer, which is half where autocast is on."""
    value = operand.value
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return False
    if isinstance(operand.node, cst.Call) and follows_dtype(operand.node):
        return False
    whole = dtype_root(machine, value.symbol)
    return any(is_of_layer(machine, dtype_root(machine, one)) for one in machine.symbols.alternatives(whole))


def is_of_layer(machine: Machine, symbol: int) -> bool:
    """Whether this is the result of a matrix product, or of a submodule of the running object."""
    if machine.symbols.key(symbol)[0] in _PRODUCTS:
        return not _is_product_of_made(machine, symbol)
    called = machine.symbols.callee(symbol)
    return called is not None and _is_own(machine, called)


def _is_product_of_made(machine: Machine, symbol: int) -> bool:
    """Whether an operand of a product was made here without a dtype: outside of a region both have to be float32."""
    others = next(iter(machine.symbols.key(symbol)[1:2]), ())
    beside = [one[1] for one in others if isinstance(one, tuple) and len(one) == 2] if isinstance(others, tuple) else []
    return any(creating_call(machine, one) is not None for one in (*machine.symbols.parts(symbol), *beside))


def _is_result(machine: Machine, symbol: int) -> bool:
    """Whether this is the result of a product or a layer, and not of a method of an object that may be no layer."""
    called = machine.symbols.callee(symbol)
    if called is not None and machine.symbols.key(called)[0] == "attribute":
        return machine.symbols.key(machine.symbols.parts(called)[0])[0] != "call" and is_of_layer(machine, symbol)
    return is_of_layer(machine, symbol)


def _is_own(machine: Machine, symbol: int) -> bool:
    """Whether this is a submodule of the object whose method runs, or an element of a list of its layers."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if symbol in machine[Weights].symbols or (key[0] == "call" and str(key[1]).rpartition(".")[2][:1].isupper()):
        return True
    if key[0] == "parameter" and machine.calls and runs_layers(machine.calls[-1]):
        return all(id(function) != key[1] for function in machine.calls)  # the constructor's, kept in an attribute
    if key[0] in ("attribute", "index"):
        return _is_own(machine, parts[0]) or _is_object(machine, parts[0])
    return (key[0] in ("item", "part") or (key[0] == "call" and key[1] in _LOOPS)) and any(
        _is_own(machine, part) for part in parts
    )


def _is_object(machine: Machine, symbol: int) -> bool:
    """Whether this is the object whose method runs, also of a method that is defined outside of its class."""
    key = machine.symbols.key(symbol)
    return key[0] == "self" or (key[0] == "parameter" and key[2] == "self")


def _is_mask(machine: Machine, value: Value) -> bool:
    """Whether this parameter is a mask by its name; a mask is floating-point only where it is joined to such."""
    key = machine.symbols.key(dtype_root(machine, value.symbol)) if isinstance(value, (Tensor, Unknown)) else ()
    return key[:1] == ("parameter",) and MASK.search(str(key[2])) is not None


def is_computed(machine: Machine, symbol: int, depth: int = 6) -> bool:
    """Whether a tensor has the dtype of an argument of the function, or is the result of a layer."""
    symbol = dtype_root(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "parameter":
        return not WHOLE_NUMBERS.search(str(key[2]))
    if is_chosen(machine, symbol) or _is_result(machine, symbol):
        return True
    if key[0] in _JOINS and any(creating_call(machine, part) is not None for part in parts):
        return False
    if (key[0] in ARITHMETIC or key[0] in _JOINS) and depth:
        return any(is_computed(machine, part, depth - 1) for part in parts)
    if _follows_result(machine, symbol):
        return True
    if key[0] == "part" and depth:
        return is_computed(machine, parts[0], depth - 1)
    if key[0] in ("either", "if") and depth:
        sides = parts if key[0] == "either" else parts[1:]
        given = [part for part in sides if creating_call(machine, part) is None]
        return bool(given) and all(is_computed(machine, part, depth - 1) for part in given)
    if key[0] == "item" or (key[0] == "call" and key[1] in _LOOPS):
        inside = bool(machine.calls) and runs_layers(machine.calls[-1])
        return inside and any(is_computed(machine, part, depth - 1) for part in parts)
    callee = machine.symbols.method(symbol)
    return callee is not None and any(machine.symbols.key(part)[0] == "self" for part in callee[1])


def _follows_result(machine: Machine, symbol: int) -> bool:
    """Whether operations on one tensor computed this from the result of a layer, or of a call in a region."""
    while machine.symbols.key(symbol)[0] in FIRST_DECIDES and machine.symbols.parts(symbol):
        symbol = dtype_root(machine, machine.symbols.parts(symbol)[0])
    return symbol in machine[HalfResults].symbols or _is_result(machine, symbol)


def _counts(machine: Machine, symbol: int) -> bool:
    """Whether this is the index that `enumerate` yields."""
    if machine.symbols.key(symbol)[:2] != ("part", 0):
        return False
    (item,) = machine.symbols.parts(symbol)
    return any(machine.symbols.key(one)[:2] == ("call", "builtins.enumerate") for one in machine.symbols.parts(item))


def _is_tensor(machine: Machine, symbol: int) -> bool:
    """Whether an argument of the running function is used as only tensors are."""
    symbol = dtype_root(machine, symbol)
    key = machine.symbols.key(symbol)
    if key[0] == "part":
        return _is_tensor(machine, machine.symbols.parts(symbol)[0])
    if key[0] == "item":
        return True
    if key[0] == "MatrixMultiply":
        return not is_array(machine, symbol)
    if key[0] in _JOINS:
        return True
    if key[0] in ARITHMETIC:
        return any(map(partial(_is_tensor, machine), machine.symbols.parts(symbol)))
    if key[0] != "parameter":
        found = machine.symbols.method(symbol) is not None or symbol in machine[HalfResults].symbols
        return found or _is_result(machine, symbol)
    return any(str(key[2]) in tensors_in(function) for function in machine.calls)
