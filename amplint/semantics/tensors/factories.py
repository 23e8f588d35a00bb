"""Functions and methods that create tensors from sizes, numbers and other tensors."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import ONE, UNIFORM, ZEROS, Because
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.tensors import flow, numbers, provenance, ranks
from amplint.semantics.tensors.devices import device_type
from amplint.semantics.tensors.exchanges import resize
from amplint.semantics.tensors.owners import take
from amplint.semantics.tensors.tensors import (
    FROM_PARAMETER,
    Tensors,
    default_dtype,
    dtype_of,
    follows,
    is_dtype_assumed,
    is_number,
    is_size,
)
from amplint.semantics.tensors.traits import counted
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    TRUE,
    Const,
    Items,
    OneOf,
    Tensor,
    Value,
    number,
    number_operand,
)
from amplint.semantics.words import STATISTICS
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import DTYPES, HALF_DTYPES, LEGACY_TENSORS
from amplint.torchlib.promotion import SOME_DIMENSIONS, promote

PLAIN, LIKE, NEW = operations_with("creates"), operations_with("creates-like"), operations_with("creates-new")
LEGACY = frozenset({"Tensor", *LEGACY_TENSORS})
_SIZED, _CONTENT = operations_with("sized"), operations_with("of-content")
_DRAWS = frozenset({"rand", "rand_like", "randn", "randn_like"})
_HALF_ARRAY = frozenset({"float16", "half", "bfloat16"})
"""Names of half dtypes of arrays and lists of other libraries."""
NEVER_HALF = frozenset({"bool", "int64", "float32", "float64"})
"""The possible dtypes of a tensor created from numbers of unknown type."""


def make(
    machine: Machine,
    state: State,
    node: cst.Call,
    op: str,
    arguments: Arguments,
    like: Tensor | None,
    beside: cst.BaseExpression | None,
) -> Tensor:
    """Return the tensor that the factory `op` creates."""
    wanted = arguments.get("dtype")
    dtypes = _dtypes(machine, op, arguments, like)
    if dtypes == NEVER_HALF and op in _CONTENT and machine.assumes:
        dtypes = _of_statistics(machine, node, arguments)
    dtype = next(iter(dtypes)) if dtypes is not None and len(dtypes) == 1 else None
    content = arguments.get("fill_value", 1) if "full" in op else arguments.get("data", 0) if op in _CONTENT else None
    constant = number(content.value) if content is not None else None
    kinds = {"positions"} if op == "arange" else {"ones"} if "ones" in op or constant else set()
    if "zeros" in op:
        kinds.add(ZEROS)
    kinds |= {ONE} if "ones" in op or constant == 1 else counted(machine, op, arguments)
    drawn_in_half = dtype in HALF_DTYPES or (machine.assumes and dtypes is None)
    kinds |= {UNIFORM} if op in ("rand", "rand_like") and drawn_in_half else set()
    own = like is None or wanted is not None
    other = provenance.owner_of_dtype(machine, wanted.value) if wanted is not None and dtypes is None else None
    plain = own and (dtype == "float32" or (dtypes == NEVER_HALF and op in _CONTENT))
    rank = _rank(machine, op, arguments, like)
    if rank is None and machine.assumes and (op in _SIZED or op == "from_numpy"):
        rank = SOME_DIMENSIONS
    if plain and machine.assumes:
        take(machine, node, arguments.values)
    if plain:
        symbol = provenance.new_tensor_symbol(machine, node, asked=wanted is not None)
    elif like is not None and wanted is None:
        symbol = provenance.new_symbol_like(machine, node, like.symbol)
    elif other is not None:
        symbol = provenance.new_symbol_like(machine, node, other)
    else:
        symbol = (
            provenance.new_integer_symbol(machine, node) if op == "arange" and dtypes is not None else machine.fresh()
        )
    if op == "as_tensor" and content is not None and isinstance(content.value, Tensor):
        symbol = machine.symbols.intern(op, dtype, parts=(content.value.symbol,))
    made = Tensor(
        symbol, dtype, node if dtype not in (None, "float32") else None, traits=frozenset(kinds),
        among=dtypes if dtype is None else None, rank=rank, device=_device(op, arguments, like),
        supposed=is_dtype_assumed(wanted.value) if wanted is not None else like is not None and like.supposed,
    )  # fmt: skip
    if op in _DRAWS:
        machine[Tensors].drawn[symbol] = machine.calls[-1] if machine.calls else None
    if dtype in HALF_DTYPES:
        machine[Tensors].half_because[node] = Because.CAST
    if wanted is not None and isinstance(wanted.value, OneOf):
        machine[Tensors].half_options[node] = HALF_DTYPES & set(map(DTYPES.get, wanted.value.options))
    if arguments.value("requires_grad") == TRUE:
        machine[Tensors].leaves.add(symbol)
    resize(machine, state, arguments.value("out"), rank)
    taken = follows(machine, wanted)
    places = [(argument.node.value, argument.value) for argument in arguments.given]
    flow.emit_operation(machine, state, node, op, places, made, arguments, follows=dtypes is None and taken)
    met = number_operand(content.value, content.node.value, beside) if content is not None else None
    if met is not None:
        numbers.record_elements(machine, made, met, everywhere=True)
    if met is not None and (dtypes is not None or like is not None or taken):
        numbers.report_out_of_range(machine, state, node, "full", made, met)
    return made


def legacy(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Tensor:
    """Return the tensor that a legacy constructor such as `torch.cuda.FloatTensor(...)` creates."""
    op = name.rpartition(".")[2]
    dtype = LEGACY_TENSORS.get(op) or default_dtype(machine)
    sizes = [value for value in arguments.values if not isinstance(value, Items)]
    rank = ranks.sized(sizes) if sizes else _dimensions(machine, arguments.values[0]) if arguments.given else None
    if machine.assumes:
        take(machine, node, arguments.values)
    symbol = provenance.new_tensor_symbol(machine, node) if dtype == "float32" else machine.fresh()
    device = "cuda" if ".cuda." in name else "cpu"
    made = Tensor(symbol, dtype, node if dtype in HALF_DTYPES else None, rank=rank, device=device)
    if dtype in HALF_DTYPES:
        machine[Tensors].half_because[node] = Because.CAST
    places = [(argument.node.value, argument.value) for argument in arguments.given]
    flow.emit_operation(machine, state, node, "empty", places, made, arguments)
    return made


def _dtypes(machine: Machine, op: str, arguments: Arguments, like: Tensor | None) -> frozenset[str] | None:
    wanted = arguments.get("dtype")
    if wanted is not None and wanted.value != Const(None):
        dtype = dtype_of(machine, wanted.value)
        return frozenset({dtype}) if dtype is not None else None
    if like is None:
        return _inferred(machine, op, arguments)
    return like.dtypes


def _inferred(machine: Machine, op: str, arguments: Arguments) -> frozenset[str] | None:
    """The possible dtypes of a tensor created without a `dtype` argument and without a prototype."""
    if op in ("randint", "randperm"):
        return frozenset({"int64"})
    if op == "normal" and arguments.given and not is_number(machine, arguments.values[0]):
        return arguments.values[0].dtypes if isinstance(arguments.values[0], Tensor) else None
    if op == "arange":
        numbers = [argument.value for argument in arguments.given if argument.keyword in (None, "start", "end", "step")]
        return dtypes_of_numbers(machine, numbers)
    if op == "full":
        content = arguments.get("fill_value", 1)
        return dtypes_of_numbers(machine, [content.value]) if content is not None else NEVER_HALF
    if op in _CONTENT:
        content = arguments.get("data", 0)
        if content is not None and _HALF_ARRAY & _words(content.node.value):
            return None
        return dtypes_of_numbers(machine, [content.value]) if content is not None else NEVER_HALF
    default = default_dtype(machine)
    return frozenset({default}) if default is not None else None


def _of_statistics(machine: Machine, node: cst.Call, arguments: Arguments) -> frozenset[str]:
    """The possible dtypes of a tensor whose elements are of unknown type, float32 if they are statistics by name."""
    content = arguments.get("data", 0)
    name = last_name(content.node.value) or "" if content is not None else ""
    if not STATISTICS.search(name):
        return NEVER_HALF
    machine.record_guesses(node, STATISTICS.guesses(name))
    return frozenset({"float32"})


def _words(node: cst.CSTNode) -> set[str]:
    named = {inner.value for inner in every(node, cst.Name)}
    return named | {inner.raw_value for inner in every(node, cst.SimpleString)}


def dtypes_of_numbers(machine: Machine, values: Sequence[Value]) -> frozenset[str] | None:
    """The possible dtypes of the promotion of numbers, tensors and lists of them."""
    found = ""
    for value in values:
        kind = _kind(machine, value)
        if kind is None:
            return NEVER_HALF
        found = promote(found, kind) if found else kind
    return frozenset({found}) if found else NEVER_HALF


def _kind(machine: Machine, value: Value) -> str | None:
    if isinstance(value, Items) and value.keys is None and value.values:
        kinds = dtypes_of_numbers(machine, list(value.values))
        return next(iter(kinds)) if kinds is not None and len(kinds) == 1 else None
    if isinstance(value, Tensor):
        return value.dtype if value.dtype != FROM_PARAMETER and not value.supposed else None
    if isinstance(value, Const) and isinstance(value.value, bool):
        return "bool"
    if is_size(machine, value):
        return "int64"
    constant = number(value)
    if constant is None:
        return None
    return "int64" if isinstance(constant, int) else default_dtype(machine)


def _device(op: str, arguments: Arguments, like: Tensor | None) -> str | None:
    """The device type of a new tensor; None if no argument says it, since the default device can be any.

    An array of NumPy is on the CPU, and the tensor shares its memory.
    """
    if op == "from_numpy":
        return "cpu"
    wanted = arguments.get("device")
    if wanted is not None:
        return device_type(wanted.value)
    return like.device if like is not None else None


def _rank(machine: Machine, op: str, arguments: Arguments, like: Tensor | None) -> int | None:
    if op in LIKE and like is not None:
        return like.rank
    if op in ("arange", "linspace", "logspace", "randperm") or op.endswith("_window"):
        return 1
    if op == "eye":
        return 2
    given = [argument for argument in arguments.given if argument.keyword in (None, "size")]
    sizes = [argument.value for argument in given]
    if op in _SIZED and len(given) > 1 and not any(argument.star or argument.keyword for argument in given):
        return len(given)
    if op in _SIZED:
        return ranks.sized(sizes)
    if "full" in op or op == "randint":
        sizes = [value for value in sizes if isinstance(value, Items)]
        return ranks.sized(sizes)
    if op in _CONTENT and sizes:
        return _dimensions(machine, sizes[0])
    return None


def _dimensions(machine: Machine, content: Value) -> int | None:
    """The rank of a tensor of this content; a list has at least one dimension, whatever is in it."""
    depth = _depth(machine, content)
    return SOME_DIMENSIONS if depth is None and isinstance(content, Items) else depth


def _depth(machine: Machine, value: Value) -> int | None:
    if isinstance(value, Items):
        inner = _depth(machine, value.values[0]) if value.values else 0
        return inner + 1 if inner is not None else None
    if isinstance(value, Tensor):
        return value.rank
    return 0 if isinstance(value, Const) or is_number(machine, value) or is_size(machine, value) else None
