"""Provenance of tensors, seen through views: the call that created one, or the module that holds it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.origins import KEEPS_DTYPE
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.values.values import Method, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with, operations_with_form
from amplint.torchlib.names import DTYPES
from amplint.torchlib.policy import words

_MADE, _ASKED, _COUNTED = "made here", "made as asked", "counted here"
_LIKE, _KEPT, _PARAMETER, _CHOSEN = "made like another", "kept by a module", "parameter", "converted to a dtype"
ARITHMETIC = frozenset({"Add", "Subtract", "Multiply", "Divide"})
_NAMED_ARITHMETIC = words("add sub subtract mul multiply div divide true_divide")
_CONVERSIONS = frozenset({"cast", "converted"})
_GATHERS = operations_with("joins") | words("either meshgrid maximum minimum")
"""Operations on several tensors whose result is float32 where each of them is."""
_MIXES = ARITHMETIC | words("either where add sub mul div maximum minimum")
_KEEP_ARRAYS = ARITHMETIC | words("attribute index part Minus MatrixMultiply Power")
_NUMBERS_AS_TENSORS = operations_with("of-content") | {"full"}
"""Operations that can create a tensor without dimensions, which does not widen other operands."""
_EXTREMES = words("max min")
"""Operations of one tensor along a dimension, or of two tensors."""
_CURVES = words("exp expm1 log log1p log2 log10 reciprocal rsqrt square")
"""Functions of each element that autocast runs in float32."""
_OTHER_VIEWS = words("index part comprehension Minus masked_fill index_fill gather scatter")
REARRANGED = words("einops.rearrange einops.repeat")
"""Functions of other libraries that give the same numbers another shape."""
_VIEWS = KEEPS_DTYPE.union(
    operations_with("transfers"),
    operations_with("fills"),
    operations_with("view") & operations_with_form("a"),
    _OTHER_VIEWS,
)


def new_tensor_symbol(machine: Machine, node: cst.Call, *, asked: bool = False) -> int:
    """A symbol for a tensor that `node` creates in the default dtype, or in one that it is `asked` for."""
    return machine.symbols.fresh(_ASKED if asked else _MADE, node)


def new_integer_symbol(machine: Machine, node: cst.Call) -> int:
    """A symbol for an integer tensor that `node` creates."""
    return machine.symbols.fresh(_COUNTED, node)


def new_symbol_like(machine: Machine, node: cst.Call, like: int) -> int:
    """A symbol for a tensor that `node` creates with the dtype of `like`."""
    return machine.symbols.fresh(_LIKE, node, like)


def kept(machine: Machine, *, as_parameter: bool = False, frozen: bool = False) -> int:
    """A symbol for a parameter or buffer, one that is `as_parameter` where an `nn.Parameter` is constructed.

    A `frozen` parameter is constructed without `requires_grad`.
    """
    return machine.symbols.fresh(_KEPT, *((_PARAMETER, frozen) if as_parameter else ()))


def is_kept(machine: Machine, symbol: int) -> bool:
    """Whether this is a parameter or a buffer."""
    return machine.symbols.key(symbol)[2:3] == (_KEPT,)


def is_constructed_parameter(machine: Machine, symbol: int) -> bool:
    """Whether this is what a constructor of `nn.Parameter` returned, and no view or result of it."""
    return machine.symbols.key(symbol)[2:4] == (_KEPT, _PARAMETER)


def is_trainable_parameter(machine: Machine, symbol: int) -> bool:
    """Whether this is what a constructor of `nn.Parameter` returned, and needs gradients."""
    return machine.symbols.key(symbol)[2:] == (_KEPT, _PARAMETER, False)


def chosen_symbol(machine: Machine) -> int:
    """A symbol for a tensor that is converted to an unknown dtype."""
    return machine.symbols.fresh(_CHOSEN)


def is_chosen(machine: Machine, symbol: int) -> bool:
    """Whether a tensor was converted to an unknown dtype."""
    return machine.symbols.key(symbol)[2:3] == (_CHOSEN,)


def dtype_root(machine: Machine, symbol: int) -> int:
    """The symbol at the root of `symbol`, seen through views and operations that keep the dtype."""
    *_, last = views(machine, symbol)
    return last


def views(machine: Machine, symbol: int) -> Iterator[int]:
    """`symbol` and the symbols it was computed from by views and operations that keep the dtype, the root last."""
    yield symbol
    while (viewed := _viewed(machine, symbol)) is not None:
        symbol = viewed
        yield symbol


def _viewed(machine: Machine, symbol: int) -> int | None:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    name = str(key[0]).partition(" ")[0].removesuffix("_")
    if name == "attribute":
        name = str(key[1])
    elif (callee := machine.symbols.method(symbol)) is not None:
        others, (name, parts) = parts[1:], callee
        if name in _EXTREMES and others and all(_is_constant(machine, other) for other in others):
            return parts[0]
        if name == "to" and any(_is_dtype_of_another(machine, other) for other in others):
            return None
    elif name == "call" and key[1] in REARRANGED:
        return parts[0] if parts else None
    elif name in _EXTREMES and len(parts) == 1:
        given = key[1] if len(key) > 1 and isinstance(key[1], tuple) else ()
        return parts[0] if all(_is_constant(machine, other) for _, other in given) else None
    return parts[0] if parts and name in _VIEWS else None


def owner_of_dtype(machine: Machine, value: Value) -> int | None:
    """The symbol of `x` where `value` is `x.dtype`."""
    if isinstance(value, Method):
        return symbol_of(machine, value.owner) if value.name == "dtype" else None
    if not isinstance(value, Unknown) or machine.symbols.key(value.symbol)[:2] != ("attribute", "dtype"):
        return None
    return machine.symbols.parts(value.symbol)[0]


def _is_constant(machine: Machine, symbol: int) -> bool:
    return machine.symbols.key(symbol)[0] == "value"


def _is_dtype_of_another(machine: Machine, symbol: int) -> bool:
    """Whether this is `x.dtype`."""
    key = machine.symbols.key(symbol)
    value = key[1] if key[0] == "value" else Unknown(symbol)
    return isinstance(value, (Method, Unknown)) and owner_of_dtype(machine, value) is not None


def is_array(machine: Machine, symbol: int) -> bool:
    """Whether this is a result of `numpy()` or of a NumPy function, or computed from one by operators and methods."""
    todo, seen = [symbol], {symbol}
    while todo:
        current = todo.pop()
        key, parts = machine.symbols.key(current), machine.symbols.parts(current)
        if key[0] == "call" and str(key[1]).startswith("numpy."):
            return True
        if (method := machine.symbols.method(current)) is not None:
            name, parts = method
            if name == "numpy":
                return True
        elif key[0] not in _KEEP_ARRAYS:
            continue
        fresh = [part for part in parts if part not in seen]
        seen.update(fresh)
        todo += fresh
    return False


def conversion(machine: Machine, symbol: int) -> str | None:
    """The dtype of the last cast of a tensor, or of the tensor whose methods computed it; None without a cast."""
    cast = last_cast(machine, symbol)
    dtype = machine.symbols.key(cast)[1] if cast is not None else None
    return str(dtype) if dtype is not None else None


def last_cast(machine: Machine, symbol: int) -> int | None:
    """The symbol of the last cast of a tensor, or of the tensor whose methods computed it; None without a cast."""
    while machine.symbols.key(symbol)[0] not in _CONVERSIONS:
        callee = machine.symbols.method(symbol)
        parts = callee[1] if callee is not None else machine.symbols.parts(symbol)
        if not parts:
            return None
        symbol = parts[0]
    return symbol


def _given(key: tuple[Hashable, ...]) -> Iterator[int]:
    """The symbols of the operands beside the first one in the key of an operation with a name."""
    settings = key[1] if len(key) > 1 and isinstance(key[1], tuple) else ()
    return (one[1] for one in settings if isinstance(one, tuple) and one[:1] in ((None,), ("other",)))


def creating_call(
    machine: Machine, symbol: int, depth: int = 4, *, asked: bool = False, curves: bool = False
) -> cst.Call | None:
    """The call that created this tensor or an operand of it; with `asked`, also one that sets a dtype.

    With `curves`, also through functions that autocast runs in float32, which keep the dtype outside of its regions.
    """
    symbol = dtype_root(machine, symbol)
    key = machine.symbols.key(symbol)
    if (key[0] in ARITHMETIC or key[0] in _NAMED_ARITHMETIC) and depth:
        parts = (*machine.symbols.parts(symbol), *_given(key))
        if any(machine.symbols.key(dtype_root(machine, part))[0] in _CONVERSIONS for part in parts):
            return None
        found = (creating_call(machine, part, depth - 1, curves=curves) for part in parts)
        return next(filter(None, found), None)
    if key[0] in _GATHERS and depth:
        sides = [creating_call(machine, part, depth - 1, curves=curves) for part in machine.symbols.parts(symbol)]
        return sides[0] if sides and all(sides) else None
    if curves and key[0] in _CURVES and depth:
        return creating_call(machine, machine.symbols.parts(symbol)[0], depth - 1, curves=True)
    made = key[0] == "fresh" and len(key) > 3 and (key[2] == _MADE or (asked and key[2] == _ASKED))
    node = key[3] if made else None
    return node if isinstance(node, cst.Call) else None


_MAKES_FLOATING = words("Power Divide div true_divide exp")
"""Operations whose result is floating-point for integer operands."""


def uncast_source_call(machine: Machine, symbol: int, *, asked: bool = True) -> cst.Call | None:
    """A call that created this tensor, or an operand of it that was not cast since; with `asked`, also for a dtype.

    Integers that were cast to float32, or divided, count as created there.
    """
    todo: list[tuple[int, tuple[str, ...]]] = [(symbol, (_MADE, _ASKED) if asked else (_MADE,))]
    seen = set[int]()
    while todo:
        current, kinds = todo.pop()
        key = machine.symbols.key(current)
        if key[0] == "fresh" and len(key) > 3 and key[2] in kinds and isinstance(key[3], cst.Call):
            return key[3]
        seen.add(current)
        if key[0] in _CONVERSIONS:
            before = machine.symbols.parts(current)[0] if key[1] == "float32" and kinds else None
            made = creating_call(machine, before, asked=True) if before is not None else None
            if made is not None:
                return made
            kinds = (_COUNTED,) if key[1] == "float32" else ()
        elif key[0] in _MAKES_FLOATING or (key[0] in ARITHMETIC and _has_fraction(machine, current)):
            kinds = (*kinds, _COUNTED)
        todo += [(part, kinds) for part in machine.symbols.parts(current) if kinds and part not in seen]
    return None


def _has_fraction(machine: Machine, symbol: int) -> bool:
    """Whether an operand is a floating-point number, which makes integers floating."""
    keys = map(machine.symbols.key, machine.symbols.parts(symbol))
    return any(key[0] == "value" and isinstance(getattr(key[1], "value", None), float) for key in keys)


def asked_dtype(machine: Machine, symbol: int) -> str | None:
    """The dtype that the operation which computed a tensor was given as its `dtype`."""
    settings = next(iter(machine.symbols.key(symbol)[1:2]), None)
    for setting in settings if isinstance(settings, tuple) else ():
        if isinstance(setting, tuple) and setting[:1] == ("dtype",):
            kind, *value = machine.symbols.key(setting[1])
            return DTYPES.get(value[0].name) if kind == "value" and isinstance(value[0], Ref) else None
    return None


def was_asked_for(machine: Machine, symbol: int) -> str | None:
    """The dtype that the operation which computed a tensor, or what it was computed from, was given as its `dtype`.

    None where a tensor was cast since.
    """
    while machine.symbols.key(symbol)[0] not in _CONVERSIONS:
        if (dtype := asked_dtype(machine, symbol)) is not None:
            return dtype
        callee = machine.symbols.method(symbol)
        parts = callee[1] if callee is not None else machine.symbols.parts(symbol)
        if not parts:
            return None
        symbol = parts[0]
    return None


def can_be_wide(machine: Machine, symbol: int) -> bool:
    """Whether a tensor is float32 on some path, by a cast or by its creation, whatever it is combined with."""
    symbols = machine.symbols

    def operands(one: int) -> list[int]:
        key, parts = symbols.key(one), symbols.parts(one)
        mixed = parts[1:] if key[0] == "if" else parts if key[0] in _MIXES else ()
        return [dtype_root(machine, part) for part in mixed]

    def is_wide(one: int) -> bool:
        key, parts = symbols.key(one), symbols.parts(one)
        if key[0] in _CONVERSIONS:
            return key[1] == "float32"
        if key[0] == "fresh" and len(key) > 3 and key[2] in (_MADE, _ASKED):
            return isinstance(key[3], cst.Call) and last_name(key[3].func) not in _NUMBERS_AS_TENSORS
        return key[0] == "Power" and is_counted(machine, parts[1])

    return any(map(is_wide, symbols.closure(dtype_root(machine, symbol), operands)))


def is_counted(machine: Machine, symbol: int) -> bool:
    """Whether these are integers from `arange`: a number to the power of them is float32."""
    key = machine.symbols.key(dtype_root(machine, symbol))
    return key[0] == "fresh" and key[2:3] == (_COUNTED,)


def like(machine: Machine, symbol: int) -> int | None:
    """The symbol of the tensor whose dtype this one was created with; None for any other."""
    key = machine.symbols.key(dtype_root(machine, symbol))
    other = key[4] if key[0] == "fresh" and key[2:3] == (_LIKE,) else None
    return other if isinstance(other, int) else None


def is_parameter_or_buffer(machine: Machine, symbol: int) -> bool:
    """Whether this is a parameter or buffer of a module."""
    symbols = machine.symbols

    def operands(one: int) -> list[int]:
        return [dtype_root(machine, part) for part in symbols.parts(one)] if symbols.key(one)[0] == "either" else []

    reached = symbols.closure(dtype_root(machine, symbol), operands)
    keys = [symbols.key(one) for one in reached if not operands(one)]
    return all(key[0] == "fresh" and key[2:3] == (_KEPT,) for key in keys)
