"""Tensor operations: which dtype a result has as far as that is known, and where Python numbers meet tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from amplint.semantics import contexts, readings, subregions, uncast
from amplint.semantics.arguments import Argument, Arguments
from amplint.semantics.containers import members
from amplint.semantics.events import TensorOp
from amplint.semantics.machine import Machine
from amplint.semantics.masks import inherited, mends, minds_dtypes, spares_rows
from amplint.semantics.state import State
from amplint.semantics.tensors import (
    CASTS,
    FROM_PARAMETER,
    converted,
    dtype_of,
    fill,
    filled,
    is_data,
    is_number,
    number,
    promoted,
    tensor,
    used_as_tensor,
)
from amplint.semantics.truth import symbol_of
from amplint.semantics.values import Const, Items, Module, Number, Ref, Tensor, Value
from amplint.torchlib.names import FLOAT16_MAX, FLOAT16_SMALLEST_NORMAL
from amplint.torchlib.policy import (
    BANNED,
    FLOAT32,
    FOLLOWS_INPUT,
    LOWER,
    MODULE_OPS,
    NOT_CAST_IN_PLACE,
    Regime,
    result_dtype,
    words,
)

FACTORIES = words("arange as_tensor empty eye full linspace logspace normal ones rand randint randn tensor zeros")
FACTORIES_LIKE = words("empty_like full_like ones_like rand_like randn_like zeros_like")
NEW = words("new_empty new_full new_ones new_tensor new_zeros")
ARITHMETIC = ("Add", "Subtract", "Multiply")
FILLS = {"masked_fill": ("value", 1), "masked_fill_": ("value", 1), "fill_": ("value", 0), "where": ("other", 1),
         "index_fill": ("value", 2), "index_fill_": ("value", 2), "scatter": ("value", 2), "scatter_": ("value", 2),
         "pad": ("value", 2)}  # fmt: skip
BY_MASK = ("masked_fill", "masked_fill_", "where", "index_fill", "index_fill_")
LIMITS = {"clamp": (("min", 0), ("max", 1)), "clip": (("min", 0), ("max", 1)), "clamp_min": (("min", 0),),
          "clamp_max": (("max", 0),)}  # fmt: skip
BINARY = {"add": "Add", "sub": "Subtract", "mul": "Multiply", "div": "Divide"}
REPLACES_INFINITY = ("clamp", "nan_to_num", "relu", "sigmoid", "tanh", "tril", "triu")
NOT_TENSORS = words("item tolist size dim numel nelement ndimension stride element_size data_ptr get_device numpy")
AMBIGUOUS = words(
    "abs add add_ bool cat ceil chunk clip cos cpu cuda cumprod cumsum diag diagonal diff dist dropout expand "
    "flatten flip float floor gather half index_select int interpolate kthvalue linear log max mean median min "
    "narrow norm normalize outer pad pow prod repeat reshape roll round scatter select sign sin sort split square "
    "squeeze stack std sub sum swapaxes t tan transpose unfold var view where"
)
TENSOR_METHODS = (
    FOLLOWS_INPUT.union(LOWER["cuda"], NOT_CAST_IN_PLACE, FLOAT32["cuda"], FILLS, LIMITS, CASTS, NEW) - AMBIGUOUS
)
"""Methods that only tensors have: calling one shows that its object is a tensor."""


def regime(machine: Machine, state: State) -> Regime | None:
    """The autocast that is or can be on."""
    region, _ = machine.region(state)
    return Regime(region.devices, region.dtypes) if region is not None else None


def can_be_half(machine: Machine, state: State) -> bool:
    """Whether a float16 region is or can be on."""
    region, _ = machine.region(state)
    return region is not None and region.dtypes is not None and "float16" in region.dtypes


def half_evidence(machine: Machine, state: State, value: Tensor) -> tuple[str, cst.CSTNode | None] | None:
    """Why `value` is or can be float16, and where that began; None where nothing says so."""
    if value.dtype == "float16":
        return "the tensor is float16 from here on", value.why_half
    if minds_dtypes(machine):
        return None
    if value.dtype == FROM_PARAMETER and _is_here(machine, value.why_half):
        return "the dtype chosen here can be float16", value.why_half
    if value.dtype is None and not is_data(machine, value.symbol):
        region, entered_by = machine.region(state)
        if region is not None and region.dtypes is not None and "float16" in region.dtypes:
            return "the float16 autocast region begins here", entered_by
    return None


def _is_here(machine: Machine, node: cst.CSTNode | None) -> bool:
    """Whether `node` stands in the running function."""
    return (
        node is not None
        and bool(machine.calls)
        and (source := machine.program.source_of(node)) is not None
        and machine.calls[-1] in source.ancestors(node)
    )


def _tell(machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, met: Number) -> None:
    evidence = half_evidence(machine, state, operand)
    if evidence is not None:
        machine.emit(state, TensorOp, node, op=op, tensor=operand, number=met, why=evidence[0], half=evidence[1])


def _meets(machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, met: Number) -> None:
    """A Python number meets a tensor. A large integer that meets something unknown can be a label."""
    size = abs(met.value)
    label = operand.dtype is None and isinstance(met.value, int) and met.value > 0
    if (size > FLOAT16_MAX or 0 < size < FLOAT16_SMALLEST_NORMAL) and not label:
        _tell(machine, state, node, op, operand, met)


def arithmetic(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
) -> Tensor | None:
    """`left kind right`, None where neither side is known to be a tensor."""
    a, b = used_as_tensor(machine, left[1]), used_as_tensor(machine, right[1])
    if kind in ARITHMETIC:
        _meets_number(machine, state, node, kind, (left[0], a), (right[0], b))
        _meets_number(machine, state, node, kind, (right[0], b), (left[0], a))
    if kind == "MatrixMultiply":
        subregions.computed(machine, state, node, "matmul", (left, right))
    if kind == "MatrixMultiply" and regime(machine, state) is not None:
        a, b = tensor(machine, a), tensor(machine, b)
    operand = a if isinstance(a, Tensor) and (a.dtype or not isinstance(b, Tensor)) else b
    if not isinstance(operand, Tensor):
        return None
    symbol = machine.symbols.intern(kind, parts=(symbol_of(machine, a), symbol_of(machine, b)))
    given = Tensor(symbol, promoted(machine, kind, a, b), operand.why_half)
    if kind == "MatrixMultiply":
        return _result(machine, state, node, "matmul", operand, symbol)
    if kind == "Power":
        return _result(machine, state, node, "pow", given, symbol)
    infinity = filled(state, a) or filled(state, b)
    if kind == "Subtract" and (first := filled(state, a)) is not None and filled(state, b) is not None:
        _tell(machine, state, node, kind, replace(operand, infinity=first), first)
    dtype = given.dtype
    if kind == "Divide" and is_number(machine, a):
        dtype = result_dtype("reciprocal", dtype, regime(machine, state))
        numerator = number(a)
        if operand.floor is not None and numerator is not None and dtype in ("float16", FROM_PARAMETER):
            _tell(machine, state, node, kind, operand, Number(numerator, left[0], right[0]))
    scaled = next((v for v in (a, b) if isinstance(v, Tensor) and v.scaled), Tensor(symbol))
    why = next((v.why_half for v in (a, b) if isinstance(v, Tensor) and v.why_half), None)
    floor = _floor(left, right) or _floor(right, left) if kind == "Add" else None
    return Tensor(
        symbol, dtype, why, scaled.scaled, scaled.plain, inherited(kind, a, b), scaled.made, infinity, floor
    )  # fmt: skip


def _meets_number(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    side: tuple[cst.BaseExpression, Value],
    other: tuple[cst.BaseExpression, Value],
) -> None:
    """Tell of a number on one side and a tensor on the other, or of an infinity times anything but ones."""
    constant, operand = number(side[1]), other[1]
    if constant is None or is_number(machine, operand):
        return
    if isinstance(operand, Tensor):
        certain = not (math.isinf(constant) and "ones" in operand.traits)
    else:
        certain = kind == "Multiply" and math.isinf(constant)
    if certain:
        _meets(machine, state, node, kind, tensor(machine, operand), Number(constant, side[0], other[0]))


def _floor(side: tuple[cst.BaseExpression, Value], other: tuple[cst.BaseExpression, Value]) -> Number | None:
    constant = number(side[1])
    return Number(constant, side[0], other[0]) if constant is not None and 0 < constant < 1 else None


def _result(
    machine: Machine, state: State, node: cst.CSTNode, op: str, operand: Tensor, symbol: int | None = None
) -> Tensor:
    if op in LOWER["cuda"]:
        contexts.missed(machine, state, node)
    dtype = result_dtype(op, operand.dtype, regime(machine, state))
    if symbol is None:
        symbol = machine.symbols.intern(op, parts=(operand.symbol,))
    why = operand.why_half if dtype == operand.dtype else node
    source = operand if op in FOLLOWS_INPUT else Tensor(symbol)
    traits = frozenset({"sigmoid"}) if op == "sigmoid" else inherited(op, source)
    scale = operand if op == "sum" else source
    infinity = filled(state, source) if not op.startswith(REPLACES_INFINITY) else None
    return Tensor(symbol, dtype, why if dtype else None, scale.scaled, scale.plain, traits, node, infinity)


def _softmax(machine: Machine, state: State, node: cst.CSTNode, operand: Tensor) -> None:
    infinity = filled(state, operand)
    if infinity is not None and not mends(machine):
        _tell(machine, state, node, "softmax", operand, infinity)


def method(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> Value | None:
    """A method call on a tensor, or on an unknown object that only a tensor can be; None for anything else."""
    if not isinstance(node.func, cst.Attribute):
        return None
    op = name.rstrip("_")
    if op in FOLLOWS_INPUT or op in FLOAT32["cuda"] or op in BINARY:
        owner = used_as_tensor(machine, owner)
    if isinstance(owner, Tensor) and name in NOT_TENSORS:
        return readings.converted(machine, owner, machine.unknown("number", name, parts=(owner.symbol,)))
    lifted = name in FLOAT32["cuda"] and regime(machine, state) is not None
    if not isinstance(owner, Tensor) and name not in TENSOR_METHODS and not lifted:
        return None
    if name in CASTS and not arguments.given:
        return converted(machine, node, tensor(machine, owner), name, arguments)
    operand = tensor(machine, owner)
    if name in ("to", "type", "type_as"):
        return converted(machine, node, operand, name, arguments)
    if name in NEW:
        return _factory(machine, state, node, name, arguments, operand, node.func.value)
    return _operation(machine, state, node, name, operand, arguments, node.func.value)


def function(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value | None:
    """A call of `torch.<op>` or `torch.nn.functional.<op>` by its qualified name; None for an unknown operation."""
    op = name.rpartition(".")[2]
    if op == "finfo" and arguments.given and (dtype := dtype_of(machine, arguments.values[0])) is not None:
        return Ref(f"torch.finfo.{dtype}")
    if op in FACTORIES | FACTORIES_LIKE:
        like = arguments.given[0] if arguments.given and op in FACTORIES_LIKE else None
        operand = tensor(machine, like.value) if like is not None else None
        return _factory(machine, state, node, op, arguments, operand, like.node.value if like is not None else None)
    if op == "where" and len(arguments.given) == 3:
        return _where(machine, state, node, arguments)
    given = [argument for argument in arguments.given if not isinstance(argument.value, Const)]
    if not given:
        return None
    if result_dtype(op, "float32", None) is None and op not in BANNED and op not in FILLS:
        return Tensor(machine.fresh()) if name.startswith("torch.nn.functional.") else None
    first = given[0].value
    if isinstance(first, Items):
        first = _joined(machine, first.values)
    return _operation(machine, state, node, op, tensor(machine, first), arguments, given[0].node.value, shift=1)


def _joined(machine: Machine, parts: Sequence[Value]) -> Tensor:
    """What concatenating or stacking `parts` makes."""
    whole = tensor(machine, parts[0]) if parts else Tensor(machine.fresh())
    for part in parts[1:]:
        whole = Tensor(machine.fresh(), promoted(machine, "cat", whole, tensor(machine, part)), whole.why_half)
    return whole


def _operation(
    machine: Machine,
    state: State,
    node: cst.Call,
    name: str,
    operand: Tensor,
    arguments: Arguments,
    beside: cst.BaseExpression,
    shift: int = 0,
) -> Tensor:
    in_place = name.endswith("_")
    op = name.rstrip("_")
    if op in BANNED:
        bce(machine, state, node, op, operand, arguments)
    slots: Sequence[tuple[str, int]] = LIMITS.get(op, ())
    if name in FILLS:
        slots = (FILLS[name],)
    elif op == "normalize":
        slots = (("eps", 3 - shift),)
    elif BINARY.get(op) in ARITHMETIC:
        slots = (("other", 0),)
    if arguments.get("dtype") is None:
        first = [] if shift else [(beside, operand)]
        subregions.computed(machine, state, node, name, [*first, *((a.node.value, a.value) for a in arguments.given)])
    uncast.computed(machine, state, node, name, (beside, operand), arguments)
    infinity = floor = None
    for keyword, position in slots:
        argument = arguments.get(keyword, position + shift)
        value = number(argument.value) if argument else None
        if argument is None or value is None:
            continue
        met = Number(value, argument.node.value, beside)
        guarded = _result(machine, state, node, "norm", operand) if op == "normalize" else operand
        _meets(machine, state, node, BINARY.get(op, f"clamp_{keyword}" if op in LIMITS else op), guarded, met)
        if name in BY_MASK and math.isinf(value) and not spares_rows(machine, operand, _masks(arguments)):
            infinity = met
        elif keyword == "min" or (op == "add" and 0 < value < 1):
            floor = met
    if op in ("softmax", "log_softmax"):
        _softmax(machine, state, node, operand)
    if op in BINARY and not in_place and (other := arguments.get("other", shift)) is not None:
        operand = Tensor(operand.symbol, promoted(machine, BINARY[op], operand, other.value), operand.why_half)
    result = _result(machine, state, node, "clamp" if op in LIMITS else name, operand)
    explicit = dtype_of(machine, arguments.value("dtype")) or dtype_of(machine, arguments.value("out"))
    if name in NOT_CAST_IN_PLACE:
        explicit = operand.dtype
    if infinity is not None and in_place:
        fill(state, operand, infinity)
    return replace(result, dtype=explicit or result.dtype, infinity=infinity or result.infinity, floor=floor)


def _masks(arguments: Arguments) -> list[tuple[cst.CSTNode, Value]]:
    return [(argument.node, argument.value) for argument in arguments.given]


def stored(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    target: cst.Subscript,
    source: cst.BaseExpression,
    value: Value,
) -> None:
    """`target = source`, an assignment to elements of what may be a tensor."""
    constant = number(value)
    if constant is None or abs(constant) <= FLOAT16_MAX:
        return
    owner = used_as_tensor(machine, machine.evaluate(state, target.value))
    if not isinstance(owner, Tensor):
        return
    met = Number(constant, source, target.value)
    _meets(machine, state, node, "index_put", owner, met)
    index = target.slice[0].slice
    if math.isinf(constant) and len(target.slice) == 1 and isinstance(index, cst.Index):
        mask = machine.evaluate(state, index.value)
        certain = isinstance(index.value, cst.Comparison) or (isinstance(mask, Tensor) and mask.dtype == "bool")
        if certain and not spares_rows(machine, owner, [(index, mask)]):
            fill(state, owner, met)


def bce(
    machine: Machine,
    state: State,
    node: cst.Call,
    op: str,
    operand: Tensor,
    arguments: Arguments,
    made: cst.CSTNode | None = None,
) -> None:
    """Binary cross-entropy runs, as a function or as a module's call."""
    given = tuple((argument.node, argument.value) for argument in arguments.given)
    machine.emit(state, TensorOp, node, op=op, tensor=operand, arguments=given, module=made)


def _factory(
    machine: Machine,
    state: State,
    node: cst.Call,
    op: str,
    arguments: Arguments,
    like: Tensor | None,
    beside: cst.BaseExpression | None,
) -> Tensor:
    """A new tensor. Without a dtype and a model it is never half, which is what "float32" stands for here."""
    wanted = arguments.get("dtype")
    dtype = dtype_of(machine, wanted.value) if wanted is not None else like.dtype if like is not None else "float32"
    content = arguments.get("fill_value", 1) if "full" in op else arguments.get("data", 0) if "tensor" in op else None
    constant = number(content.value) if content is not None else None
    if wanted is None and like is None and (op == "randint" or isinstance(constant, int)):
        dtype = "int64"
    traits = {"positions"} if op == "arange" else {"ones"} if "ones" in op or constant else set()
    made = Tensor(machine.fresh(), dtype, node if dtype not in (None, "float32") else None, traits=frozenset(traits))
    if content is not None and constant is not None and (dtype is not None or like is not None or _follows(wanted)):
        _meets(machine, state, node, "full", made, Number(constant, content.node.value, beside))
    return made


def _follows(dtype: Argument | None) -> bool:
    """Whether a dtype argument is that of another tensor."""
    return dtype is not None and isinstance(dtype.node.value, cst.Attribute) and dtype.node.value.attr.value == "dtype"


def _where(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> Tensor:
    first, second = arguments.given[1:]
    infinity = None
    source = first.value if isinstance(first.value, Tensor) else second.value
    made_half = source.why_half if isinstance(source, Tensor) else None
    operand = Tensor(machine.fresh(), promoted(machine, "where", first.value, second.value), made_half)
    for argument, other in ((first, second), (second, first)):
        value = number(argument.value)
        if value is None or is_number(machine, other.value):
            continue
        operand = tensor(machine, other.value)
        met = Number(value, argument.node.value, other.node.value)
        _meets(machine, state, node, "where", operand, met)
        if math.isinf(value) and not spares_rows(machine, operand, _masks(arguments)):
            infinity = met
    result = _result(machine, state, node, "where", operand)
    return replace(result, infinity=infinity or result.infinity)


def module(machine: Machine, state: State, node: cst.Call, called: Module, arguments: Arguments) -> Tensor:
    """The call of a `torch.nn` object."""
    if not arguments.given:
        return Tensor(machine.fresh())
    operand = tensor(machine, arguments.values[0])
    name = called.cls.rpartition(".")[2]
    op = MODULE_OPS.get(name)
    if op is None:
        return Tensor(machine.fresh(), "float32" if name == "Embedding" and regime(machine, state) else None)
    subregions.computed(machine, state, node, op, [(a.node.value, a.value) for a in arguments.given])
    if op in BANNED:
        bce(machine, state, node, op, operand, arguments, called.made)
    if op in ("softmax", "log_softmax"):
        _softmax(machine, state, node, operand)
    return _result(machine, state, node, op, operand)


def make_module(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """What calling a class of `torch.nn` makes; parameters are float32 unless the model is cast."""
    last = name.rpartition(".")[2]
    if last in ("Parameter", "Buffer"):
        content = arguments.values[0] if arguments.given else None
        return Tensor(machine.fresh(), content.dtype if isinstance(content, Tensor) else None)
    parts = members(state, arguments.values) if last in ("Sequential", "ModuleList") else ()
    return Module(machine.fresh(), name, node, parts)
