"""Dtypes of parameters and buffers, from the construction of layers and from casts of models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from amplint.semantics.events import Because
from amplint.semantics.python.containers import each
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.tensors import coarse_frequencies, provenance
from amplint.semantics.tensors.passed import only_runs
from amplint.semantics.tensors.tensors import (
    CONVERSIONS,
    FROM_PARAMETER,
    Tensors,
    converts_to,
    default_dtype,
    dtype_of,
    is_conversion,
)
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    Const,
    Function,
    Instance,
    Manager,
    Method,
    Module,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.tree import target_names
from amplint.torchlib.methods import LOADS_WEIGHTS
from amplint.torchlib.names import HALF_DTYPES, WIDE_DTYPES
from amplint.torchlib.promotion import FLOATING, SOME_DIMENSIONS
from amplint.torchlib.sharding import SHARDERS

_WEIGHTS = "<weights>"
PARTS = frozenset({"modules", "named_modules", "children", "named_children"})
"""Methods that iterate over the parts of a model."""


_PART = "part of a model"
_DATA = frozenset({"data"})


def asked(machine: Machine, arguments: Arguments) -> str | None:
    """The dtype of the parameters that a layer is constructed with; None for a hypothetical object of its class."""
    if machine.hypothetical:
        return None
    wanted = arguments.get("dtype")
    return default_dtype(machine) if wanted is None else dtype_of(machine, wanted.value)


def kept(machine: Machine, value: Tensor, *, as_parameter: bool = False, frozen: bool = False) -> Tensor:
    """`value` as a parameter or buffer; in a hypothetical object of its class, the model may have been cast since."""
    kept = replace(value, symbol=provenance.kept(machine, as_parameter=as_parameter, frozen=frozen))
    coarse_frequencies.keep(machine, value.symbol, kept.symbol)
    if not machine.hypothetical or value.dtype != "float32":
        return kept
    if machine.calls:
        machine[Tensors].registered[kept.symbol] = value.dtype, machine.calls[-1]
    return replace(kept, dtype=None, among=frozenset({"float16", "bfloat16", "float32"}))


def of(machine: Machine, state: State, layer: Module) -> Tensor:
    """The parameters of `layer`, as a tensor of their dtype."""
    known = state.heap.get(layer.symbol, {}).get(_WEIGHTS)
    if isinstance(known, Tensor):
        return known
    unsure = machine[Weights].unsure or layer.symbol in machine[Weights].converted
    dtype = None if unsure else layer.dtype
    return Tensor(layer.symbol, dtype, layer.made, rank=SOME_DIMENSIONS)


def cast(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """Cast what the model owns in place, for `model.half()` and `model.to(...)`.

    A loop over several models is followed with one of them, and casts the others too.
    """
    changes, dtype = converts_to(machine, name, arguments)
    if dtype in WIDE_DTYPES and isinstance(owner, Unknown):
        machine[Weights].lifted.add(owner.symbol)
    if changes and _is_one_of_many(machine, node):
        machine[Weights].unsure = True
    if changes and isinstance(owner, Unknown) and _is_part(machine, owner.symbol):
        machine[Weights].part_converted(state, to_half=dtype != "float32")
    if not changes or not isinstance(owner, (Instance, Module)):
        return
    if dtype in HALF_DTYPES:
        machine[Tensors].half_because[node] = Because.PARAMETERS
    for holder, attribute, value in list(_owned(state, owner, set())):
        if isinstance(value, Module):
            machine[Weights].converted[value.symbol] = node
            converted = Tensor(value.symbol, dtype, node, rank=SOME_DIMENSIONS)
            state.set_attribute(value.symbol, _WEIGHTS, converted)
        elif value.dtype in FLOATING:
            state.set_attribute(holder, attribute, replace(value, dtype=dtype, why_half=node, supposed=False))


def _is_part(machine: Machine, symbol: int) -> bool:
    """Whether this is a part of a model, in a loop over all of them or as the argument of what is applied to each."""
    symbols = machine.symbols
    while symbols.key(symbol)[0] in ("item", "each", "part") and symbols.parts(symbol):
        symbol = symbols.parts(symbol)[0]
    if symbols.key(symbol)[0] == _PART:
        return True
    called = symbols.method(symbol)
    if called is not None:
        return called[0] in PARTS
    keys = (symbols.key(part) for part in symbols.parts(symbol))
    return any(key[0] == "value" and isinstance(key[1], Method) and key[1].name in PARTS for key in keys)


def _forget_parts(machine: Machine, state: State, *, to_half: bool) -> None:
    """Forget the dtypes of parameters and buffers that a conversion of parts that are not known may have changed."""
    for holder, held in list(state.heap.items()):
        for name, value in list(held.items()):
            if isinstance(value, Tensor) and (
                value.dtype in HALF_DTYPES
                or (to_half and value.dtype in FLOATING and provenance.is_kept(machine, value.symbol))
            ):
                state.set_attribute(holder, name, replace(value, dtype=None, why_half=None))


def _is_one_of_many(machine: Machine, node: cst.Call) -> bool:
    """Whether the receiver of `node` is an element of a list that a loop spells out."""
    owner = node.func.value if isinstance(node.func, cst.Attribute) else None
    loops = (
        loop for loop in machine.loops if isinstance(loop, cst.For) and isinstance(loop.iter, (cst.List, cst.Tuple))
    )
    return isinstance(owner, cst.Name) and any(owner.value in target_names(loop.target) for loop in loops)


def _owned(state: State, owner: Value, seen: set[int]) -> Iterator[tuple[int, str, Module | Tensor]]:
    """The layers, parameters and buffers that `owner` consists of, each with the object and attribute that hold it."""
    if not isinstance(owner, (Instance, Module)) or owner.symbol in seen:
        return
    seen.add(owner.symbol)
    inside: list[Value] = []
    if isinstance(owner, Module):
        yield owner.symbol, "", owner
        inside += owner.parts
        if (held := each(state, owner)) is not None:
            inside.append(held)
    for name, value in state.heap.get(owner.symbol, {}).items():
        if isinstance(value, Tensor) and not name.startswith("<"):
            yield owner.symbol, name, value
        inside.append(value)
    for value in inside:
        yield from _owned(state, value, seen)


def owned(state: State, owner: Value) -> Iterator[tuple[int, str, Module | Tensor]]:
    """The layers, parameters and buffers of a model, each with the object and attribute that hold it."""
    return _owned(state, owner, set())


def _forget(state: State, parts: Iterable[tuple[int, str, Module | Tensor]]) -> None:
    """Forget the dtypes of layers, parameters and buffers."""
    for holder, name, part in list(parts):
        if isinstance(part, Module):
            state.set_attribute(part.symbol, _WEIGHTS, Tensor(part.symbol, rank=SOME_DIMENSIONS))
        elif part.dtype in FLOATING:
            state.set_attribute(holder, name, replace(part, dtype=None, why_half=None))


def escape(machine: Machine, values: Iterable[Value]) -> None:
    """Mark all dtypes unsure if one of these values, which escape, is a model: unseen code may cast it."""
    if any(isinstance(value, (Instance, Module)) for value in values):
        machine[Weights].unsure = True


def _may_be_half(machine: Machine, value: Value) -> bool:
    """Whether a conversion, to half or to an unknown dtype, made `value`."""
    if isinstance(value, Tensor):
        return value.dtype in (*HALF_DTYPES, FROM_PARAMETER)
    if not isinstance(value, Unknown):
        return False
    if provenance.last_cast(machine, value.symbol) is not None:
        return provenance.conversion(machine, value.symbol) != "float32"
    called = machine.symbols.method(value.symbol)
    return called is not None and called[0] in CONVERSIONS


def put(machine: Machine, state: State, owner: Value, name: str, value: Value) -> Value:
    """The value that `owner.name = value` stores: `torch.nn` replaces a parameter by another parameter alone."""
    before = state.heap.get(owner.symbol, {}).get(name) if isinstance(owner, Instance) else None
    if not isinstance(before, Tensor) or before.symbol not in machine[Weights].symbols or not isinstance(value, Tensor):
        return value
    fits = value.symbol in machine[Weights].symbols or value.dtype == before.dtype
    return value if fits else Tensor(machine.fresh())


class Weights(Tracker):
    """Tracks parameters and buffers as tensors: their `symbols`, and whether unseen code left any dtype `unsure`.

    A layer `converted` on some path has weights of unknown dtype on the paths that do not record it. `loops` convert
    parts of models that are not known, each perhaps to half. Methods made what is `lifted` float32.
    """

    methods = CONVERSIONS | {"register_buffer", "apply", "_apply", LOADS_WEIGHTS}

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.symbols: set[int] = set()
        self.converted: dict[int, cst.CSTNode] = {}
        self.lifted: set[int] = set()
        self.unsure = False
        self.loops: dict[cst.CSTNode, bool] = {}

    def loop_ends(self, state: State, loop: cst.For | cst.While) -> None:
        """Forget what any round of the loop may have given another dtype."""
        if loop in self.loops:
            _forget_parts(self.machine, state, to_half=self.loops[loop])

    def part_converted(self, state: State, *, to_half: bool) -> None:
        """Handle the conversion of a part of a model that is not known, to float32 or perhaps `to_half`."""
        self.loops.update((loop, to_half or self.loops.get(loop, False)) for loop in self.machine.loops)
        self.unsure |= to_half
        _forget_parts(self.machine, state, to_half=to_half)

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `register_buffer`, casts of models, and what may cast all of their parts."""
        assert call.owner is not None
        if call.name == "_apply" or (call.name == LOADS_WEIGHTS and call.arguments.get("assign") is not None):
            _forget(state, owned(state, call.owner))
        elif call.name == "apply" and isinstance(call.owner, (Instance, Module)):
            for function in call.arguments.values:
                if isinstance(function, Function):
                    part = self.machine.unknown(_PART, parts=(call.owner.symbol,))
                    call_function(self.machine, state, function, [part], {}, call.node)
        if call.name == "register_buffer" and isinstance(call.owner, Instance) and len(call.arguments.values) > 1:
            name, given = call.arguments.values[:2]
            if isinstance(name, Const) and isinstance(name.value, str):
                buffer = kept(self.machine, given) if isinstance(given, Tensor) else given
                state.set_attribute(call.owner.symbol, name.value, buffer)
            return Const(None)
        if is_conversion(call):
            cast(self.machine, state, call.node, call.owner, call.name, call.arguments)
        return None

    def call_begins(self, state: State, call: Call) -> None:
        """Forget the dtypes of models passed to a framework with a half region, or to a sharder with a mixed policy."""
        runs_half = isinstance(call.owner, Manager) and call.owner.precision != "float32"
        shards = isinstance(call.callee, Ref) and call.callee.name in SHARDERS
        for value in call.arguments.values if shards or runs_half else ():
            _forget(state, owned(state, value))

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """Forget the dtypes of models passed to a call that is not interpreted, unless it only runs them."""
        given: list[tuple[int | str, Value]] = [*enumerate(positional), *keywords.items()]
        for place, value in given:
            parts = list(owned(state, value))
            if parts and not only_runs(function, place):
                _forget(state, parts)

    def statement_skipped(self, state: State, statement: cst.CSTNode) -> None:
        """Handle loops over parameters that are not interpreted and may give them another dtype."""
        mentions = self.machine.slice.mentions
        if mentions(statement, _DATA) and mentions(statement, CONVERSIONS):
            self.part_converted(state, to_half=True)

    def unseen(self, state: State, call: Call) -> None:
        """Handle models that escape to unseen code, which may cast them."""
        if call.entered is None:
            escape(self.machine, call.arguments.values)

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle `module.weight = value`, and `parameter.data = value` of any parameter or buffer."""
        if target.attr.value == "data":
            self.part_converted(state, to_half=_may_be_half(self.machine, value))
        return put(self.machine, state, owner, target.attr.value, value)
