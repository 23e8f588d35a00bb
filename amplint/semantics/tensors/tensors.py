"""Tensors as values: their dtype as far as it is known, its changes, and the numbers written into them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.events import Because
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.devices import moved_to, stays
from amplint.semantics.tensors.kinship import annotated_as_tensors, numbers_in
from amplint.semantics.tensors.provenance import (
    can_be_wide,
    chosen_symbol,
    conversion,
    creating_call,
    dtype_root,
    owner_of_dtype,
)
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    NONE,
    Const,
    Device,
    Function,
    Items,
    Method,
    Number,
    OneOf,
    Ref,
    Tensor,
    Unknown,
    Value,
    number,
)
from amplint.semantics.words import DEVICE, DTYPE_GIVEN, INITIALIZES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with, operations_with_form
from amplint.torchlib.frameworks import NUMBERS
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import DTYPES, HALF_DTYPES, LEGACY_TENSORS
from amplint.torchlib.policy import LOWER, words
from amplint.torchlib.promotion import SOME_DIMENSIONS

FROM_PARAMETER = "parameter"
"""The dtype of a tensor whose dtype a parameter of the function decides."""
_SAME_OBJECT = frozenset(["cuda", "cpu", "train", "eval", "requires_grad_", "share_memory", "to", "xpu"])
_WIDENS = regex(r"\.float\(|\bfloat32\b|\bFloatTensor\b")
_VIEWS = operations_with("view") & operations_with_form("a") | {"values"}
_ASKED = frozenset(
    {"grad", "requires_grad", "is_leaf", "is_cpu", "is_cuda", "is_meta", "is_mps", "is_sparse", "is_xpu"}
)
"""Attributes of a tensor, not methods, whose values are unknown."""
_INFINITY = "<infinity>"
COMPARISONS = frozenset({"LessThan", "GreaterThan", "==", "same", "compare"})
_RUN = words("forward __call__")
_NUMBERS = frozenset({"number", "Add", "Subtract", "Multiply", "Divide", "FloorDivide", "Power", "Minus"})


def tensor(machine: Machine, value: Value) -> Tensor:
    """`value` as a tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "converted":
            return Tensor(value.symbol, key[1], key[2] if key[1] is not None else None)  # type: ignore[arg-type]
    return Tensor(symbol_of(machine, value))


def used_as_tensor(machine: Machine, value: Value) -> Value:
    """`value`, as a tensor where it was cast to a dtype, which else could be a module.

    If dtypes are assumed, so is a value that one branch of a join created as a tensor.
    """
    if not isinstance(value, Unknown):
        return value
    kind = machine.symbols.key(value.symbol)[0]
    known = kind == "converted" or (kind == "either" and machine.assumes and can_be_wide(machine, value.symbol))
    return tensor(machine, value) if known else value


def derived(machine: Machine, value: Tensor, name: str, rank: int | None = None) -> Tensor:
    """A tensor of this rank, derived from `value` with the same dtype and loss scale."""
    symbol = machine.symbols.intern(name, parts=(value.symbol,))
    return replace(value, symbol=symbol, floor=None, rank=rank)


def part(machine: Machine, value: Tensor, index: int) -> Tensor:
    """An element of an unpacked tensor; a tuple of tensors counts as their stack."""
    return derived(
        machine, value, f"part {index}", value.rank - 1 if value.rank is not None and value.rank > 0 else None
    )


def comparison(machine: Machine, left: Value, right: Value) -> Tensor:
    """The boolean tensor of a comparison; comparing two ranges of positions yields a causal mask."""
    traits = [value.traits for value in (left, right) if isinstance(value, Tensor)]
    causal = any("causal" in known for known in traits) or (
        len(traits) == 2 and all("positions" in known for known in traits)
    )
    symbol = machine.symbols.intern("compare", parts=(symbol_of(machine, left), symbol_of(machine, right)))
    ranks = [value.rank for value in (left, right) if isinstance(value, Tensor)]
    other = right if isinstance(left, Tensor) else left
    rank = ranks[0] if len(ranks) == 1 and is_number(machine, other) else None
    rank = SOME_DIMENSIONS if rank is None and any(one not in (None, 0) for one in ranks) else rank
    return Tensor(symbol, "bool", traits=frozenset({"causal"} if causal else ()), rank=rank)


def cast(machine: Machine, node: cst.CSTNode, value: Value, dtype: str | None) -> Tensor:
    """`value` cast to `dtype`, None for an unknown one."""
    operand = tensor(machine, value)
    symbol = machine.symbols.intern("cast", dtype, parts=(operand.symbol,))
    machine[Tensors].cast_from[symbol] = operand.dtype or ""
    machine[Tensors].cast_at[symbol] = node
    if dtype in HALF_DTYPES:
        machine[Tensors].half_because[node] = Because.CAST
    return replace(operand, symbol=symbol, dtype=dtype, why_half=node, floor=None, among=None, supposed=False)


def converts_to(machine: Machine, name: str, arguments: Arguments) -> tuple[bool, str | None]:
    """Whether `.name(...)` changes the dtype of its receiver, and the new dtype, None if that is unknown."""
    if name in CASTS and not arguments.given:
        return True, CASTS[name]
    if name not in ("to", "type"):
        return False, None
    dtype = next((found for value in arguments.values if (found := dtype_of(machine, value)) is not None), None)
    return dtype is not None or name == "type" or not _only_moves(arguments), dtype


def converted(machine: Machine, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> Value | None:
    """The result of `.half()`, `.to(...)` or `.type(...)` on a tensor or an unknown receiver; None for other calls."""
    if name in CASTS and not arguments.given:
        dtype: str | None = CASTS[name]
    elif name in ("to", "type", "type_as"):
        dtype = next((found for value in arguments.values if (found := dtype_of(machine, value)) is not None), None)
        like = arguments.value("other", 0)
        if name == "type_as" and isinstance(like, Tensor) and like.dtype != FROM_PARAMETER:
            dtype = like.dtype or _dtype_as_made(machine, like)
    else:
        return None
    if dtype is None and not _only_moves(arguments):
        owner = used_as_tensor(machine, owner)
    known = isinstance(owner, Tensor) and owner.dtypes is not None
    if isinstance(owner, (Tensor, Unknown)) and not known and _is_comparison(machine, owner.symbol):
        owner = replace(tensor(machine, owner), dtype="bool")
    if isinstance(owner, Tensor):
        device = owner.device if name != "to" or (dtype is not None and stays(arguments)) else moved_to(name, arguments)
        if dtype is None and (name == "type_as" or not _only_moves(arguments)):
            symbol = chosen_symbol(machine) if _is_chosen(machine, node, arguments) else machine.fresh()
            made = replace(cast(machine, node, owner, None), symbol=symbol, why_half=None, made=None)
            if conversion(machine, owner.symbol) == "float32":
                machine[Tensors].narrowed[made.symbol] = node
        else:
            same = derived(machine, owner, "to", owner.rank)
            made = cast(machine, node, owner, dtype) if dtype is not None else same
            if dtype is not None and any(is_dtype_assumed(value) for value in arguments.values):
                made = replace(made, supposed=True)
        return replace(made, device=device)
    if dtype is None or not isinstance(owner, Unknown):
        return None
    return machine.unknown("converted", dtype, node, parts=(owner.symbol,))


def _is_comparison(machine: Machine, symbol: int) -> bool:
    """Whether this is a comparison or its negation: a boolean tensor if methods of tensors are called on it."""
    symbol = dtype_root(machine, symbol)
    if machine.symbols.key(symbol)[0] == "not":
        (symbol,) = machine.symbols.parts(symbol)
    return machine.symbols.key(symbol)[0] in COMPARISONS


def _converts_tensor(machine: Machine, call: Call) -> bool:
    """Whether this converts a tensor to an unknown dtype: a parameter annotated as one, or training data."""
    owner = call.node.func.value if isinstance(call.node.func, cst.Attribute) else None
    running = machine.calls[-1] if machine.calls else None
    named = isinstance(owner, cst.Name) and running is not None and owner.value in annotated_as_tensors(running)
    if named and any(follows(machine, argument) for argument in call.arguments.given):
        return True
    return names_dtype(call.node) and isinstance(call.owner, Unknown) and is_data(machine, call.owner.symbol)


def _gives_dtype(machine: Machine, arguments: Arguments) -> bool:
    """Whether `.to(...)` is given a dtype by its keyword, or another tensor or its dtype."""
    if arguments.value("dtype") not in (None, NONE):
        return True
    return any(isinstance(value, Tensor) or owner_of_dtype(machine, value) is not None for value in arguments.values)


def _is_chosen(machine: Machine, call: cst.Call, arguments: Arguments) -> bool:
    """Whether the dtype that `.to(...)` is given is a setting or that of a model, and not that of another tensor."""
    return names_dtype(call) and not any(_is_of_tensor(machine, value) for value in arguments.values)


def _is_of_tensor(machine: Machine, value: Value) -> bool:
    """Whether `value` is a tensor or its dtype, which may be a parameter or computed here."""
    if not isinstance(value, Unknown):
        return isinstance(value, (Tensor, Method))
    if machine.symbols.key(value.symbol)[:2] != ("attribute", "dtype"):
        return False
    return machine.symbols.key(machine.symbols.parts(value.symbol)[0])[0] not in ("attribute", "self")


def names_dtype(call: cst.Call) -> bool:
    """Whether an argument of `.to(...)` is a dtype by its keyword or name."""
    return any(
        (argument.keyword is not None and argument.keyword.value == "dtype")
        or DTYPE_GIVEN.search(last_name(argument.value) or "")
        for argument in call.args
    )


def _only_moves(arguments: Arguments) -> bool:
    """Whether all arguments of `.to(...)` are devices, by their values or names."""
    return all(
        argument.keyword in ("device", "non_blocking", "copy", "memory_format")
        or isinstance(argument.value, (Device, Const))
        or (isinstance(argument.value, OneOf) and DTYPES.keys().isdisjoint(argument.value.options))
        or (isinstance(argument.value, Method) and argument.value.name == "device")
        or DEVICE.search(last_name(argument.node.value))
        for argument in arguments.given
    )


def dtype_of(machine: Machine, value: Value | None) -> str | None:
    """The dtype that an argument names; `FROM_PARAMETER` where a parameter that is plainly a dtype decides it."""
    if isinstance(value, Ref):
        return DTYPES.get(value.name) or LEGACY_TENSORS.get(value.name.rpartition(".")[2])
    if isinstance(value, Const) and isinstance(value.value, str):
        return LEGACY_TENSORS.get(value.value.rpartition(".")[2])
    if isinstance(value, Tensor):
        return value.dtype or _dtype_as_made(machine, value)
    if isinstance(value, Method) and value.name == "dtype" and isinstance(value.owner, Tensor):
        return value.owner.dtype or _dtype_as_made(machine, value.owner)
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
            return key[1]  # type: ignore[return-value]
    return None


def _dtype_as_made(machine: Machine, value: Tensor) -> str | None:
    """The dtype a buffer was created in, where nothing has cast it yet.

    That is while the method that registered it still runs, and in methods that initialize it, which constructors call.
    """
    dtype, function = machine[Tensors].registered.get(value.symbol, (None, None))
    if function is None or function in machine.calls:
        return dtype
    running = machine.calls[-1] if machine.calls else None
    initializes = isinstance(running, cst.FunctionDef) and INITIALIZES.search(running.name.value) is not None
    return dtype if initializes else None


def is_dtype(value: Value) -> bool:
    """Whether `value` is a dtype, or the `dtype` of a tensor."""
    if isinstance(value, Method):
        return value.name == "dtype" and isinstance(value.owner, Tensor)
    return isinstance(value, Ref) and value.name in DTYPES


def is_dtype_assumed(value: Value | None) -> bool:
    """Whether `value` is a tensor whose dtype is only assumed, or that dtype."""
    if isinstance(value, Method) and value.name == "dtype":
        value = value.owner
    return isinstance(value, Tensor) and value.supposed


def same_dtype(left: Value, right: Value) -> bool | None:
    """Whether two dtypes are equal, or the first is in a tuple of them; None if they are unknown or no dtypes."""
    known = _known_dtype(left)
    if isinstance(right, Items):
        options = {_known_dtype(option) for option in right.values}
        return known in options if known is not None and options and None not in options else None
    other = _known_dtype(right)
    return known == other if known is not None and other is not None else None


def _known_dtype(value: Value) -> str | None:
    if isinstance(value, Method) and value.name == "dtype" and isinstance(value.owner, Tensor):
        certain = value.owner.dtype != FROM_PARAMETER and not value.owner.supposed
        return value.owner.dtype if certain else None
    return DTYPES.get(value.name) if isinstance(value, Ref) else None


def follows(machine: Machine, dtype: Argument | None) -> bool:
    """Whether an argument is another tensor or its dtype, unless that one holds integers by its name."""
    if dtype is None:
        return False
    if isinstance(used_as_tensor(machine, dtype.value), Tensor) or _is_saved(machine, dtype.value):
        return True
    node = dtype.node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        return node.func.attr.value == "type"
    owner = node.value if isinstance(node, cst.Attribute) and node.attr.value == "dtype" else None
    if owner is not None and WHOLE_NUMBERS.search(last_name(owner) or ""):
        return False
    if isinstance(dtype.value, Unknown) and machine.symbols.key(dtype.value.symbol)[:2] == ("attribute", "dtype"):
        return True
    return owner is not None or (isinstance(dtype.value, Method) and dtype.value.name == "dtype")


def _is_saved(machine: Machine, value: Value) -> bool:
    """Whether this is a part of `ctx.saved_tensors`."""
    if not isinstance(value, Unknown) or machine.symbols.key(value.symbol)[0] not in ("part", "index"):
        return False
    held = machine.symbols.parts(value.symbol)[0]
    return machine.symbols.key(held)[:2] == ("attribute", "saved_tensors")


def is_number(machine: Machine, value: Value, depth: int = 4) -> bool:
    """Whether `value` is a Python number, known or not, which does not change a tensor's dtype."""
    if not isinstance(value, Unknown):
        return number(value) is not None
    key = machine.symbols.key(value.symbol)
    if key[0] == "call":
        known = str(key[1]).startswith(("math.", "builtins.len", "builtins.int", "builtins.float"))
        return known or is_size(machine, value)
    if key[0] in ("index", "part"):
        return is_size(machine, value)
    if key[0] == "value":
        return isinstance(key[1], Const)
    if key[0] == "attribute":
        return key[1] in NUMBERS
    if key[0] == "parameter":
        return any(id(function) == key[1] and key[2] in numbers_in(function) for function in machine.calls)
    if key[0] == "FloorDivide" and is_size(machine, value):
        return True
    if key[0] not in _NUMBERS or not depth:
        return False
    parts = [part for part in key[1:] if isinstance(part, int)]
    return key[0] == "number" or all(is_number(machine, Unknown(part), depth - 1) for part in parts)


def is_size(machine: Machine, value: Value) -> bool:
    """Whether this is one size of a shape, `x.shape[-1]` or `x.size(-1)`, or a part of what a constructor was given."""
    if not isinstance(value, Unknown):
        return False
    parts = machine.symbols.parts(value.symbol)
    if machine.symbols.key(value.symbol)[0] == "FloorDivide":
        return _is_kept_size(machine, *parts)
    method = machine.symbols.method(value.symbol)
    if method is not None:
        return method[0] == "size" and len(parts) > 1
    if machine.symbols.key(value.symbol)[0] not in ("index", "part") or not parts:
        return False
    key = machine.symbols.key(parts[0])
    if key[0] == "value":
        return isinstance(key[1], Method) and key[1].name == "shape"
    return key[:2] == ("attribute", "shape") or _is_shape(machine, parts[0])


def _is_kept_size(machine: Machine, dividend: int, divisor: int) -> bool:
    """Whether a whole number divides what a constructor was given, as in `self.width // 2`."""
    key, by = machine.symbols.key(dividend), machine.symbols.key(divisor)
    running = [id(function) for function in machine.calls]
    return key[0] == "parameter" and key[1] not in running and by[0] == "value" and isinstance(number(by[1]), int)  # type: ignore[arg-type]


def _is_shape(machine: Machine, symbol: int) -> bool:
    """Whether this is `x.size()`, called without a dimension."""
    method = machine.symbols.method(symbol)
    return method is not None and method[0] == "size" and len(machine.symbols.parts(symbol)) == 1


_DEFAULTS = frozenset({"set_default_dtype", "set_default_tensor_type"})


def default_dtype(machine: Machine) -> str | None:
    """The dtype of tensors created without one; None if the file sets another default."""
    chunks = machine.program.main.chunks
    return None if any(chunk.words & _DEFAULTS for chunk in chunks) else "float32"


@cached_per_chunk
def _widens(chunk: Chunk) -> bool:
    return _WIDENS.search(chunk.code) is not None


def is_perhaps_wide(machine: Machine, symbol: int) -> bool:
    """Whether `symbol` was computed by a function out of sight that converts something to float32."""
    wide = machine[Tensors].perhaps_wide
    return bool(wide) and any(one in wide for one in machine.symbols.derivation(symbol))


def is_data(machine: Machine, symbol: int) -> bool:
    """Whether `symbol` is an item of the training data, or computed from one without a model.

    A loop in a layer goes over its own values, such as levels of features, and over data only for labels and targets;
    one in an optimizer over its parameters and their state.
    """
    todo, found = [symbol], False
    seen: set[int] = set()
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        key = machine.symbols.key(current)
        method = machine.symbols.method(current)
        if key[0] == "item" and key[1] in machine[Tensors].of_layers and not _iterates_over_labels(machine, current):
            todo += machine.symbols.parts(current)
        elif key[0] == "item":
            found = True
        elif key[0] in LOWER:
            return False
        elif key[0] != "call":
            todo += machine.symbols.parts(current)[: 1 if key[0] == "index" else None]
        elif method is not None:
            todo += method[1]
        else:
            return False
    return found


def _iterates_over_labels(machine: Machine, symbol: int) -> bool:
    keys = map(machine.symbols.key, machine.symbols.derivation(symbol))
    return any(key[0] == "parameter" and WHOLE_NUMBERS.search(str(key[2])) for key in keys)


def runs_layers(function: cst.CSTNode) -> bool:
    """Whether a function is the forward pass of a layer or a loss, whose loops go over levels and not over data."""
    return isinstance(function, cst.FunctionDef) and function.name.value in _RUN


def _is_of_optimizer(machine: Machine, function: cst.CSTNode) -> bool:
    """Whether this is a method of a class whose objects have groups of parameters."""
    source = machine.program.source_of(function)
    around = source.ancestors(function) if source is not None else ()
    return any(isinstance(above, cst.ClassDef) and _has_groups(above) for above in around)


@cached_per_file
def _has_groups(cls: cst.ClassDef) -> bool:
    return any(dotted(node) == "self.param_groups" for node in every(cls, cst.Attribute))


def filled(state: State, value: Value) -> Number | None:
    """The infinity written into elements of `value`, if any."""
    if not isinstance(value, (Tensor, Unknown)):
        return None
    if isinstance(value, Tensor) and value.infinity is not None:
        return value.infinity
    stored = state.heap.get(value.symbol, {}).get(_INFINITY)
    return stored.infinity if isinstance(stored, Tensor) else None


def fill(state: State, value: Tensor, infinity: Number) -> None:
    """Record that an in-place operation wrote `infinity` into elements of `value`."""
    state.set_attribute(value.symbol, _INFINITY, Tensor(value.symbol, infinity=infinity))


CONVERSIONS = _SAME_OBJECT.union(CASTS)
"""Methods that cast or move a model in place and return it."""


def is_conversion(call: Call) -> bool:
    """Whether a method casts or moves what may be a model; a setting that is read by its name, it does not."""
    casts = call.name in CASTS and all(argument.keyword is not None for argument in call.arguments.given)
    return (call.name in _SAME_OBJECT or casts) and not isinstance(call.owner, Tensor)


def tensor_guesses(machine: Machine, symbol: int) -> tuple[Guessed, ...]:
    """The guesses by which the values that went into `symbol` are tensors."""
    named = machine[Tensors].named
    found = [named[one] for one in machine.symbols.derivation(symbol) if one in named] if named else []
    return min(found, key=len, default=())


class Tensors(Tracker):
    """Tracks tensors through the syntax of Python.

    `unknown` are the dtypes of a tensor of which nothing is known, None for any. `cast_from` maps a symbol to its
    dtype before a cast, `cast_at` to the cast, `half_because` a node to its
    evidence for half tensors, `lifts` are operations that a region computes in float32 of half tensors,
    `half_options` to the half dtypes among its choices, and `named` a symbol to the guesses by which alone it is a
    tensor, none if its use implies one. `of_layers` are the loops that layers and optimizers run, by identity,
    `leaves` the tensors created with `requires_grad` and not used yet, `registered` maps buffers to their dtype and
    the method that created them, `drawn` random numbers to the function that draws them, `narrowed` tensors to the
    call that gave them the dtype of another one after a cast to float32. `constants` maps tensors to the number
    that fills them, `extremes` to a number among their elements that is out of the range of float16. `owners` maps
    a call that creates a tensor to those whose size or device it takes, `beside` to the name of the layer whose
    size it takes. `perhaps_wide` are the results of functions that are not interpreted
    and convert something to float32.
    """

    triggers = frozenset({"half", "float16", "bfloat16", "HalfTensor", "FloatTensor"})
    methods = CONVERSIONS | {"type"}

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.unknown: frozenset[str] | None = None
        self.cast_from: dict[int, str] = {}
        self.lifts: set[cst.CSTNode | None] = set()
        self.cast_at: dict[int, cst.CSTNode] = {}
        self.half_because: dict[cst.CSTNode | None, Because] = {}
        self.half_options: dict[cst.CSTNode | None, frozenset[str]] = {}
        self.named: dict[int, tuple[Guessed, ...]] = {}
        self.of_layers: set[int] = set()
        self.leaves: set[int] = set()
        self.narrowed: dict[int, cst.CSTNode] = {}
        self.drawn: dict[int, cst.CSTNode | None] = {}
        self.registered: dict[int, tuple[str, cst.CSTNode]] = {}
        self.constants: dict[int, Number] = {}
        self.extremes: dict[int, Number] = {}
        self.owners: dict[cst.CSTNode, set[int]] = {}
        self.beside: dict[cst.CSTNode, str] = {}
        self.perhaps_wide: set[int] = set()

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether an argument is a half tensor."""
        return any(isinstance(value, Tensor) and value.dtype in HALF_DTYPES for value in given)

    def unfollowed_returns(self, function: Function, result: Value) -> None:
        """Record the result of a function that is not interpreted and makes float32 of something."""
        if isinstance(result, Unknown) and _widens(function.chunk):
            self.perhaps_wide.add(result.symbol)

    def loop_begins(self, node: cst.For, source: int) -> None:
        """Record a loop of a layer, or of a function that a layer calls, or of an optimizer over its parameters."""
        calls = self.machine.calls
        if any(map(runs_layers, calls)) or (calls and _is_of_optimizer(self.machine, calls[-1])):
            self.of_layers.add(id(node))

    def method(self, state: State, call: Call) -> Value | None:
        """Cast a receiver that is not known to be a tensor."""
        assert call.owner is not None
        if is_conversion(call):
            made = converted(self.machine, call.node, call.owner, call.name, call.arguments)
            if made is None and _converts_tensor(self.machine, call):
                chosen = _is_chosen(self.machine, call.node, call.arguments)
                return Tensor(chosen_symbol(self.machine) if chosen else self.machine.fresh())
            if made is None and isinstance(call.owner, Unknown) and _gives_dtype(self.machine, call.arguments):
                return self.machine.unknown("converted", None, call.node, parts=(call.owner.symbol,))
            return made or call.owner
        if call.name == "type" and not isinstance(call.owner, Tensor):
            return converted(self.machine, call.node, call.owner, call.name, call.arguments)
        return None

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """Evaluate `tensor.data`, `tensor.grad` and their kind."""
        owner = used_as_tensor(self.machine, owner) if name in _VIEWS else owner
        if not isinstance(owner, Tensor):
            return None
        if name in _VIEWS:
            return derived(self.machine, owner, name, owner.rank)
        return self.machine.unknown("attribute", name, parts=(owner.symbol,)) if name in _ASKED else None

    def join(self, left: Value, right: Value) -> Value | None:
        """Join two tensors, and one that has infinite elements with an unknown value."""
        if not (isinstance(left, (Tensor, Unknown)) and isinstance(right, (Tensor, Unknown))):
            return None
        one, other = (value if isinstance(value, Tensor) else Tensor(value.symbol) for value in (left, right))
        joint = one.joined(other, self.machine.joined_symbol(left, right))
        half = self._half_by_region(one, other)
        if half is not None:
            joint = replace(joint, dtype=half.dtype, why_half=half.why_half, among=None, supposed=True)
        both = isinstance(left, Tensor) and isinstance(right, Tensor)
        return joint if both or joint.infinity is not None else None

    def _half_by_region(self, left: Tensor, right: Tensor) -> Tensor | None:
        """The tensor of two that a region made half, if nothing made the other one float32."""
        half, other = (left, right) if left.dtype in HALF_DTYPES else (right, left)
        by_region = self.half_because.get(half.why_half) is Because.REGION and not self._is_cast(other.symbol)
        lifted = other.why_half in self.lifts or other.dtypes not in (None, frozenset({"float32"}))
        return half if half.dtype in HALF_DTYPES and by_region and not lifted else None

    def _is_cast(self, symbol: int) -> bool:
        """Whether a tensor was cast, or is computed from one that was."""
        symbols = self.machine.symbols
        return any(one in self.cast_from for one in symbols.closure(symbol, symbols.parts))

    def unpacked_value(self, value: Value, index: int) -> Value | None:
        """An element of an unpacked tensor."""
        return part(self.machine, value, index) if isinstance(value, Tensor) else None

    def comprehension_value(self, element: Value) -> Value | None:
        """A list of scaled losses carries their scale, one of tensors that are created here their dtype."""
        if not isinstance(element, Tensor):
            return None
        created = self.machine.assumes and creating_call(self.machine, element.symbol) is not None
        return derived(self.machine, element, "comprehension") if created or element.scaled is not None else None

    def unary(self, node: cst.UnaryOperation, value: Value) -> Value | None:
        """Evaluate `-tensor`."""
        used = used_as_tensor(self.machine, value)
        return derived(self.machine, used, type(node.operator).__name__) if isinstance(used, Tensor) else None

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """Evaluate `tensor < other` and `tensor.dtype == torch.float16`."""
        same = same_dtype(left, right)
        if same is not None:
            return Const(same is not isinstance(node.comparisons[0].operator, (cst.NotEqual, cst.IsNot, cst.NotIn)))
        left, right = used_as_tensor(self.machine, left), used_as_tensor(self.machine, right)
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return comparison(self.machine, left, right)
        return None
