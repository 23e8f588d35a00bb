"""Pairs of operands of which one is surely float32 and the other can be half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from amplint.semantics.events import Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.tensors.halves import (
    is_computed,
    is_layer_result,
    is_of_layer,
    is_unconverted,
    is_unknown,
    may_be_half,
)
from amplint.semantics.tensors.kinship import is_cast_like_elsewhere, is_named_cast, is_only_moved, used_as_tensors
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.owners import follows, is_of_owner
from amplint.semantics.tensors.provenance import (
    ARITHMETIC,
    asked_dtype,
    can_be_wide,
    conversion,
    creating_call,
    dtype_root,
    is_parameter_or_buffer,
    last_cast,
    like,
    uncast_source_call,
    was_asked_for,
)
from amplint.semantics.tensors.tensors import FROM_PARAMETER, Tensors
from amplint.semantics.tensors.widened import is_lifted_by_autocast, lifted_by_operand, lifted_on_a_path, widened_by
from amplint.semantics.values.values import Method, Module, Tensor, Unknown, Value
from amplint.semantics.words import WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.operations import ALIKE, ATTENTION, CLASSIFIES, ELEMENTWISE, FLOATING_ELEMENTWISE
from amplint.torchlib.policy import words

_ALL_ALIKE = operations_with("matrices") | operations_with("convolves")
_QUOTIENTS = words("Divide div true_divide")
_WRITES, _PRODUCTS, _JOINS = operations_with("writes"), operations_with("matrices"), operations_with("joins")
"""Operations that write into a tensor what has to have its dtype, that multiply matrices, and that join tensors."""
_COMPUTED = (ALIKE | {ATTENTION}) - _WRITES - _JOINS
"""Operations that compute from tensors of one dtype."""


def pair(machine: Machine, op: str, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """The operand that is surely float32, and the one that can be half without evidence; None without such a pair."""
    if branches_on_dtypes(machine) or op not in ALIKE | ELEMENTWISE | FLOATING_ELEMENTWISE | CLASSIFIES:
        return None
    if op in _WRITES and len(operands) == 2 and is_only_moved(*operands):
        both = all(operand.dtype is None and may_be_half(machine, operand, op) for operand in operands)
        return (operands[0], operands[1]) if both else None
    if op in _WRITES and len(operands) == 2:
        operands, met = _written(machine, *operands)
        if met is not None:
            return met
    if op in ALIKE or op in _JOINS:
        operands = [_with_float32_source(machine, operand, op) for operand in operands]
    if op == ATTENTION and len(operands) == 4 and _is_wide_mask(machine, operands[3]):
        if is_unconverted(machine, operands[0]):
            return operands[3], operands[0]
        operands = operands[:3]
    if op in _ALL_ALIKE and (met := _widened(machine, operands) or _cast_integers(machine, operands)) is not None:
        return met
    if (op in _PRODUCTS or op == ATTENTION) and (met := _lifted_beside(machine, op, operands[:3])) is not None:
        return met
    if op in _COMPUTED and (met := _computed_beside(machine, op, operands)) is not None:
        return met
    steady = next((operand for operand in operands if _is_steady(machine, op, operand)), None)
    if steady is None:
        return None
    judge = _judge(machine, steady)
    others = [one for one in operands if one is not steady and lifted_by_operand(machine, one.value) is None]
    other = next((one for one in others if judge(machine, one, op)), None)
    if other is None and steady.made is not None:
        made = steady.made
        other = next((one for one in others if is_of_owner(machine, made, one)), None)
        if other is None and op in ALIKE:
            other = next((one for one in others if one.dtype is None and is_kept(machine, one.value)), None)
    if other is None or (steady.made is not None and not _is_apart(machine, steady.made, other)):
        return None
    return steady, other


def _written(
    machine: Machine, target: Operand, source: Operand
) -> tuple[list[Operand], tuple[Operand, Operand] | None]:
    """The operands of a write, the target with its maker, and the pair where the source is float32 and it is not."""
    if target.made is None and isinstance(target.value, Tensor) and target.dtype == "float32":
        target = replace(target, made=creating_call(machine, target.value.symbol, asked=True))
    callers = target.dtype == FROM_PARAMETER and target.half is not None
    wide = _is_float32(machine, source) or widened_by(machine, source.value) is not None
    differ = ((callers or is_like_another(machine, target)) and wide) or is_lifted_beside(machine, source, target)
    differ = differ or _is_lifted_from(machine, source, target)
    return [target, source], (source, target) if differ else None


def _is_lifted_from(machine: Machine, source: Operand, target: Operand) -> bool:
    """Whether `source` was computed in float32 from a cast of a tensor, and `target` has the dtype of that tensor."""
    lifted, kept = source.value, target.value
    if not isinstance(lifted, Tensor) or lifted.dtype != "float32" or lifted.supposed:
        return False
    if not isinstance(kept, (Tensor, Unknown)) or (isinstance(kept, Tensor) and kept.dtypes is not None):
        return False
    symbols = machine.symbols
    other = like(machine, kept.symbol)
    root = dtype_root(machine, kept.symbol if other is None else other)
    for one in symbols.derivation(lifted.symbol):
        is_cast = symbols.key(one)[:2] in (("cast", "float32"), ("converted", "float32"))
        if is_cast or asked_dtype(machine, one) == "float32":
            method = symbols.method(one)
            parts = method[1] if method is not None else symbols.parts(one)
            if parts and dtype_root(machine, parts[0]) == root:
                return True
    return False


def is_lifted_beside(machine: Machine, source: Operand, target: Operand) -> bool:
    """Whether autocast computes `source` in float32, and `target` was made in the dtype of what it makes half."""
    other = like(machine, target.value.symbol) if isinstance(target.value, Tensor) and not target.value.dtypes else None
    if other is None and not (target.dtype == FROM_PARAMETER and target.half is not None):
        return False
    return (other is None or is_computed(machine, other)) and is_lifted_by_autocast(machine, source.value)


def _widened(machine: Machine, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """The operand widened to float32 by a cast of another tensor, and the parameters it is combined with."""
    weights = next((one for one in operands if one.dtype is None and is_kept(machine, one.value)), None)
    wide = next((one for one in operands if widened_by(machine, one.value) is not None), None)
    return (wide, weights) if weights is not None and wide is not None else None


def _lifted_beside(machine: Machine, op: str, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """An operand that is float32 by a cast on one of the paths, and one that was not cast on any."""
    wide = [one for one in operands if lifted_on_a_path(machine, one.value) is not None]
    others = [one for one in operands if one not in wide and is_unconverted(machine, one)]
    others = [one for one in others if not is_named_cast(machine, one.node)]
    other = next((one for one in others if may_be_half(machine, one, op)), None)
    return (wide[0], other) if wide and other is not None else None


def _computed_beside(machine: Machine, op: str, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """The operand that was computed from a cast to float32, and one that no cast went into, or weights of a module."""
    wide = next((one for one in operands if lifted_by_operand(machine, one.value) is not None), None)
    if wide is None:
        return None
    weights = next((one for one in operands if one.dtype is None and is_kept(machine, one.value)), None)
    if weights is not None:
        return wide, weights
    others = [one for one in operands if is_unconverted(machine, one) and may_be_half(machine, one, op)]
    other = next((one for one in others if one is not wide and not _comes_of_cast(machine, one.value)), None)
    return (wide, other) if other is not None else None


def _comes_of_cast(machine: Machine, value: Value) -> bool:
    """Whether a cast to float32 went into a value in any way."""
    if not isinstance(value, (Tensor, Unknown)):
        return False
    keys = (machine.symbols.key(one) for one in machine.symbols.derivation(value.symbol))
    return any(key[0] in ("cast", "converted") and key[1] == "float32" for key in keys)


def _cast_integers(machine: Machine, operands: Sequence[Operand]) -> tuple[Operand, Operand] | None:
    """A float32 operand cast from integers or booleans, and the weights that it meets, whose dtype a model
    determines.
    """
    weights = next((one for one in operands if one.dtype in (None, "float32") and is_kept(machine, one.value)), None)
    wide = next((one for one in operands if one is not weights and _is_of_whole_numbers(machine, one.value)), None)
    return (wide, weights) if weights is not None and wide is not None else None


def _is_of_whole_numbers(machine: Machine, value: Value) -> bool:
    """Whether a tensor is float32 by a cast of integers or booleans."""
    if not isinstance(value, Tensor) or not _is_converted(machine, value):
        return False
    cast = last_cast(machine, value.symbol)
    if cast is None:
        return False
    before = machine.symbols.key(dtype_root(machine, machine.symbols.parts(cast)[0]))
    named = before[0] == "parameter" and WHOLE_NUMBERS.search(str(before[2])) is not None
    return named or machine[Tensors].cast_from.get(cast) in ("bool", "int64")


def is_kept(machine: Machine, value: Value) -> bool:
    """Whether this is a parameter or buffer, or the `weight` or `bias` of a layer."""
    if isinstance(value, Method):
        return isinstance(value.owner, Module) and value.name in ("weight", "bias") and value.owner.dtype is None
    return isinstance(value, Tensor) and is_parameter_or_buffer(machine, value.symbol)


def _with_float32_source(machine: Machine, operand: Operand, op: str) -> Operand:
    """`operand` with its maker set to the call that made a float32 input of it, unless it was cast since."""
    value = operand.value
    if operand.made is None and _is_wide_choice(machine, value):
        return replace(operand, made=uncast_source_call(machine, value.symbol))  # type: ignore[union-attr]
    if operand.made is not None or not isinstance(value, Tensor) or value.dtype != "float32":
        return operand
    if _is_converted(machine, value):
        return operand
    return replace(operand, made=uncast_source_call(machine, value.symbol, asked=op not in _JOINS))


def _is_wide_choice(machine: Machine, value: Value) -> bool:
    """Whether a value may be float32 by one branch of a join, or as a Python number to the power of integers."""
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return False
    symbol = dtype_root(machine, value.symbol)
    kind = machine.symbols.key(symbol)[0]
    if kind == "Power" and _is_of_tensors(machine, machine.symbols.parts(symbol)[0]):
        return False
    return kind in ("either", "Power") and can_be_wide(machine, symbol)


def _is_of_tensors(machine: Machine, symbol: int) -> bool:
    """Whether a parameter that the running functions use as a tensor went into `symbol`."""
    keys = map(machine.symbols.key, machine.symbols.derivation(symbol))
    given = {str(key[2]) for key in keys if key[0] == "parameter"}
    return any(not given.isdisjoint(used_as_tensors(function)) for function in machine.calls)


def made_on_a_path(machine: Machine, value: Value) -> cst.Call | None:
    """The call that makes a tensor, or an operand of it, in float32 where nothing is given; None for any other."""
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return None
    symbols = machine.symbols

    def operands(one: int) -> list[int]:
        parts = symbols.parts(one) if symbols.key(one)[0] in ARITHMETIC else ()
        return [dtype_root(machine, part) for part in parts]

    for one in symbols.closure(dtype_root(machine, value.symbol), operands):
        if symbols.key(one)[0] == "either" and can_be_wide(machine, one):
            made = uncast_source_call(machine, one, asked=False)
            if made is not None and follows(machine, made) and not is_made_by_caller(machine, made):
                return made
    return None


def _judge(machine: Machine, steady: Operand) -> Callable[[Machine, Operand, str], bool]:
    """The predicate that says whether the other operand can be half beside this one."""
    if steady.made is not None or not isinstance(steady.value, Tensor):
        return may_be_half
    if is_like_another(machine, steady):
        return is_layer_result
    if is_asked_for_float32(machine, steady.value):
        return is_unconverted
    turned = conversion_of(steady)
    return is_unknown if turned is not None and is_cast_like_elsewhere(machine, turned) else may_be_half


def _is_steady(machine: Machine, op: str, operand: Operand) -> bool:
    value = operand.value
    if operand.made is not None and op in _ALL_ALIKE | _JOINS | _WRITES and _is_wide_choice(machine, value):
        return not is_made_by_caller(machine, operand.made) and (op in _ALL_ALIKE or follows(machine, operand.made))
    if not isinstance(value, Tensor) or value.rank == 0:
        return False
    if operand.made is not None:
        mixed = machine.symbols.key(dtype_root(machine, value.symbol))[0] in ARITHMETIC
        certain = value.dtype == "float32" and not (mixed and value.rank is None)
        certain = certain or (op in _ALL_ALIKE and value.among is not None and HALF_DTYPES.isdisjoint(value.among))
        return certain and (follows(machine, operand.made) or not is_made_by_caller(machine, operand.made))
    if op in _WRITES:
        return value.dtype not in HALF_DTYPES and (
            is_parameter_or_buffer(machine, value.symbol) or is_like_another(machine, operand)
        )
    return op not in _JOINS and (
        _is_converted(machine, value) or (op in _PRODUCTS and is_asked_for_float32(machine, value))
    )


def _is_wide_mask(machine: Machine, operand: Operand) -> bool:
    """Whether a mask is float32 on at least one path, whatever the dtype of the queries is."""
    value = operand.value
    if isinstance(value, Tensor) and (value.dtype not in ("float32", None) or value.rank == 0):
        return False
    return isinstance(value, (Tensor, Unknown)) and can_be_wide(machine, value.symbol)


def _is_float32(machine: Machine, operand: Operand) -> bool:
    """Whether a tensor is surely float32: made here, cast from booleans or integers, or a quotient."""
    value = operand.value
    if not isinstance(value, Tensor) or value.dtype != "float32":
        return False
    return (
        operand.made is not None
        or (machine.symbols.key(dtype_root(machine, value.symbol))[0] in _QUOTIENTS and not value.supposed)
        or is_cast_boolean(machine, value)
        or uncast_source_call(machine, value.symbol) is not None
    )


def is_asked_for_float32(machine: Machine, value: Tensor) -> bool:
    """Whether an operation was called with a float32 dtype for its result, as in `softmax(x, dtype=torch.float32)`.

    What dropout, masks, factors and shape operations make of such a result counts, too.
    """
    return value.dtype == "float32" and not value.supposed and was_asked_for(machine, value.symbol) == "float32"


def is_like_another(machine: Machine, operand: Operand) -> bool:
    """Whether a tensor has the dtype of another one that is unknown and that no layer computed."""
    value = operand.value
    other = like(machine, value.symbol) if isinstance(value, Tensor) and value.dtypes is None else None
    return other is not None and not any(is_of_layer(machine, one) for one in machine.symbols.derivation(other))


def _is_converted(machine: Machine, value: Tensor) -> bool:
    """Whether a tensor is float32 by an explicit cast."""
    return value.dtype == "float32" and not value.supposed and conversion(machine, value.symbol) == "float32"


def conversion_of(operand: Operand) -> cst.Call | None:
    """The call that cast an operand to float32; None if no cast did."""
    why = operand.value.why_half if isinstance(operand.value, Tensor) and operand.dtype == "float32" else None
    return why if isinstance(why, cst.Call) else None


def is_cast_boolean(machine: Machine, value: Tensor) -> bool:
    """Whether a tensor holds booleans cast to float32."""
    cast = last_cast(machine, value.symbol) if value.dtype == "float32" else None
    return cast is not None and machine[Tensors].cast_from.get(cast) == "bool"


def is_made_by_caller(machine: Machine, made: cst.Call) -> bool:
    """Whether a tensor was made by a caller of the running function, from which other operands then come, too."""
    source = machine.program.source_of(made)
    around = (
        [node for node in source.ancestors(made) if isinstance(node, cst.FunctionDef)] if source is not None else []
    )
    return bool(machine.calls) and (not around or not set(machine.calls[:-1]).isdisjoint(around))


def _is_apart(machine: Machine, made: cst.Call, other: Operand) -> bool:
    """Whether `made` runs here, or `other` is computed from a parameter of its function and not from its result."""
    if not is_made_by_caller(machine, made):
        return True
    value = other.value.owner if isinstance(other.value, Method) else other.value
    keys = [machine.symbols.key(one) for one in machine.symbols.derivation(value.symbol)]  # type: ignore[union-attr]
    return any(key[0] == "parameter" for key in keys) and not any(made in key for key in keys)
