"""Layers of `torch.nn`: their construction, and the operations that their calls run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from amplint.regex import regex
from amplint.semantics.events import Operand
from amplint.semantics.python.containers import each, record_element
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions import tracker as contexts
from amplint.semantics.regions.callers import may_be_cast
from amplint.semantics.tensors import (
    adapters,
    cast_back,
    clashes,
    flow,
    numbers,
    numerics,
    provenance,
    ranks,
    subregions,
    weights,
)
from amplint.semantics.tensors.lists import CHOOSES_NUMBERS
from amplint.semantics.tensors.provenance import creating_call
from amplint.semantics.tensors.tensors import tensor
from amplint.semantics.tensors.weights import Weights
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import (
    FALSE,
    Function,
    Instance,
    Items,
    Module,
    Number,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.catalogue import fact_values, operations_with
from amplint.torchlib.frameworks import GIVES_EMBEDDINGS
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import BANNED, MODULE_OPS
from amplint.torchlib.promotion import SOME_DIMENSIONS

_WEIGHTED = operations_with("weights")
"""Operations to which a module passes its own parameters, unless constructed without."""
_RECURRENT = frozenset(fact_values("recurrent").values())
_CELLS = frozenset(fact_values("cell").values())
_EMBEDDING = "torch.nn.Embedding"


def make(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """Return the result of calling a class of `torch.nn`; parameters are float32 until the model is cast."""
    last = name.rpartition(".")[2]
    if last in ("Parameter", "Buffer"):
        content = arguments.values[0] if arguments.given else None
        held = content if isinstance(content, Tensor) else Tensor(0)
        frozen = arguments.value("requires_grad", 1) == FALSE
        known = weights.kept(machine, held, as_parameter=last == "Parameter", frozen=frozen)
        machine[Weights].symbols.add(known.symbol)
        if machine.assumes and last == "Parameter":
            adapters.report(machine, state, node, held)
        return Tensor(known.symbol, known.dtype, known.why_half, among=known.among, rank=known.rank)
    if machine.assumes:
        adapters.report_layer(machine, state, node, arguments)
    parts = _parts(state, arguments.values) if last in ("Sequential", "ModuleList") else ()
    made = machine.fresh()
    machine[Weights].symbols.add(made)
    return Module(made, name, node, parts, weights.asked(machine, arguments))


def _parts(state: State, values: Sequence[Value]) -> tuple[Value, ...]:
    """The parts of a model constructed from `values`, each a part or a list of parts."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, Items):
            found += value.values
        else:
            found.append((each(state, value) if isinstance(value, Unknown) else None) or value)
    return tuple(found)


def call_layer(machine: Machine, state: State, node: cst.Call, called: Module, arguments: Arguments) -> Value:
    """Return the result of calling a `torch.nn` layer without submodules."""
    if not arguments.given:
        return Tensor(machine.fresh())
    operand = tensor(machine, arguments.values[0])
    name = called.cls.rpartition(".")[2]
    own = weights.of(machine, state, called)
    if name in _RECURRENT or name in _CELLS or name == "MultiheadAttention":
        return _several(machine, state, node, called, name, arguments)
    if name == "Embedding":
        rank = operand.rank + 1 if operand.rank is not None and operand.rank >= 0 else SOME_DIMENSIONS
        return replace(own, symbol=provenance.kept(machine), rank=rank)
    op = MODULE_OPS.get(name)
    if name == "Sequential":
        return Tensor(of_unseen_layer(machine, state, node, called, arguments).symbol)
    if op is None:
        return Tensor(machine.fresh())
    places = [(argument.node.value, argument.value) for argument in arguments.given]
    subregions.computed(machine, state, node, op, places, own if op in _WEIGHTED else None)
    if op in BANNED:
        numerics.bce(machine, state, node, op, operand, arguments, called.made)
    if op in ("softmax", "log_softmax"):
        numerics.softmax(machine, state, node, operand)
    for computation in machine.hooks.computation:
        computation(state, node, op, *places[0])
    epsilon = _written_epsilon(called.made) if op in numerics.EPSILON_PLACES else None
    if epsilon is not None:
        numbers.report_out_of_range(machine, state, node, op, operand, epsilon)
    values: list[Value] = [operand, *(tensor(machine, value) for value in arguments.values[1:])]
    given = [*values, own] if op in _WEIGHTED and _has_weights(called) else values
    found = flow.local_outcome(machine, state, op, given)
    result = numerics.result(machine, state, node, op, given, found, ((None, called.symbol),))
    result = replace(result, rank=_rank(op, operand, called))
    held = (
        clashes.operand_with_evidence(machine, state, node.func, own)
        if op in _WEIGHTED and own.dtype in HALF_DTYPES
        else None
    )
    flow.emit_operation(
        machine, state, node, op, zip((place for place, _ in places), values, strict=True), result,
        module=called.made, weights=held, raises=found.refusal,
    )  # fmt: skip
    converted = own.why_half or machine[Weights].converted.get(called.symbol)
    cast_back.layer_called(machine, state, node, op, operand, own, converted)
    if flow.regime(machine, state) is None and (called.dtype is None or own.dtype in ("float32", *HALF_DTYPES)):
        clashes.check_layer(machine, state, node, op, Operand(places[0][0], operand), own)
    return result


def of_unseen_layer(machine: Machine, state: State, node: cst.Call, called: Module, arguments: Arguments) -> Unknown:
    """The result of a `Sequential` whose parts are not known: that of a layer all the same."""
    return unseen_result(machine, state, Callee(called.symbol), arguments, node, (called.symbol,))


def _has_weights(called: Module) -> bool:
    given = called.made.args if isinstance(called.made, cst.Call) else ()
    switches = [one.value for one in given if one.keyword and one.keyword.value in ("affine", "elementwise_affine")]
    return not any(isinstance(value, cst.Name) and value.value == "False" for value in switches)


def _rank(op: str, operand: Tensor, called: Module) -> int | None:
    if op.endswith(("_loss", "cross_entropy", "with_logits")) or op == "kl_div":
        made = called.made
        explicit = isinstance(made, cst.Call) and any(a.keyword and a.keyword.value == "reduction" for a in made.args)
        return None if explicit else 0
    if op == "flatten":
        plain = isinstance(called.made, cst.Call) and not called.made.args
        return 2 if plain and operand.rank is not None and operand.rank > 1 else None
    return ranks.of(op, [operand], Arguments(()), 0)


def _written_epsilon(made: cst.CSTNode | None) -> Number | None:
    """The number that the construction of a similarity or a distance gives as `eps`, its second parameter."""
    given = made.args if isinstance(made, cst.Call) else ()
    named = (one.value for one in given if one.keyword is not None and one.keyword.value == "eps")
    second = (one.value for one in given[1:2] if one.keyword is None)
    node = next(chain(named, second), None)
    return Number(node.evaluated_value, node) if isinstance(node, cst.Float) else None


def _several(machine: Machine, state: State, node: cst.Call, called: Module, name: str, arguments: Arguments) -> Value:
    """Return the result of calling a layer with more than one result.

    Under CUDA autocast cuDNN's recurrent layers run in float16, whatever the region's dtype is
    (aten/src/ATen/cudnn/AutocastRNN.cpp), other kernels for them in that dtype.
    """
    contexts.report_missed_region(machine, state, node)
    operand = tensor(machine, arguments.values[0])
    attends = name == "MultiheadAttention"
    given = [tensor(machine, value) for value in arguments.values[: 3 if attends else 1]]
    own = weights.of(machine, state, called)
    dtypes = {own.dtype, *(value.dtype for value in given)}
    here = flow.regime(machine, state)
    dtype = None
    if here is None and len(dtypes) == 1 and not (machine.calls and may_be_cast(machine, "linear")):
        (dtype,) = dtypes
    devices = here.devices if here is not None else None
    steady = "float64" not in dtypes and not contexts.remembers_other_dtypes(state)
    supposed = any(one.supposed or one.dtypes is None or "float64" in one.dtypes for one in (own, *given))
    if here is not None and here.dtypes is not None and len(here.dtypes) == 1 and steady:
        (low,) = here.dtypes
        if devices == {"cuda"}:
            dtype = low if low == "float16" or name not in _RECURRENT else None
        elif devices == {"cpu"}:
            dtype = low if attends else None
    if here is None and called.dtype is None:
        beside = _masks(arguments) if attends else arguments.given[1:2]
        _check_beside(machine, state, node, called, name, [*arguments.given[: int(attends)], *beside])
    main = Tensor(machine.fresh(), dtype, node, rank=operand.rank, supposed=supposed)
    if not attends and own.dtype in HALF_DTYPES:
        _check_half_weights(machine, state, node, called, own, arguments, main)
    if name in ("GRUCell", "RNNCell"):
        return main
    if name == "LSTMCell":
        return Items((main, replace(main, symbol=machine.fresh())))
    if attends:
        shares = replace(main, symbol=machine.fresh(), dtype="float32" if dtype and devices == {"cuda"} else dtype)
        return Items((main, shares if arguments.get("need_weights", 4) is None else Unknown(machine.fresh())))
    hidden = replace(main, symbol=machine.fresh())
    both = Items((hidden, replace(hidden, symbol=machine.fresh())))
    return Items((main, both if name == "LSTM" else hidden))


def _masks(arguments: Arguments) -> list[Argument]:
    """The masks that attention is called with."""
    found = (arguments.get("key_padding_mask", 3), arguments.get("attn_mask", 5))
    return [mask for mask in found if mask is not None]


def _check_beside(
    machine: Machine, state: State, node: cst.Call, called: Module, name: str, given: Sequence[Argument]
) -> None:
    """Check the dtype of initial states of a recurrent layer, and of the queries and masks of attention."""
    for argument in given:
        whole = _made_on_a_path(machine, argument.value)
        states = whole.values if isinstance(whole, Items) else (whole,)
        refusal = clashes.WEIGHS if whole is argument.value else clashes.STARTS
        for value in states[:1]:
            own = weights.of(machine, state, called)
            operand = Operand(argument.node.value, value)
            clashes.check_layer(machine, state, node, name.lower(), operand, own, refusal)


def _made_on_a_path(machine: Machine, value: Value) -> Value:
    """`value`, or what a function makes itself where it is not given that."""
    if isinstance(value, Items):
        first = _made_on_a_path(machine, value.values[0]) if value.values else value
        return value if not value.values or first is value.values[0] else Items((first, *value.values[1:]))
    if not isinstance(value, (Tensor, Unknown)) or (isinstance(value, Tensor) and value.dtypes is not None):
        return value
    kind, *sides = machine.symbols.key(value.symbol)
    if kind != "either":
        return value
    for side in sides:
        one = side if isinstance(side, Items) else Tensor(side, "float32") if isinstance(side, int) else None
        made = one.values[0] if isinstance(one, Items) and one.values else one
        if one is not None and isinstance(made, Tensor) and creating_call(machine, made.symbol) is not None:
            return one
    return value


def _check_half_weights(
    machine: Machine, state: State, node: cst.Call, called: Module, own: Tensor, arguments: Arguments, result: Tensor
) -> None:
    """Report an input or an initial state that a recurrent layer with half weights refuses."""
    held = clashes.operand_with_evidence(machine, state, node.func, own)
    for argument in arguments.given[:2]:
        for value in argument.value.values if isinstance(argument.value, Items) else (argument.value,):
            found = flow.local_outcome(machine, state, "linear", [value, own])
            if found.refusal is not None:
                op, place = called.cls.rpartition(".")[2].lower(), (argument.node.value, value)
                flow.emit_operation(
                    machine, state, node, op, [place], result,
                    module=called.made, weights=held, raises=found.refusal,
                )  # fmt: skip
                return


_HALVED = regex(r"\.(?:(?<!self\.)(?:half|bfloat16)\(\)|to\((?:dtype=)?torch\.(?:half|b?float16)\))")
"""A cast to half."""
_RAISE_BESIDE = frozenset({"float", "full", "matmul", "bmm"})
"""Calls that give float32 whatever the model's dtype is, and products that refuse it beside half."""


_RECURS = regex(r"\b(?:LSTM|GRU|RNN)(?:Cell)?\(")
_STATES = frozenset({"zeros", "ones", "randn"})
"""Calls that create initial states of recurrent layers."""


@cached_per_chunk
def _returns_layer(chunk: Chunk) -> bool:
    """Whether a function returns the result of calling a class of a module `nn`."""
    called = (one.value.func for one in every(chunk.module, cst.Return) if isinstance(one.value, cst.Call))
    names = ((dotted(callee) or "").rsplit(".", 2)[-2:] for callee in called)
    return any(len(name) > 1 and name[0] == "nn" and name[1][:1].isupper() for name in names)


class Layers(Tracker):
    """Tracks layers of `torch.nn`."""

    triggers = frozenset({"BCELoss"})
    methods = frozenset({"append"}) | GIVES_EMBEDDINGS

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Casts to float32, and float32 tensors, in a file that casts models to half: products with them raise."""
        texts = [chunk.text for chunk in chunks]
        if not any(map(_HALVED.search, texts)):
            return Words()
        chooses = frozenset({"where"} if any(map(CHOOSES_NUMBERS.search, texts)) else ())
        recurs = _STATES if any(map(_RECURS.search, texts)) else frozenset[str]()
        return Words(calls=_RAISE_BESIDE.union(chooses, recurs))

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether a function returns a layer that it makes."""
        return "nn" in function.chunk.words and _returns_layer(function.chunk)

    def handles_library_call(self, name: str) -> bool:
        """Whether this is a class of `torch.nn`."""
        return name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper() and ".utils." not in name

    def library_call(self, state: State, call: Call) -> Value | None:
        """Construct a layer."""
        assert isinstance(call.callee, Ref)
        return make(self.machine, state, call.node, call.callee.name, call.arguments)

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """The output of a `Sequential`, whose call is not that of a sigmoid that ends it."""
        if not isinstance(result, Tensor) or "sigmoid" not in result.traits:
            return None
        whole = isinstance(call.callee, Module) and call.callee.parts
        return replace(result, traits=result.traits - {"sigmoid"}) if whole else None

    def inherited_call(self, state: State, call: Call, base: Ref) -> Value | None:
        """Run the `forward` of a layer of `torch.nn` from a class that derives from it."""
        if call.name != "forward" or not isinstance(call.owner, Instance) or not self.handles_library_call(base.name):
            return None
        name = base.name.rpartition(".")[2]
        if name not in MODULE_OPS or name in _RECURRENT or name in _CELLS:
            return None
        return call_layer(self.machine, state, call.node, Module(call.owner.symbol, base.name), call.arguments)

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `layers.append(layer)`, and the layer that embeds the tokens of a model of transformers."""
        if call.name in GIVES_EMBEDDINGS and call.owner is not None:
            model = symbol_of(self.machine, call.owner)
            self.machine[Weights].symbols.add(model)
            return Module(self.machine.unknown("embedding", parts=(model,)).symbol, _EMBEDDING)
        if call.name == "append" and isinstance(call.owner, Module) and call.arguments.given:
            record_element(state, call.owner, call.arguments.values[0])
            return call.owner
        return None
