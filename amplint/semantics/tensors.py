"""Tensors as values: their dtype as far as it is known, how it changes, and the numbers that went into them."""

from __future__ import annotations

import math

import libcst as cst

from amplint.semantics.arguments import Arguments
from amplint.semantics.machine import Machine
from amplint.semantics.state import State
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import Const, Device, Items, Method, Number, OneOf, Ref, Tensor, Unknown, Value
from amplint.torchlib.names import DTYPES
from amplint.torchlib.policy import INTEGRAL

FROM_PARAMETER = "parameter"
"""The dtype of a tensor whose dtype a parameter of the function decides."""
CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64", "long": "int64",
         "int": "int32", "bool": "bool", "byte": "uint8"}  # fmt: skip
_LEGACY = {"HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "FloatTensor": "float32", "DoubleTensor": "float64",
           "LongTensor": "int64", "IntTensor": "int32", "BoolTensor": "bool", "ByteTensor": "uint8"}  # fmt: skip
_FLOATS = ("float16", "float32", "float64")
_INFINITY = "<infinity>"
_NUMBERS = frozenset({"number", "Add", "Subtract", "Multiply", "Divide", "FloorDivide", "Power", "Minus"})


def tensor(machine: Machine, value: Value) -> Tensor:
    """`value` as a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "converted":
            return Tensor(value.symbol, str(key[1]), key[2])  # type: ignore[arg-type]
    return Tensor(symbol_of(machine, value))


def used_as_tensor(machine: Machine, value: Value) -> Value:
    """`value`, now known to be a tensor where it is something converted to a dtype, which else could be a module."""
    converted = isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "converted"
    return tensor(machine, value) if converted else value


def derived(machine: Machine, value: Tensor, name: str) -> Tensor:
    """A tensor made from `value` by something that keeps its dtype and its scale."""
    symbol = machine.symbols.intern(name, parts=(value.symbol,))
    return Tensor(
        symbol, value.dtype, value.why_half, value.scaled, value.plain, value.traits, value.made, value.infinity
    )  # fmt: skip


def comparison(machine: Machine, left: Value, right: Value) -> Tensor:
    """The boolean tensor that comparing gives; comparing two ranges of positions gives a causal mask."""
    traits = [value.traits for value in (left, right) if isinstance(value, Tensor)]
    causal = any("causal" in known for known in traits) or (
        len(traits) == 2 and all("positions" in known for known in traits)
    )
    symbol = machine.symbols.intern("compare", parts=(symbol_of(machine, left), symbol_of(machine, right)))
    return Tensor(symbol, "bool", traits=frozenset({"causal"} if causal else ()))


def cast(machine: Machine, node: cst.CSTNode, value: Value, dtype: str | None) -> Tensor:
    """`value` converted to `dtype`, None for one that is not known."""
    operand = tensor(machine, value)
    symbol = machine.symbols.intern("cast", dtype, parts=(operand.symbol,))
    machine.cast_from[symbol] = operand.dtype or ""
    return Tensor(
        symbol, dtype, node, operand.scaled, operand.plain, operand.traits, operand.made, operand.infinity
    )  # fmt: skip


def converts_to(machine: Machine, name: str, arguments: Arguments) -> tuple[bool, str | None]:
    """Whether `.name(...)` changes the dtype of what it is called on, and to which one, None where that is unknown."""
    if name in CASTS and not arguments.given:
        return True, CASTS[name]
    if name not in ("to", "type"):
        return False, None
    dtype = next((found for value in arguments.values if (found := dtype_of(machine, value)) is not None), None)
    return dtype is not None or name == "type" or not _only_moves(arguments), dtype


def converted(machine: Machine, node: cst.CSTNode, owner: Value, name: str, arguments: Arguments) -> Value | None:
    """What `.half()`, `.to(...)` or `.type(...)` makes of a tensor or of something unknown; None for other calls."""
    if name in CASTS and not arguments.given:
        dtype: str | None = CASTS[name]
    elif name in ("to", "type", "type_as"):
        dtype = next((found for value in arguments.values if (found := dtype_of(machine, value)) is not None), None)
    else:
        return None
    if isinstance(owner, Tensor):
        if dtype is None and (name == "type_as" or not _only_moves(arguments)):
            moved = cast(machine, node, owner, None)
            return Tensor(machine.fresh(), None, None, moved.scaled, moved.plain, moved.traits, infinity=moved.infinity)
        return cast(machine, node, owner, dtype) if dtype is not None else derived(machine, owner, "to")
    if dtype is None or not isinstance(owner, Unknown):
        return None
    return machine.unknown("converted", dtype, node, parts=(owner.symbol,))


def _only_moves(arguments: Arguments) -> bool:
    """Whether `.to(...)` is given nothing but devices, as far as their values and names tell."""
    return all(
        argument.keyword in ("device", "non_blocking", "copy", "memory_format")
        or isinstance(argument.value, (Device, Const))
        or (isinstance(argument.value, Method) and argument.value.name == "device")
        or any(word in str(_last_name(argument.node.value)).lower() for word in ("device", "gpu", "rank", "cuda"))
        for argument in arguments.given
    )


def _last_name(node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.Attribute):
        node = node.attr
    return node.value if isinstance(node, cst.Name) else None


def dtype_of(machine: Machine, value: Value | None) -> str | None:
    """The dtype an argument names; FROM_PARAMETER when a parameter that is plainly a dtype decides it."""
    if isinstance(value, Ref):
        return DTYPES.get(value.name) or _LEGACY.get(value.name.rpartition(".")[2])
    if isinstance(value, Tensor):
        return value.dtype
    if isinstance(value, Method) and value.name == "dtype" and isinstance(value.owner, Tensor):
        return value.owner.dtype
    if isinstance(value, OneOf):
        names = {DTYPES.get(option) for option in value.options}
        return FROM_PARAMETER if "float16" in names else None
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "parameter" and "dtype" in str(key[-1]):
            return FROM_PARAMETER
        if key[:2] == ("attribute", "dtype"):
            return tensor(machine, Unknown(int(key[2]))).dtype  # type: ignore[call-overload]
        if key[0] == "converted":
            return str(key[1])
    return None


def same_dtype(left: Value, right: Value) -> bool | None:
    """Whether two dtypes are equal, or the first is one of several; None where they are not known, or no dtypes."""
    known = _known_dtype(left)
    if isinstance(right, Items):
        options = {_known_dtype(option) for option in right.values}
        return known in options if known is not None and options and None not in options else None
    other = _known_dtype(right)
    return known == other if known is not None and other is not None else None


def _known_dtype(value: Value) -> str | None:
    if isinstance(value, Method) and value.name == "dtype" and isinstance(value.owner, Tensor):
        return value.owner.dtype if value.owner.dtype != FROM_PARAMETER else None
    return DTYPES.get(value.name) if isinstance(value, Ref) else None


def number(value: Value | None) -> float | None:
    """A Python number, not a bool."""
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return (
            value.value if abs(value.value) <= 1e308 or math.isinf(value.value) else math.copysign(1e308, value.value)
        )
    return None


def is_number(machine: Machine, value: Value, depth: int = 4) -> bool:
    """Whether `value` is a Python number, known or not: it cannot change a tensor's dtype."""
    if not isinstance(value, Unknown):
        return number(value) is not None
    key = machine.symbols.key(value.symbol)
    if key[0] == "call":
        return str(key[1]).startswith(("math.", "builtins.len", "builtins.int", "builtins.float"))
    if key[0] == "value":
        return isinstance(key[1], Const)
    if key[0] not in _NUMBERS or not depth:
        return False
    parts = [part for part in key[1:] if isinstance(part, int)]
    return key[0] == "number" or all(is_number(machine, Unknown(part), depth - 1) for part in parts)


def is_data(machine: Machine, symbol: int) -> bool:
    """Whether `symbol` stands for what a loop goes over, or for something computed from that without any model."""
    todo, found = [symbol], False
    while todo:
        current = todo.pop()
        key = machine.symbols.key(current)
        method = str(key[1]).removeprefix("of ") if key[0] == "call" else ""
        if key[0] == "item":
            found = True
        elif key[0] != "call":
            todo += machine.symbols.parts(current)
        elif method.isdigit() and machine.symbols.key(int(method))[0] == "attribute":
            todo += machine.symbols.parts(int(method))
        else:
            return False
    return found


def promoted(machine: Machine, kind: str, a: Value, b: Value) -> str | None:
    """The dtype of arithmetic on `a` and `b`; Python numbers do not widen a floating tensor."""
    kinds = {value.dtype if isinstance(value, Tensor) else None for value in (a, b) if not is_number(machine, value)}
    if kinds <= INTEGRAL:
        floating = kind == "Divide" or any(isinstance(number(value), float) for value in (a, b))
        return "float32" if floating else kinds.pop() if len(kinds) == 1 and not kinds & {"bool"} else "int64"
    floats = kinds - INTEGRAL
    if len(floats) == 1:
        return floats.pop()
    if floats == {"float16", "bfloat16"}:
        return "float32"
    known = [kind for kind in floats if kind in _FLOATS]
    widest = max(known, key=_FLOATS.index, default=None)
    return None if widest == "float16" else widest


def filled(state: State, value: Value) -> Number | None:
    """The infinity that was put into elements of `value`, if any."""
    if not isinstance(value, (Tensor, Unknown)):
        return None
    if isinstance(value, Tensor) and value.infinity is not None:
        return value.infinity
    stored = state.heap.get(value.symbol, {}).get(_INFINITY)
    return stored.infinity if isinstance(stored, Tensor) else None


def fill(state: State, value: Tensor, infinity: Number) -> None:
    """Remember that an operation in place put `infinity` into elements of `value`."""
    state.set_attribute(value.symbol, _INFINITY, Tensor(value.symbol, infinity=infinity))
