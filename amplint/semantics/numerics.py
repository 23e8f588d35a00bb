"""Tensors: which dtype a result has as far as that is known, and where Python numbers meet them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import libcst as cst

from amplint.semantics.arguments import Argument, Arguments
from amplint.semantics.events import TensorOp
from amplint.semantics.machine import Machine
from amplint.semantics.state import State
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import Const, Items, Module, OneOf, Ref, Tensor, Unknown, Value
from amplint.torchlib.names import DTYPES
from amplint.torchlib.policy import FLOAT32_CUDA, FOLLOWS_INPUT, LOWER, MODULE_OPS, result_dtype

FACTORIES = frozenset("zeros ones full empty rand randn arange linspace eye tensor as_tensor full_like zeros_like".split())
FACTORIES_LIKE = frozenset("full_like zeros_like ones_like empty_like rand_like randn_like new_full new_zeros".split())
FILLS = {"masked_fill": ("value", 1), "masked_fill_": ("value", 1), "fill_": ("value", 0), "new_full": ("fill_value", 1)}
LIMITS = {"clamp": (("min", 0), ("max", 1)), "clamp_": (("min", 0), ("max", 1)), "clip": (("min", 0), ("max", 1)),
          "clamp_min": (("min", 0),), "clamp_min_": (("min", 0),), "clamp_max": (("max", 0),)}  # fmt: skip
BINARY = {"add": "Add", "add_": "Add", "sub": "Subtract", "sub_": "Subtract", "mul": "Multiply", "mul_": "Multiply",
          "div": "Divide", "div_": "Divide"}  # fmt: skip
CASTS = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64", "long": "int64",
         "int": "int32", "bool": "bool", "byte": "uint8"}  # fmt: skip
TENSOR_METHODS = frozenset({*FILLS, *LIMITS, *LOWER, *FLOAT32_CUDA, *FOLLOWS_INPUT, *CASTS, "to", "type", "type_as"}) - {
    "view", "split", "index_select", "gather", "linear", "pow", "where", "t", "sub", "add", "chunk", "max", "min", "to",
    "norm", "sum", "dist", "mean", "std", "var", "flip", "roll", "normalize", "log", "clip", "type", "int", "float",
    "bool", "add_", "repeat", "expand", "select", "dropout", "square", "abs", "round", "flatten", "stack", "cat", "tan",
}  # fmt: skip
"""Methods that only tensors have: calling one shows that its object is a tensor."""
FROM_PARAMETER = "parameter"
"""The dtype of a tensor whose dtype a parameter of the function decides."""


def tensor(machine: Machine, value: Value) -> Tensor:
    """`value` as a tensor."""
    return value if isinstance(value, Tensor) else Tensor(symbol_of(machine, value))


def derived(machine: Machine, value: Tensor, name: str) -> Tensor:
    """A tensor made from `value` by something that keeps its dtype and its scale."""
    symbol = machine.symbols.intern(name, parts=(value.symbol,))
    return Tensor(symbol, value.dtype, value.why_half, value.scaled, value.plain, value.traits, value.made)


def comparison(machine: Machine, left: Value, right: Value) -> Tensor:
    """The boolean tensor that comparing gives."""
    traits = frozenset().union(*(v.traits for v in (left, right) if isinstance(v, Tensor)))
    symbol = machine.symbols.intern("compare", parts=(symbol_of(machine, left), symbol_of(machine, right)))
    return Tensor(symbol, "bool", traits=traits & {"causal"})


def autocast_now(machine: Machine, state: State) -> tuple[str, str] | None:
    """Device type and dtype of the autocast region that is on, where both are known."""
    region, _ = machine.region(state)
    if region is None or region.devices is None or region.dtypes is None:
        return None
    if len(region.devices) == 1 and len(region.dtypes) == 1:
        return next(iter(region.devices)), next(iter(region.dtypes))
    return None


def half_evidence(machine: Machine, state: State, value: Tensor) -> tuple[str, cst.CSTNode | None] | None:
    """Why `value` is or can be float16, and where that began; None where nothing says so."""
    if value.dtype == "float16":
        return "it is float16", value.why_half
    if value.dtype == FROM_PARAMETER:
        return "its dtype is a parameter and can be float16", value.why_half
    if value.dtype is None:
        region, entered_by = machine.region(state)
        if region is not None and region.dtypes is not None and "float16" in region.dtypes:
            return "it runs in a float16 autocast region", entered_by
    return None


def _tell(
    machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, constant: Argument | None, value: float
) -> None:
    where = constant.node.value if constant is not None else node
    _tell_at(machine, state, node, op, operand, where, value)


def _tell_at(
    machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, where: cst.CSTNode, value: float
) -> None:
    evidence = half_evidence(machine, state, operand)
    if evidence is not None:
        machine.emit(
            state, TensorOp, node, op=op, tensor=operand, constant=value, constant_node=where, why=evidence[0],
            half=evidence[1],
        )  # fmt: skip


def number(value: Value | None) -> float | None:
    """A Python number, not a bool."""
    if isinstance(value, Const) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        return float(value.value) if abs(value.value) < 1e308 else math.copysign(math.inf, value.value)
    return None


def arithmetic(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
) -> Value:
    """`left kind right` where at least one side is a tensor."""
    a, b = left[1], right[1]
    operand = a if isinstance(a, Tensor) else b
    assert isinstance(operand, Tensor)
    for side, other in ((left, b), (right, a)):
        constant = number(side[1])
        if constant is not None and isinstance(other, Tensor):
            _tell_at(machine, state, node, kind, other, side[0], constant)
    symbol = machine.symbols.intern(kind, parts=(symbol_of(machine, a), symbol_of(machine, b)))
    scaled = next((v for v in (a, b) if isinstance(v, Tensor) and v.scaled), None)
    if kind == "MatrixMultiply":
        return _result(machine, state, node, "matmul", operand, symbol)
    if kind == "Power":
        return _result(machine, state, node, "pow", operand, symbol)
    dtype = _promoted(a, b)
    why = next((v.why_half for v in (a, b) if isinstance(v, Tensor) and v.why_half), None)
    traits = (a.traits if isinstance(a, Tensor) else frozenset()) & (b.traits if isinstance(b, Tensor) else frozenset())
    plain = (scaled.scaled, scaled.plain, scaled.made) if scaled else (None, None, None)
    return Tensor(symbol, dtype, why, plain[0], plain[1], traits, plain[2])


def _promoted(a: Value, b: Value) -> str | None:
    """The dtype of an operation that follows its inputs; Python numbers do not widen a floating tensor."""
    order = ("bool", "int64", "float16", "float32", "float64")
    kinds = [v.dtype if isinstance(v, Tensor) else None for v in (a, b) if number(v) is None]
    if None in kinds or any(kind not in order for kind in kinds):
        same = set(kinds)
        return same.pop() if len(same) == 1 else None
    widest = max((kind for kind in kinds if kind is not None), key=order.index, default=None)
    return None if widest in ("bool", "int64") else widest


def _result(
    machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, symbol: int | None = None
) -> Tensor:
    now = autocast_now(machine, state)
    dtype = result_dtype(op, operand.dtype, now)
    if symbol is None:
        symbol = machine.symbols.intern(op, parts=(operand.symbol,))
    why = operand.why_half if dtype == operand.dtype else node
    traits = operand.traits & {"causal"} if op in FOLLOWS_INPUT else frozenset()
    if op in ("sigmoid", "softmax", "tril", "triu"):
        traits |= {"causal"} if op.startswith("tri") else {op}
    carries_scale = op in FOLLOWS_INPUT or op == "sum"
    scaled = (operand.scaled, operand.plain) if carries_scale else (None, None)
    return Tensor(symbol, dtype, why if dtype else None, scaled[0], scaled[1], traits, node)


def cast(machine: Machine, node: cst.CSTNode, value: Value, dtype: str | None) -> Tensor:
    """`value` converted to `dtype`, None for one that is not known."""
    operand = tensor(machine, value)
    symbol = machine.symbols.intern("cast", dtype, parts=(operand.symbol,))
    return Tensor(symbol, dtype, node, operand.scaled, operand.plain, operand.traits, operand.made)


def dtype_of(machine: Machine, value: Value | None) -> str | None:
    """The dtype an argument names; FROM_PARAMETER when a parameter that is plainly a dtype decides it."""
    if isinstance(value, Ref):
        return DTYPES.get(value.name)
    if isinstance(value, OneOf):
        names = {DTYPES.get(option) for option in value.options}
        return FROM_PARAMETER if "float16" in names else None
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "parameter" and "dtype" in str(key[-1]):
            return FROM_PARAMETER
    return None


def method(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> Value | None:
    """A method call on a tensor, or on an unknown object that only a tensor can be; None for anything else."""
    if not isinstance(owner, Tensor) and name not in TENSOR_METHODS:
        return None
    if name in CASTS and not arguments.given:
        return cast(machine, node, owner, CASTS[name]) if isinstance(owner, Tensor) or name != "half" else None
    operand = tensor(machine, owner)
    if name in ("to", "type"):
        found = [dtype_of(machine, value) for value in arguments.values]
        dtypes = [dtype for dtype in found if dtype is not None]
        if dtypes:
            return cast(machine, node, operand, dtypes[0])
        moved = arguments.given and any(isinstance(v, (Tensor, Unknown)) for v in arguments.values)
        return Tensor(machine.fresh(), None, scaled=operand.scaled) if moved else derived(machine, operand, "to")
    return _operation(machine, state, node, name, operand, arguments, shift=0)


def function(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value | None:
    """A call of `torch.<op>` or `torch.nn.functional.<op>` by its qualified name; None for an unknown operation."""
    op = name.rpartition(".")[2]
    if op in FACTORIES | FACTORIES_LIKE:
        return _factory(machine, state, node, op, arguments)
    if op == "where" and len(arguments.given) == 3:
        return _where(machine, state, node, arguments)
    if not arguments.given:
        return None
    known = op in LOWER or op in FLOAT32_CUDA or op in FOLLOWS_INPUT or op in LIMITS or op in FILLS
    if not known and not op.startswith(("binary_cross_entropy", "cross_entropy")):
        return Tensor(machine.fresh()) if name.startswith("torch.nn.functional.") else None
    first = arguments.values[0]
    if isinstance(first, Items):
        parts = [part for part in first.values if isinstance(part, Tensor)]
        first = parts[0] if parts and all(part.dtype == parts[0].dtype for part in parts) else Unknown(machine.fresh())
    return _operation(machine, state, node, op, tensor(machine, first), arguments, shift=1)


def _operation(
    machine: Machine, state: State, node: cst.Call, op: str, operand: Tensor, arguments: Arguments, shift: int
) -> Tensor:
    if op.startswith("binary_cross_entropy"):
        bce(machine, state, node, op, operand, arguments)
    slots: Sequence[tuple[str, int]] = LIMITS.get(op, ())
    if op in FILLS:
        slots = (FILLS[op],)
    elif op == "normalize":
        slots = (("eps", 3 - shift),)
    elif op in BINARY:
        slots = (("other", 0),)
    masked = False
    for keyword, position in slots:
        argument = arguments.get(keyword, position + shift)
        value = number(argument.value) if argument else None
        if argument is not None and value is not None:
            _tell(machine, state, node, BINARY.get(op, op), operand, argument, value)
            masked = masked or (op in FILLS and math.isinf(value))
    if op in ("softmax", "log_softmax") and "masked" in operand.traits and operand.made is not None:
        evidence = half_evidence(machine, state, operand)
        if evidence is not None:
            machine.emit(
                state, TensorOp, node, op=op, tensor=operand, masked=operand.made, why=evidence[0], half=evidence[1]
            )
    result = _result(machine, state, node, "clamp" if op in LIMITS else op, operand)
    if masked and not _is_causal(arguments):
        where = arguments.get(*FILLS[op]) if shift == 0 else arguments.get(FILLS[op][0], FILLS[op][1] + shift)
        made = where.node.value if where else node
        return Tensor(result.symbol, result.dtype, result.why_half, traits=frozenset({"masked"}), made=made)
    if "masked" in operand.traits and op in FOLLOWS_INPUT:
        return Tensor(result.symbol, result.dtype, result.why_half, traits=frozenset({"masked"}), made=operand.made)
    return result


def _is_causal(arguments: Arguments) -> bool:
    return any(isinstance(value, Tensor) and "causal" in value.traits for value in arguments.values)


def bce(
    machine: Machine, state: State, node: cst.Call, op: str, operand: Tensor, arguments: Arguments, made: object = None
) -> None:
    """Binary cross-entropy runs, as a function or as a module's call."""
    given = tuple((argument.node, argument.value) for argument in arguments.given)
    machine.emit(state, TensorOp, node, op=op, tensor=operand, arguments=given, module=made)


def _factory(machine: Machine, state: State, node: cst.Call, op: str, arguments: Arguments) -> Tensor:
    dtype = dtype_of(machine, arguments.value("dtype"))
    like = arguments.values[0] if arguments.given and op in FACTORIES_LIKE else None
    if dtype is None and arguments.get("dtype") is None:
        dtype = like.dtype if isinstance(like, Tensor) else None if op in FACTORIES_LIKE else "float32"
        if op in ("arange", "tensor", "as_tensor", "full"):
            dtype = None
    made = Tensor(machine.fresh(), dtype, node if dtype not in (None, "float32") else None)
    fill = arguments.get("fill_value", 1) if op in ("full", "full_like", "new_full") else None
    value = number(fill.value) if fill else None
    if fill is not None and value is not None and (dtype is not None or isinstance(like, Tensor)):
        _tell(machine, state, node, "full", made, fill, value)
    return made


def _where(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> Tensor:
    branches = arguments.given[1:]
    operands = [argument.value for argument in branches if isinstance(argument.value, Tensor)]
    operand = operands[0] if operands else Tensor(machine.fresh())
    for argument in branches:
        value = number(argument.value)
        if value is not None and operands:
            _tell(machine, state, node, "where", operand, argument, value)
    return _result(machine, state, node, "where", operand)


def module(machine: Machine, state: State, node: cst.Call, called: Module, arguments: Arguments) -> Value:
    """The call of a `torch.nn` object."""
    op = MODULE_OPS.get(called.cls.rpartition(".")[2])
    if op is None or not arguments.given:
        return Tensor(machine.fresh())
    operand = tensor(machine, arguments.values[0])
    if op.startswith("binary_cross_entropy"):
        bce(machine, state, node, op, operand, arguments, called.made)
        return Tensor(machine.fresh())
    return _result(machine, state, node, op, operand)

