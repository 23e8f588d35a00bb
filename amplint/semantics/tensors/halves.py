"""Operands that can be half though nothing tells of it: what functions are given, and what layers compute."""

from __future__ import annotations

from functools import partial

from amplint.semantics.events import Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.half_results import HalfResults
from amplint.semantics.tensors.kinship import follows_dtype, tensors_in
from amplint.semantics.tensors.provenance import ARITHMETIC, behind, conversion, is_array
from amplint.semantics.tensors.tensors import runs_layers
from amplint.semantics.tensors.weights import Weights
from amplint.semantics.values.values import Tensor, Unknown, Value
from amplint.semantics.words import MASK, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import having
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import LOWER, words

_JOINS = having("joins")
_OF_TENSORS_ONLY = having("tensor-source")
"""Operations that write into a tensor what is never a number."""
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
    return op in _OF_TENSORS_ONLY or _is_tensor(machine, value.symbol)


def is_unconverted(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether nothing tells the dtype of what may be a tensor, and nothing has converted it."""
    value = operand.value
    if isinstance(value, Tensor) and (value.dtypes is not None or value.rank == 0):
        return False
    return isinstance(value, (Tensor, Unknown)) and conversion(machine, value.symbol) is None


def is_unknown(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether this is a tensor that nothing tells the dtype of."""
    return isinstance(operand.value, Tensor) and operand.value.dtypes is None and operand.value.rank != 0


def comes_of_layer(machine: Machine, operand: Operand, op: str = "") -> bool:
    """Whether a layer has computed this, which is half where autocast is on."""
    value = operand.value
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return False
    if isinstance(operand.node, cst.Call) and follows_dtype(operand.node):
        return False
    return is_of_layer(machine, behind(machine, value.symbol))


def is_of_layer(machine: Machine, symbol: int) -> bool:
    """Whether this is what a product or a layer of the running object comes to."""
    if machine.symbols.key(symbol)[0] in LOWER:
        return True
    called = machine.symbols.callee(symbol)
    return called is not None and _is_own(machine, called)


def _is_result(machine: Machine, symbol: int) -> bool:
    """Whether this is what a product or a layer comes to, no method of an object that is no layer for all we know."""
    called = machine.symbols.callee(symbol)
    if called is not None and machine.symbols.key(called)[0] == "attribute":
        return machine.symbols.key(machine.symbols.parts(called)[0])[0] != "call" and is_of_layer(machine, symbol)
    return is_of_layer(machine, symbol)


def _is_own(machine: Machine, symbol: int) -> bool:
    """Whether this is a part of the object whose method runs, or of a list of its layers."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if symbol in machine[Weights].symbols or (key[0] == "call" and str(key[1]).rpartition(".")[2][:1].isupper()):
        return True
    if key[0] in ("attribute", "index"):
        return _is_own(machine, parts[0]) or machine.symbols.key(parts[0])[0] == "self"
    return (key[0] in ("item", "part") or (key[0] == "call" and key[1] in _LOOPS)) and any(
        _is_own(machine, part) for part in parts
    )


def _is_mask(machine: Machine, value: Value) -> bool:
    """Whether this is a mask by its name: only where floating numbers are put beside it, it holds such, too."""
    key = machine.symbols.key(behind(machine, value.symbol)) if isinstance(value, (Tensor, Unknown)) else ()
    return key[:1] == ("parameter",) and MASK.search(str(key[2])) is not None


def is_computed(machine: Machine, symbol: int, depth: int = 6) -> bool:
    """Whether a tensor has the dtype of what a function is given, or comes out of a layer."""
    symbol = behind(machine, symbol)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "parameter":
        return not WHOLE_NUMBERS.search(str(key[2]))
    if key[0] == "MatrixMultiply" or _is_result(machine, symbol):
        return True
    if key[0] in ARITHMETIC and depth:
        return any(is_computed(machine, part, depth - 1) for part in parts)
    if symbol in machine[HalfResults].symbols:
        return True
    if key[0] == "part" and depth:
        return is_computed(machine, parts[0], depth - 1)
    if key[0] == "item" or (key[0] == "call" and key[1] in _LOOPS):
        inside = bool(machine.calls) and runs_layers(machine.calls[-1])
        return inside and any(is_computed(machine, part, depth - 1) for part in parts)
    callee = machine.symbols.method(symbol)
    return callee is not None and any(machine.symbols.key(part)[0] == "self" for part in callee[1])


def _counts(machine: Machine, symbol: int) -> bool:
    """Whether this is the number that `enumerate` gives beside each element."""
    if machine.symbols.key(symbol)[:2] != ("part", 0):
        return False
    (item,) = machine.symbols.parts(symbol)
    return any(machine.symbols.key(one)[:2] == ("call", "builtins.enumerate") for one in machine.symbols.parts(item))


def _is_tensor(machine: Machine, symbol: int) -> bool:
    """Whether something given to the running function is used as only tensors are."""
    symbol = behind(machine, symbol)
    key = machine.symbols.key(symbol)
    if key[0] == "part":
        return _is_tensor(machine, machine.symbols.parts(symbol)[0])
    if key[0] == "item":
        return True
    if key[0] == "MatrixMultiply":
        return not is_array(machine, symbol)
    if key[0] in ARITHMETIC:
        return any(map(partial(_is_tensor, machine), machine.symbols.parts(symbol)))
    if key[0] != "parameter":
        found = machine.symbols.method(symbol) is not None or symbol in machine[HalfResults].symbols
        return found or _is_result(machine, symbol)
    return any(str(key[2]) in tensors_in(function) for function in machine.calls)
