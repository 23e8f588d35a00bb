"""Functions that convert an argument to float32, compute with it, and return the result in float32.

Layers convert their input for the sake of digits and return the dtype that they were given. Behind one that does not,
the layers of a model that was converted to half refuse what they get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from amplint.regex import regex
from amplint.semantics.events import LiftedResult
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.conversions import bindings, sources
from amplint.semantics.tensors.kinship import follows_dtype
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.provenance import is_constructed_parameter, views
from amplint.semantics.tensors.tensors import Tensors, converts_to
from amplint.semantics.tensors.widened import decides
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Items, Ref, Tensor, Unknown, Value
from amplint.semantics.words import LOSS, MASK, POSITION, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import fact_values, operations_with
from amplint.torchlib.policy import words

_LAYERS = frozenset(layer for op, layer in fact_values("module").items() if op in operations_with("same-rank"))
"""Layers of PyTorch whose result has the dtype of their input."""
_NO_ACTIVATIONS = (WHOLE_NUMBERS, MASK, POSITION)
_LIFTS = regex(r"\.float\(\)|\.to\((?:dtype=)?torch\.float(?:32)?\)")
_SPEAKS = regex(r"\bParameter\(|\bdtype\b|type_as\(|^class \w+\((?:torch\.)?nn\.[A-Z]\w*\):")
"""What a chunk has to hold for one of the kinds of evidence."""
_CASTS = words("to type type_as half bfloat16")


class LiftedResults(Tracker):
    """Tracks what functions return: `returned` maps a symbol to the expression, the conversion and the evidence."""

    methods = _CASTS

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.returned: dict[int, tuple[cst.BaseExpression, cst.Call, str]] = {}

    def is_needed(self) -> bool:
        """Whether dtypes are assumed and a selected rule handles the event."""
        return self.machine.assumes and LiftedResult.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The conversions of chunks that convert to float32 and return something."""
        return Words(calls=words("float to")) if any(map(_may_return_lifted, chunks)) else Words()

    def method(self, state: State, call: Call) -> None:
        """Forget what is converted to another dtype behind the function."""
        if not self.returned or not isinstance(call.owner, Tensor):
            return
        changes, dtype = converts_to(self.machine, call.name, call.arguments)
        if call.name == "type_as" or (changes and dtype != "float32"):
            for one in self.machine.symbols.closure(call.owner.symbol, partial(decides, self.machine)):
                for same in views(self.machine, one):
                    self.returned.pop(same, None)

    def function_returns(self, state: State, value: Value) -> None:
        """Record the tensors of `value` that a conversion in the running function has left in float32."""
        machine = self.machine
        function = machine.calls[-1] if machine.calls else None
        if not isinstance(function, cst.FunctionDef) or not _is_layer_code(machine, function):
            return
        if innermost(machine, state)[0] is not None or branches_on_dtypes(machine):
            return
        values = value.values if isinstance(value, Items) else (value,)
        node = _returned(machine.statement)
        for one in values:
            if node is None or not isinstance(one, (Tensor, Unknown)):
                continue
            lifts = _lifts(machine, function, one)
            found = next(filter(None, lifts), None)
            why = _evidence(machine, state, function, one, found, lifts) if found is not None else None
            if found is not None and why is not None:
                self.returned[one.symbol] = (node, found, why)

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit what no caller in the file converts."""
        before, self.machine.statement = self.machine.statement, None
        for node, converted, why in dict.fromkeys(self.returned.values()):
            self.machine.emit(State(), LiftedResult, node, converted=converted, because=why, assumed=True)
        self.machine.statement = before


@cached_per_chunk
def _may_return_lifted(chunk: Chunk) -> bool:
    text = chunk.text
    return "return" in text and _LIFTS.search(text) is not None and _SPEAKS.search(text) is not None


def _returned(statement: cst.CSTNode | None) -> cst.BaseExpression | None:
    """The expression that a statement returns."""
    small = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    return small.value if isinstance(small, cst.Return) else None


@cached_per_file
def _parameters(function: cst.FunctionDef) -> frozenset[str]:
    """The parameters of a function that can hold activations."""
    named = (one.name.value for one in (*function.params.params, *function.params.kwonly_params))
    return frozenset(name for name in named if not any(guess.search(name) for guess in _NO_ACTIVATIONS))


def _is_layer_code(machine: Machine, function: cst.FunctionDef) -> bool:
    """Whether a function is no part of a loss."""
    source = machine.program.source_of(function)
    if source is not machine.program.main:
        return False
    classes = (one.name.value for one in source.ancestors(function) if isinstance(one, cst.ClassDef))
    return not any(LOSS.search(name) for name in (function.name.value, *classes))


def _lifts(machine: Machine, function: cst.FunctionDef, value: Tensor | Unknown) -> list[cst.Call | None]:
    """The conversions of arguments of `function` by which `value` is float32, one for each path on which it differs."""
    if isinstance(value, Tensor) and (value.dtype not in (None, "float32") or value.rank == 0):
        return []
    return [_lift(machine, function, one) for one in machine.symbols.alternatives(value.symbol)]


def _lift(machine: Machine, function: cst.FunctionDef, symbol: int) -> cst.Call | None:
    source = machine.program.source_of(function)
    for one in machine.symbols.closure(symbol, partial(decides, machine)):
        node = _conversion(machine, one)
        if node is None or source is None or not source.owns(node) or one == symbol:
            continue
        if source.function_around(node) is not function:
            continue
        if _root(node) in _parameters(function):
            return node
    return None


def _conversion(machine: Machine, symbol: int) -> cst.Call | None:
    """The call by which `symbol` is converted to float32."""
    key = machine.symbols.key(symbol)
    node = key[2] if key[0] == "converted" else machine[Tensors].cast_at.get(symbol)
    return node if isinstance(node, cst.Call) and key[1] == "float32" else None


def _evidence(
    machine: Machine,
    state: State,
    function: cst.FunctionDef,
    value: Tensor | Unknown,
    lift: cst.Call,
    lifts: Sequence[cst.Call | None],
) -> str | None:
    """What says that the result is meant to have the dtype of the argument; None if nothing does."""
    others = _converted_back(function) - {_root(lift)}
    if not others.isdisjoint(_parameters(function)):
        return "what is computed beside it is converted back"
    if None in lifts:
        return None
    source = machine.program.main
    if any(_root(lift) in _converted_back(twin) for twin in _twins(source, function)):
        return "other functions of the file convert the like of it back"
    if any(isinstance(base, Ref) and _keeps(base) for base in _bases(machine, state, function)):
        return "the layer that it derives from returns the dtype of its input"
    if any(is_constructed_parameter(machine, one) for one in _own(machine, value.symbol)):
        return "it is computed with parameters, which are half where the model is"
    return None


@cached_per_file
def _converted_back(function: cst.FunctionDef) -> frozenset[str | None]:
    """The variables from which a function computes in float32 what it converts to the dtype of another tensor."""
    calls = [call for call in every(function.body, cst.Call) if isinstance(call.func, cst.Attribute)]
    back = [call for call in calls if follows_dtype(call) or _is_to_known_dtype(function, call)]
    before = (one for call in back for one in sources(function, call.func.value))  # type: ignore[attr-defined]
    inner = (call for one in before for call in every(one, cst.Call))
    return frozenset(_root(call) for call in inner if _LIFTS.match(_written(call)))


def _is_to_known_dtype(function: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether a call is `x.to(known)` behind `known = x.dtype`."""
    if last_name(call.func) != "to" or len(call.args) != 1 or not isinstance(call.args[0].value, cst.Name):
        return False
    given = bindings(function).get(call.args[0].value.value, ())
    return bool(given) and all(isinstance(one, cst.Attribute) and one.attr.value == "dtype" for one in given)


def _written(call: cst.Call) -> str:
    """The method of a call and its only argument, as `_LIFTS` reads them."""
    argument = dotted(call.args[0].value) or "?" if len(call.args) == 1 else "?" if call.args else ""
    return f".{last_name(call.func)}({argument})"


@cached_per_file
def _twins(source: Source, function: cst.FunctionDef) -> tuple[cst.FunctionDef, ...]:
    """The other functions of a file that return what they compute from arguments of the same names."""
    chunks = [chunk for chunk in source.chunks if _may_return_lifted(chunk)]
    others = [one for chunk in chunks for one in every(chunk.module, cst.FunctionDef) if one is not function]
    return tuple(one for one in others if _parameters(one) == _parameters(function))


def _root(node: cst.CSTNode) -> str | None:
    """The variable whose methods a call is one of."""
    while isinstance(node, (cst.Attribute, cst.Call, cst.Subscript)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else None


def _keeps(base: Ref) -> bool:
    owner, _, name = base.name.rpartition(".")
    return owner.startswith("torch.nn") and name in _LAYERS


def _bases(machine: Machine, state: State, function: cst.FunctionDef) -> Iterator[Value]:
    """The bases of the class whose `forward` this is."""
    source = machine.program.source_of(function)
    above = next(iter(source.ancestors(function)), None) if source is not None else None
    for one in source.ancestors(function) if source is not None and above is not None else ():
        if isinstance(one, cst.ClassDef) and function.name.value == "forward":
            yield from (machine.evaluate(state.copy(), argument.value) for argument in one.bases)
            return


def _own(machine: Machine, symbol: int) -> Iterator[int]:
    """What went into `symbol` behind conversions to float32, and what was converted there."""

    def below(one: int) -> tuple[int, ...]:
        return () if _conversion(machine, one) is not None else machine.symbols.parts(one)

    for one in machine.symbols.closure(symbol, below):
        yield from views(machine, machine.symbols.parts(one)[0] if _conversion(machine, one) is not None else one)
