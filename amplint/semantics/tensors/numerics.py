"""Tensor operations: dtypes of results, and combinations of tensors with Python numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from amplint.semantics.events import COORDINATES, FLAGS, FREQUENCIES, INTEGERS, INVERTED, Operation, TensorOp
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Handler, Operands, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import position_names
from amplint.semantics.regions import tracker as contexts
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import (
    cancelling,
    factories,
    flow,
    numbers,
    provenance,
    ranks,
    rounded_positions,
    subregions,
    supposed,
    traits,
    uncast,
)
from amplint.semantics.tensors.exchanges import resize
from amplint.semantics.tensors.flow import Place, local_outcome, regime, with_dtype
from amplint.semantics.tensors.foreign_limits import limit_of_another
from amplint.semantics.tensors.gathered import computed, gathered
from amplint.semantics.tensors.indexing import taken
from amplint.semantics.tensors.kinship import tensors_in
from amplint.semantics.tensors.masks import has_no_empty_rows, inherited, mends
from amplint.semantics.tensors.operands import LIMITS, besides, runs
from amplint.semantics.tensors.owners import moves
from amplint.semantics.tensors.tensors import (
    FROM_PARAMETER,
    cast,
    converted,
    default_dtype,
    derived,
    dtype_of,
    fill,
    filled,
    follows,
    is_dtype_assumed,
    is_number,
    part,
    runs_layers,
    tensor,
    used_as_tensor,
)
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    TRUE,
    Const,
    Items,
    Method,
    Number,
    Ref,
    Tensor,
    Unknown,
    Value,
    number,
    number_operand,
)
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import fact_values, in_place, operations_with, parameters
from amplint.torchlib.half_support import RETURNED, lacks
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import WIDE_DTYPES
from amplint.torchlib.operations import KNOWN, UNKNOWN, Outcome, known
from amplint.torchlib.policy import (
    BANNED,
    BOOLEAN,
    FLOAT32,
    FOLLOWS_INPUT,
    INTEGER,
    LOWER,
    NOT_CAST_IN_PLACE,
    words,
)
from amplint.torchlib.promotion import FLOATING, INTEGRAL, SOME_DIMENSIONS, promote

ARITHMETIC = ("Add", "Subtract", "Multiply")
_PUT = {op: put[0] for op, put in parameters("number").items()}
FILLS = {form: put for op, put in _PUT.items() for form in (op, *in_place({op})) if form != "fill"}
"""Function or method -> the parameter whose number it writes into a tensor, and its position after the tensor."""
BY_MASK = ("masked_fill", "masked_fill_", "where", "index_fill", "index_fill_")
PLAIN = {operator: op for op, operator in fact_values("operator").items()}
"""Operator -> the operation that it runs on tensors."""
BINARY = {op: operator for operator, op in PLAIN.items() if operator in provenance.ARITHMETIC}
EPSILON_PLACES = {"normalize": 3, "cosine_similarity": 3, "pairwise_distance": 3, "logit": 1}
"""Operation with a parameter `eps` -> its position."""
_BOUNDS = {"maximum": "clamp_min", "max": "clamp_min", "fmax": "clamp_min", "minimum": "clamp_max", "min": "clamp_max"}
"""Operation that limits a tensor by another -> the one that limits it by a number."""
_JOINS = operations_with("joins")
_BITWISE = ("BitAnd", "BitOr", "BitXor")
"""Operators that floating-point numbers do not support."""
REPLACES_INFINITY = ("clamp", "nan_to_num", "relu", "sigmoid", "tanh", "tril", "triu")
_OTHER_KINDS = ("torch.masked.", "torch.sparse.", "torch.fft.", "torch.nested.", "torch.utils.", "torch.distributed.")
"""Prefixes of functions that share their name with an operation but run differently."""
NOT_TENSORS = operations_with("asks")
WITH_PLACES, WITH_PLACES_ALONG = operations_with("indices-too"), operations_with("indices-along")
"""Operations that return indices, too, always or where they get a dimension."""
AMBIGUOUS = words(
    "abs add add_ bool cat ceil chunk clip cos cpu cuda cumprod cumsum diag diagonal diff dist dropout expand "
    "flatten flip float floor gather half index_select int interpolate kthvalue linear log max mean median min "
    "narrow norm normalize outer pad pow prod repeat reshape roll round scatter select sign sin sort split square "
    "squeeze stack std sub sum swapaxes t tan transpose unfold var view where"
)
TENSOR_METHODS = FOLLOWS_INPUT.union(LOWER, NOT_CAST_IN_PLACE, FLOAT32, FILLS, LIMITS, CASTS, factories.NEW) - AMBIGUOUS
"""Methods that only tensors have; a call of one shows that its receiver is a tensor."""


def arithmetic(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: str,
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
    *,
    in_place: bool = False,
) -> Tensor | None:
    """The result of `left kind right`; None if neither operand is a tensor. In place, it updates the left one."""
    a, b = supposed.operand(machine, state, *left), supposed.operand(machine, state, *right)
    if machine.assumes:
        cancelling.computed(machine, state, node, kind, (left[0], a), (right[0], b))
    if machine.assumes and _is_squared_parameter(machine, kind, a, b):
        a, b = tensor(machine, a), tensor(machine, a) if kind == "Multiply" else b
    if kind in ARITHMETIC:
        numbers.report_number_operand(machine, state, node, kind, (left[0], a), (right[0], b))
        numbers.report_number_operand(machine, state, node, kind, (right[0], b), (left[0], a))
    if kind == "MatrixMultiply":
        subregions.computed(machine, state, node, "matmul", (left, right))
    if kind == "MatrixMultiply" and regime(machine, state) is not None and not _of_arrays(machine, a, b):
        a, b = tensor(machine, a), tensor(machine, b)
    operand = a if isinstance(a, Tensor) and (a.dtype or not isinstance(b, Tensor)) else b
    if not isinstance(operand, Tensor):
        return None
    op = PLAIN.get(kind, "")
    if op == "matmul":
        contexts.report_missed_region(machine, state, node)
    symbol = machine.symbols.intern(kind, parts=(symbol_of(machine, a), symbol_of(machine, b)))
    values = (a, b)
    receives = in_place and op != "matmul"
    in_place = receives and isinstance(a, Tensor)
    found = flow.local_outcome(machine, state, op, values, in_place=in_place)
    if receives and not in_place and not is_number(machine, a):
        found = UNKNOWN
    if kind in _BITWISE and found.dtypes is None:
        found = Outcome(frozenset({"bool", "int64"}))
    divides = kind == "Divide" and is_number(machine, a)
    if divides:
        found = flow.local_outcome(machine, state, "reciprocal", [b])
    made = flow.with_dtype(machine, node, Tensor(symbol, rank=ranks.elementwise(op, values)), found, values)
    made = replace(made, traits=traits.of(machine, op, values, made.dtype))
    flow.emit_operation(
        machine, state, node, op, ((left[0], a), (right[0], b)), made, in_place=in_place, raises=found.refusal
    )
    if op in ("matmul", "pow"):
        return replace(made, made=node)
    infinity = filled(state, a) or filled(state, b)
    if kind == "Subtract" and (first := filled(state, a)) is not None and filled(state, b) is not None:
        numbers.emit_out_of_range(machine, state, node, kind, replace(operand, infinity=first), first)
    if divides:
        numerator = number_operand(a, left[0], right[0])
        if operand.floor is not None and numerator is not None and made.dtype in ("float16", FROM_PARAMETER):
            numbers.emit_out_of_range(machine, state, node, kind, operand, numerator)
    scaled = next((v for v in (a, b) if isinstance(v, Tensor) and v.scaled), Tensor(symbol))
    floor = _combine_number(machine, state, node, kind, ((left[0], a), (right[0], b)), made)
    return replace(
        made, scaled=scaled.scaled, plain=scaled.plain, traits=inherited(kind, a, b) | made.traits,
        made=scaled.made,
        infinity=infinity, floor=floor,
    )  # fmt: skip


def _combine_number(
    machine: Machine, state: State, node: cst.CSTNode, kind: str, sides: tuple[Place, Place], made: Tensor
) -> Number | None:
    """The number that keeps a sum from 0. For a product of a number and a mask, record the number as an element."""
    if kind == "Multiply" and machine.assumes:
        rounded_positions.report_product(machine, state, node, sides)
    if kind == "Add":
        return numbers.floor_of(machine, *sides) or numbers.floor_of(machine, *sides[::-1])
    if kind == "Multiply" and (spread := _masked_number(machine, sides)) is not None:
        numbers.record_elements(machine, made, spread, everywhere=abs(spread.value) < 1)
    return None


def _masked_number(machine: Machine, sides: tuple[Place, Place]) -> Number | None:
    """The number that is multiplied by a mask of zeros and ones."""
    for side, other in (sides, sides[::-1]):
        met = number_operand(side[1], side[0], other[0])
        if met is not None and isinstance(other[1], (Tensor, Unknown)) and _is_mask(machine, other[1]):
            return met
    return None


def _is_mask(machine: Machine, value: Tensor | Unknown) -> bool:
    """Whether the elements are zeros and ones: a boolean mask, its cast or inverse, or `1 - x`."""
    if isinstance(value, Tensor) and (value.dtype == "bool" or not value.traits.isdisjoint((FLAGS, INVERTED))):
        return True
    key, parts = machine.symbols.key(value.symbol), machine.symbols.parts(value.symbol)
    return key[0] == "Subtract" and machine.symbols.key(parts[0])[1:2] in ((Const(1),), (Const(1.0),))


def _of_arrays(machine: Machine, *operands: Value) -> bool:
    """Whether NumPy computes this, which no region casts."""
    return any(isinstance(value, Unknown) and provenance.is_array(machine, value.symbol) for value in operands)


def _is_squared_parameter(machine: Machine, kind: str, a: Value, b: Value) -> bool:
    """Whether a parameter of the function is squared, as tensors are, rather than sizes.

    The same holds for elements of a parameter that is a tensor by its use or annotation.
    """
    if not isinstance(a, Unknown) or not _is_given(machine, a):
        return False
    return (kind == "Multiply" and a == b) or (kind == "Power" and number(b) == 2)


def _is_given(machine: Machine, value: Unknown) -> bool:
    """Whether this is a parameter, or an element of one that is a tensor."""
    key, parts = machine.symbols.key(value.symbol), machine.symbols.parts(value.symbol)
    if key[0] == "index":
        return _is_given_tensor(machine, Unknown(parts[0]))
    return key[0] == "parameter"


def _is_squared(machine: Machine, owner: Value, arguments: Arguments) -> bool:
    """Whether `owner.pow(2)` squares a tensor other than a difference, which is small where it matters."""
    plain = isinstance(owner, Unknown) and machine.symbols.key(owner.symbol)[0] not in provenance.ARITHMETIC
    return plain and number(arguments.value("exponent", 0)) == 2


def result(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    op: str,
    operands: Sequence[Value],
    found: Outcome,
    others: tuple[tuple[str | None, int], ...] = (),
) -> Tensor:
    """The result of `op` on `operands`; the first one decides everything but the dtype.

    `others` are the symbols of the other arguments: results are equal only where these are.
    """
    if op in LOWER:
        contexts.report_missed_region(machine, state, node)
    operand = tensor(machine, operands[0])
    joined = [symbol_of(machine, value) for value in operands[1:]] if op in _JOINS else []
    symbol = machine.symbols.intern(op, *([others] if others else ()), parts=(operand.symbol, *joined))
    source = operand if op in FOLLOWS_INPUT else Tensor(symbol)
    kept = frozenset({"sigmoid"}) if op == "sigmoid" else inherited(op, source)
    scale = operand if op == "sum" else source
    infinity = filled(state, source) if not op.startswith(REPLACES_INFINITY) else None
    made = Tensor(symbol, None, None, scale.scaled, scale.plain, kept, node, infinity)
    made = flow.with_dtype(machine, node, made, found, operands)
    return replace(made, traits=kept | traits.of(machine, op, operands, made.dtype))


def softmax(machine: Machine, state: State, node: cst.CSTNode, operand: Tensor) -> None:
    infinity = filled(state, operand)
    if infinity is not None and not mends(machine):
        numbers.emit_out_of_range(machine, state, node, "softmax", operand, infinity)


def method(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> Value | None:
    """The result of a method call on a tensor, or on an unknown receiver that must be one; None for anything else."""
    if not isinstance(node.func, cst.Attribute):
        return None
    op = name.rstrip("_")
    if op in FOLLOWS_INPUT or op in FLOAT32 or op in BINARY or lacks(name):
        owner = supposed.operand(machine, state, node.func.value, owner)
    if op == "pow" and machine.assumes and _is_squared(machine, owner, arguments):
        owner = tensor(machine, owner)
    for runs_on in machine.hooks.operation:
        runs_on(state, node, name, node.func.value, owner)
    if isinstance(owner, Tensor) and (returned := _returned(machine, name, owner)) is not None:
        return returned
    if isinstance(owner, Tensor) and name in NOT_TENSORS:
        read = machine.unknown("number", name, parts=(owner.symbol,))
        for number_read in machine.hooks.number_read:
            number_read(owner, read)
        return read
    lifted = name in FLOAT32 and regime(machine, state) is not None
    if not isinstance(owner, Tensor) and name not in TENSOR_METHODS and not lifted:
        return None
    operand = tensor(machine, owner)
    if name == "view" and (dtype := _reinterpreted_as(machine, arguments)) is not None:
        return replace(cast(machine, node, operand, dtype), traits=frozenset())
    if (name in CASTS and not arguments.given) or name in ("to", "type", "type_as"):
        made = converted(machine, node, operand, name, arguments)
        if isinstance(made, Tensor):
            made = replace(made, traits=made.traits | {FLAGS}) if operand.dtype == "bool" else made
            moves(machine, operand, arguments)
            place = (node.func.value, operand)
            alike = name == "type_as" or any(
                follows(machine, argument) or _is_given_tensor(machine, argument.value) for argument in arguments.given
            )
            in_layer = bool(machine.calls) and runs_layers(machine.calls[-1])
            placed = _is_like_frequencies(arguments) or (alike and in_layer)
            if machine.assumes and INTEGERS in operand.traits and placed:
                made = replace(made, traits=made.traits | {COORDINATES})
            numbers.report_cast(machine, state, node, operand, made)
            flow.emit_operation(machine, state, node, "to", [place], made, arguments, follows=alike)
        return made
    if name in ("cpu", "cuda"):
        return replace(derived(machine, operand, name, operand.rank), device=name)
    if name in factories.NEW or (name == "new" and isinstance(owner, Tensor)):
        return factories.make(machine, state, node, name, arguments, operand, node.func.value)
    return _operation(machine, state, node, name, operand, arguments, node.func.value)


def _is_given_tensor(machine: Machine, value: Value) -> bool:
    """Whether this is a parameter of the running function that is a tensor by its use or annotation."""
    key = machine.symbols.key(value.symbol) if isinstance(value, Unknown) else ()
    return key[:1] == ("parameter",) and any(str(key[-1]) in tensors_in(function) for function in machine.calls)


def _is_like_frequencies(arguments: Arguments) -> bool:
    """Whether a cast follows the dtype of frequencies, by which positions are multiplied."""
    given = (value.owner if isinstance(value, Method) else value for value in arguments.values)
    return any(isinstance(value, Tensor) and FREQUENCIES in value.traits for value in given)


def _reinterpreted_as(machine: Machine, arguments: Arguments) -> str | None:
    """The dtype that `view(dtype)` reads the same bytes in; None for a view of another shape."""
    given = arguments.value("dtype", 0)
    return None if isinstance(given, Tensor) else dtype_of(machine, given)


def _returned(machine: Machine, name: str, operand: Tensor) -> Value | None:
    """The result of an operation without kernels for half, which is not half; None for any other."""
    module, _, op = name.rpartition(".")
    if op not in RETURNED or module not in ("", "torch", "torch.linalg"):
        return None
    alike, count = RETURNED[op]
    dtype = operand.dtype if operand.dtype in WIDE_DTYPES else None
    made = [Tensor(machine.fresh(), dtype, among=None if dtype else WIDE_DTYPES) for _ in range(alike)]
    rest = [Unknown(machine.fresh()) for _ in range(count - alike)]
    return Items((*made, *rest)) if count > 1 else made[0]


def function(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value | None:
    """The result of `torch.<op>` or `torch.nn.functional.<op>` by its qualified name; None for an unknown operation."""
    op = name.rpartition(".")[2]
    if op in ("get_default_dtype", "promote_types"):
        return _named(machine, op, arguments)
    if op in factories.LEGACY:
        return factories.legacy(machine, state, node, name, arguments)
    if op in factories.PLAIN | factories.LIKE:
        like = arguments.given[0] if arguments.given and op in factories.LIKE else None
        operand = tensor(machine, like.value) if like is not None else None
        return factories.make(
            machine, state, node, op, arguments, operand, like.node.value if like is not None else None
        )
    if op == "where" and sum(argument.keyword != "out" for argument in arguments.given) == 3:
        return _where(machine, state, node, arguments)
    if op == "where":
        return Tensor(machine.fresh(), "int64", rank=2)  # a tuple of places, like that of nonzero
    given = [argument for argument in arguments.given if not isinstance(argument.value, Const)]
    if not given:
        return None
    for runs_on in machine.hooks.operation:
        runs_on(state, node, name, given[0].node.value, given[0].value)
    if op == "Variable":
        return given[0].value
    if (returned := _returned(machine, name, tensor(machine, given[0].value))) is not None:
        return returned
    if name.startswith(_OTHER_KINDS):
        return None
    if op not in KNOWN | BOOLEAN | INTEGER and op not in BANNED and op not in FILLS:
        return Tensor(machine.fresh()) if name.startswith("torch.nn.functional.") else None
    joined = _joined(machine, state, op, given[0], arguments)
    if joined is not None:
        first: Value = joined[0][1] if joined else Unknown(machine.fresh())
    elif op in _JOINS and isinstance(given[0].value, Tensor):
        first = part(machine, given[0].value, 0)
    else:
        first = given[0].value
    place = given[0].node.value
    return _operation(machine, state, node, op, tensor(machine, first), arguments, place, shift=1, joined=joined or ())


def _named(machine: Machine, op: str, arguments: Arguments) -> Value | None:
    """The dtype that a function of dtypes returns."""
    if op == "get_default_dtype":
        found = default_dtype(machine)
    elif any(is_dtype_assumed(value) for value in arguments.values):
        found = None
    else:
        both = [dtype_of(machine, value) for value in arguments.values]
        found = promote(*both) if len(both) == 2 and {*FLOATING, *INTEGRAL}.issuperset(both) else None  # type: ignore[arg-type]
    return Ref(f"torch.{found}") if found is not None else None


def _joined(machine: Machine, state: State, op: str, first: Argument, arguments: Arguments) -> list[Place] | None:
    """The tensors passed to an operation as a list, or one by one; None if it takes a single one."""
    if isinstance(first.value, Items):
        return _parts(machine, first.node.value, first.value)
    if op in _JOINS:
        like = gathered(machine, state, first.value) or computed(machine, state, first.value)
        if like is not None:
            return [(first.node.value, like)]
    given = [argument for argument in arguments.given if argument.keyword is None]
    if op != "meshgrid" or any(one.star for one in given):
        return None
    return [(one.node.value, tensor(machine, one.value)) for one in given]


def _parts(machine: Machine, node: cst.BaseExpression, joined: Items) -> list[Place]:
    """The tensors of a list passed to an operation, each with its expression."""
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple)) else ()
    places = [element.value for element in elements]
    if len(places) != len(joined.values):
        places = [node] * len(joined.values)
    return [(place, tensor(machine, value)) for place, value in zip(places, joined.values, strict=True)]


def _operation(
    machine: Machine,
    state: State,
    node: cst.Call,
    name: str,
    operand: Tensor,
    arguments: Arguments,
    beside: cst.BaseExpression,
    shift: int = 0,
    joined: Sequence[Place] = (),
) -> Value:
    in_place = name.endswith("_")
    op = name.rstrip("_")
    if op in BANNED:
        bce(machine, state, node, op, operand, arguments)
    slots = _number_parameters(name, op, shift)
    if arguments.get("dtype") is None:
        first = [] if shift else [(beside, operand)]
        subregions.computed(machine, state, node, name, [*first, *((a.node.value, a.value) for a in arguments.given)])
    uncast.computed(machine, state, node, name, (beside, operand), arguments)
    infinity = floor = written = None
    for keyword, position in slots:
        argument = arguments.get(keyword, position + shift)
        met = numbers.constant_operand(machine, argument.value, argument.node.value, beside) if argument else None
        if met is None and argument is not None and name in FILLS:
            met = limit_of_another(machine, state, argument.value, argument.node.value, operand, beside)
        if met is None or (op in _BOUNDS and argument is not None and isinstance(argument.value, Const)):
            continue  # a number passed to `max` is the dimension
        written = met
        guarded = operand
        if op == "normalize":
            norm = flow.local_outcome(machine, state, "norm", [operand])
            guarded = flow.with_dtype(machine, node, operand, norm, [operand])
        meeting = BINARY.get(op) or _BOUNDS.get(op) or (f"clamp_{keyword}" if op in LIMITS else op)
        numbers.report_out_of_range(machine, state, node, meeting, guarded, met)
        if name in BY_MASK and math.isinf(met.value) and not has_no_empty_rows(machine, operand, _masks(arguments)):
            infinity = met
        elif keyword == "min" or _BOUNDS.get(op) == "clamp_min" or (op == "add" and 0 < met.value < 1):
            floor = met
    if op in ("softmax", "log_softmax"):
        softmax(machine, state, node, operand)
    for computation in machine.hooks.computation:
        computation(state, node, op, beside, operand)
    others = [(argument.node.value, argument.value) for argument in besides(op, arguments, shift)]
    given = list(joined) or [(beside, operand), *others]
    operands = [(place, used_as_tensor(machine, value)) for place, value in given]
    values = [value for _, value in operands]
    plain = runs(op, arguments)
    found = flow.local_outcome(machine, state, plain, values, arguments, in_place=in_place)
    settings = tuple((a.keyword, symbol_of(machine, a.value)) for a in arguments.given[shift:])
    made = result(machine, state, node, plain, values, found, settings)
    if infinity is not None and in_place:
        fill(state, operand, infinity)
    if name in BY_MASK and written is not None:
        for filled_one in (made, operand) if in_place else (made,):
            numbers.record_elements(machine, filled_one, written)
    rank = ranks.of(plain, values, arguments, shift)
    resize(machine, state, arguments.value("out"), rank)
    made = replace(made, infinity=infinity or made.infinity, floor=floor, rank=rank)
    flow.emit_operation(
        machine, state, node, op, operands, made, arguments, in_place=in_place, raises=found.refusal
    )  # fmt: skip
    return _with_indices(machine, op, made, arguments, shift)


def _number_parameters(name: str, op: str, shift: int) -> Sequence[tuple[str, int]]:
    """The parameters other than the tensor whose numbers affect it, each with its position."""
    if name in FILLS:
        return (FILLS[name],)
    if op in EPSILON_PLACES:
        return (("eps", EPSILON_PLACES[op] - shift),)
    if op in _BOUNDS or BINARY.get(op) in ARITHMETIC:
        return (("other", 0),)
    return LIMITS.get(op, ())


def _with_indices(machine: Machine, op: str, found: Tensor, arguments: Arguments, shift: int) -> Value:
    """`found`, with the indices that an operation along a dimension returns beside it."""
    if op in ("var_mean", "std_mean"):
        return Items((found, replace(found, symbol=machine.fresh())))
    along = arguments.value("dim", shift)
    if op in WITH_PLACES or (op in WITH_PLACES_ALONG and isinstance(number(along), int)):
        return Items((found, Tensor(machine.fresh(), "int64", rank=found.rank)))
    return found


def _masks(arguments: Arguments) -> list[tuple[cst.CSTNode, Value]]:
    return [(argument.node, argument.value) for argument in arguments.given]


def bce(
    machine: Machine,
    state: State,
    node: cst.Call,
    op: str,
    operand: Tensor,
    arguments: Arguments,
    made: cst.CSTNode | None = None,
) -> None:
    """Emit `TensorOp` for binary cross-entropy, called as a function or as a module."""
    given = tuple((argument.node, argument.value) for argument in arguments.given)
    region, _ = innermost(machine, state)
    assumed = machine.assumes and region is None and not subregions.is_switched_off(state)
    machine.emit(state, TensorOp, node, op=op, tensor=operand, arguments=given, module=made, assumed=assumed)


def _where(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> Tensor:
    first, second = [argument for argument in arguments.given if argument.keyword != "out"][1:]
    infinity = written = None
    source = first.value if isinstance(first.value, Tensor) else second.value
    made_half = source.why_half if isinstance(source, Tensor) else None
    values = [used_as_tensor(machine, argument.value) for argument in (first, second)]
    found = flow.local_outcome(machine, state, "where", values, arguments)
    rank = ranks.elementwise("where", [arguments.values[0], *values])
    resize(machine, state, arguments.value("out"), rank)
    numbers_alone = all(is_number(machine, value) for value in values)
    if numbers_alone:
        found = Outcome(factories.dtypes_of_numbers(machine, values))
    operand = Tensor(machine.fresh(), known(found.dtypes), made_half, among=found.dtypes)
    for argument, other in ((first, second), (second, first)):
        place, beside = argument.node.value, other.node.value
        met = numbers.constant_operand(machine, argument.value, place, beside)
        met = met or limit_of_another(machine, state, argument.value, place, other.value, beside)
        if met is None or is_number(machine, other.value):
            continue
        written = met
        operand = tensor(machine, other.value)
        numbers.report_out_of_range(machine, state, node, "where", operand, met)
        if math.isinf(met.value) and not has_no_empty_rows(machine, operand, _masks(arguments)):
            infinity = met
    settings = tuple((None, symbol_of(machine, argument.value)) for argument in arguments.given)
    made = result(machine, state, node, "where", [operand], found, settings)
    places = [(argument.node.value, value) for argument, value in zip((first, second), values, strict=True)]
    flow.emit_operation(machine, state, node, "where", places, made, arguments, raises=found.refusal)
    if written is not None:
        numbers.record_elements(machine, made, written)
    if numbers_alone and made.dtype == "float32":
        made = replace(made, symbol=provenance.new_tensor_symbol(machine, node), why_half=None)
        rank = SOME_DIMENSIONS if rank is None and machine.assumes else rank
    return replace(made, infinity=infinity or made.infinity, rank=rank)


_BESIDE_DISTINCT = ("return_inverse", "return_counts")


def _distinct(machine: Machine, owner: Tensor, arguments: Arguments) -> Value:
    """The distinct elements of a tensor, with the places and counts that `unique` is asked for."""
    found = replace(derived(machine, owner, "unique"), symbol=machine.fresh())
    asked = [name for name in _BESIDE_DISTINCT if arguments.value(name) == TRUE]
    beside = [Tensor(machine.fresh(), "int64", rank=SOME_DIMENSIONS) for _ in asked]
    return Items((found, *beside)) if beside else found


def _reduced(machine: Machine, state: State, node: cst.Call, name: str, given: list[Value]) -> Tensor:
    """The result of `sum`, `max` or `min` over `given`, which has tensors."""
    tensors = [value for value in given if isinstance(value, Tensor)]
    combined = derived(machine, tensors[0], name)
    if name == "builtins.sum":
        return with_dtype(machine, node, combined, local_outcome(machine, state, "add", [Const(0), *given]), given)
    for value in given:
        combined = combined.joined(value if isinstance(value, Tensor) else Tensor(combined.symbol), combined.symbol)
    return combined


class Numerics(Tracker):
    """Tracks operations on tensors."""

    triggers = NOT_CAST_IN_PLACE | frozenset(
        {"binary_cross_entropy", "masked_fill", "masked_fill_", "full", "inf", "HalfTensor", "FloatTensor"}
    )

    def library(self) -> Mapping[str, Handler]:
        """Functions of Python and einops that accept tensors."""
        return {
            "builtins.abs": self._absolute,
            **dict.fromkeys(("torch.unique", "torch.unique_consecutive"), self._unique),
            **dict.fromkeys(("builtins.sum", "builtins.max", "builtins.min"), self._reduction),
            **dict.fromkeys(provenance.REARRANGED, self._rearranged),
        }

    def _absolute(self, state: State, call: Call) -> Value | None:
        values = call.arguments.values
        if len(values) != 1 or not isinstance(values[0], Tensor):
            return None
        return derived(self.machine, values[0], "builtins.abs", values[0].rank)

    def _rearranged(self, state: State, call: Call) -> Value | None:
        values = call.arguments.values
        return derived(self.machine, values[0], "reshape") if values and isinstance(values[0], Tensor) else None

    def _unique(self, state: State, call: Call) -> Value | None:
        values = call.arguments.values
        return _distinct(self.machine, tensor(self.machine, values[0]), call.arguments) if values else None

    def _reduction(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        values = call.arguments.values
        given = [item for value in values for item in (value.values if isinstance(value, Items) else (value,))]
        if not any(isinstance(value, Tensor) for value in given):
            return None
        return _reduced(self.machine, state, call.node, call.callee.name, given)

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names from which positions are computed."""
        return Words(position_names(chunks)) if Operation.kind in self.machine.wanted else Words()

    def handles_library_call(self, name: str) -> bool:
        """Whether this is a function of PyTorch."""
        return name.startswith("torch.")

    def library_call(self, state: State, call: Call) -> Value | None:
        """Call a function of PyTorch."""
        assert isinstance(call.callee, Ref)
        name = call.callee.name
        found = function(self.machine, state, call.node, name, call.arguments)
        return found if found is not None else unseen_result(self.machine, state, name, call.arguments)

    def method(self, state: State, call: Call) -> Value | None:
        """Call a method of a tensor."""
        assert call.owner is not None
        if call.name == "unique" and any(call.arguments.value(one) == TRUE for one in _BESIDE_DISTINCT):
            return _distinct(self.machine, tensor(self.machine, call.owner), call.arguments)
        return method(self.machine, state, call.node, call.owner, call.name, call.arguments)

    def binary(self, state: State, operands: Operands) -> Value | None:
        """Evaluate arithmetic on tensors; an addend that is a list is joined to another list."""
        if operands.kind == "Add" and (isinstance(operands.left[1], Items) or isinstance(operands.right[1], Items)):
            return None
        return arithmetic(
            self.machine, state, operands.node, operands.kind, operands.left, operands.right, in_place=operands.in_place
        )

    def binary_result(self, state: State, operands: Operands, result: Value) -> Value | None:
        """Record that a number times ones is that number everywhere."""
        if operands.kind == "Multiply" and isinstance(result, Tensor):
            for one, other in ((operands.left, operands.right), (operands.right, operands.left)):
                met = number_operand(one[1], one[0], other[0])
                if met is not None and isinstance(other[1], Tensor) and "ones" in other[1].traits:
                    numbers.record_elements(self.machine, result, met, everywhere=True)
        return None

    def subscript_value(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """Evaluate `tensor[...]`."""
        used = used_as_tensor(self.machine, owner)
        return taken(self.machine, state, node, used) if isinstance(used, Tensor) else None
