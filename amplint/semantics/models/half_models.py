"""Models cast to half as a whole and called with float32 inputs."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Guessed
from amplint.semantics.events import Because, Clash, Evidence, Operand, Recipe
from amplint.semantics.models import models
from amplint.semantics.models.loading import LoadedModels
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.models import Models
from amplint.semantics.models.origins import root
from amplint.semantics.models.parameters import Parameters, path_in_model
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.tensors.masks import running
from amplint.semantics.tensors.provenance import creating_call
from amplint.semantics.tensors.tensors import is_data, names_dtype, used_as_tensor
from amplint.semantics.tensors.widened import lifted_on_a_path
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Instance, Manager, Tensor, Unknown, Value
from amplint.semantics.words import FLOATING
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.frameworks import (
    CASTS_NO_INPUT,
    EMBEDDED,
    EXTRACTED,
    FEATURE_EXTRACTORS,
    LAYER_INPUTS,
    PLAIN_LAYERS,
    PREPARING,
    WITHOUT_PARAMETERS,
    takes_embeddings,
)
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import words

_MOVES = words("to cuda cpu contiguous")
_HALF = HALF_DTYPES | {"half"}
_ENCODES = words(
    "encode encode_image encode_first_stage decode decode_first_stage get_image_features get_audio_features"
)
"""Methods of pretrained models that run layers on pictures or sounds."""


def fed(
    machine: Machine, state: State, node: cst.Call, model: Value, path: cst.BaseExpression, arguments: Arguments
) -> None:
    """Report a forward pass, outside of any region, of an unseen model in half on an input that is probably float32.

    Of a model that casts no input, an input that is certainly float32 is reported without assumptions.
    """
    if Clash.kind not in machine.wanted or not _is_out_of_sight(machine, state, model):
        return
    assert isinstance(model, (Instance, Unknown))
    bare, embeds = _casts_no_input(machine, model), _takes_embeddings(machine, model)
    if not (bare or embeds or machine.assumes):
        return
    cast, dtype = _conversion(machine, state, model)
    if cast is None or _recipe(machine, state, model) is not Recipe.OFF:
        return
    for argument in arguments.given:
        value = used_as_tensor(machine, argument.value)
        place = argument.node.value
        named = () if _is_of_processor(machine, argument) else _float32_guesses(machine, place, value)
        taken = bare and _is_layer_input(argument, arguments)
        certain = named == () and (taken or (embeds and argument.keyword == EMBEDDED))
        if named is None or not (certain or machine.assumes):
            continue
        why = Evidence(Because.PARAMETERS, frozenset({dtype}), f"the model is {dtype} from here on", cast)
        made = creating_call(machine, value.symbol) if isinstance(value, Tensor) else None
        steady, half = Operand(place, value, made=made), Operand(path, model, why)
        refusal = f"its weights are {dtype}, its input is float32"
        guesses = (*named, *models.model_guesses(machine, state, model, path), *machine.guesses_for(cast))
        machine.emit(
            state, Clash, node, op="the model", steady=steady, half=half, refusal=refusal, assumed=not certain,
            guesses=guesses,
        )  # fmt: skip
        return


def fed_to_layer(machine: Machine, state: State, call: Call) -> None:
    """Report an input that is float32 for a layer of a model in half, called as an attribute outside of any region."""
    if not isinstance(call.callee, Unknown) or not call.arguments.given:
        return
    layer, layers = call.callee.symbol, [*machine.symbols.alternatives(call.callee.symbol)]
    _, whole = path_in_model(machine, layers[0])
    if not all(_is_plain_layer(machine, one, whole) for one in layers):
        return
    stored = _stored(machine, state, whole)
    if stored is None or _recipe(machine, state, call.callee) is not Recipe.OFF:
        return
    argument = call.arguments.given[0]
    value, (dtype, cast, kept) = used_as_tensor(machine, argument.value), stored
    wide = isinstance(value, Tensor) and value.dtype == "float32" and value.rank != 0
    widened = None if wide or not machine.assumes else lifted_on_a_path(machine, value)
    if argument.star or not (wide or widened is not None):
        return
    certain = wide and kept and _is_loaded(machine, whole) and not _is_prepared(machine, layer)
    if not certain and not machine.assumes:
        return
    why = Evidence(Because.PARAMETERS, frozenset({dtype}), f"the model is {dtype} from here on", cast)
    names = {path_in_model(machine, one)[0][0] for one in layers}
    made = creating_call(machine, value.symbol) if isinstance(value, Tensor) else None
    steady, half = Operand(argument.node.value, value, made=made), Operand(call.node.func, call.callee, why)
    machine.emit(
        state, Clash, call.node, op=f"the layer {' or '.join(sorted(names))}", steady=steady, half=half,
        refusal=f"its weights are {dtype}, its input is float32", assumed=not certain,
        guesses=machine.guesses_for(cast),
    )  # fmt: skip


def _recipe(machine: Machine, state: State, model: Instance | Unknown) -> Recipe:
    """What is known of autocast where `model` runs, or a layer of it."""
    _, whole = path_in_model(machine, root(machine, model.symbol))
    given = whole in machine[HalfModels].prepared or _is_prepared(machine, model.symbol)
    return models.recipe(machine, state, model, prepared=given or not _is_loaded(machine, whole))


def _stored(machine: Machine, state: State, model: int) -> tuple[str, cst.CSTNode, bool] | None:
    """The half dtype of a model that is not quantized, what gave it that, and whether no unseen code can change it.

    If dtypes are assumed, so is that unseen code leaves a model in the dtype in which it was loaded.
    """
    known = state[ModelStates].known.get(model, Model())
    if known.stored is not None and known.computed is None:
        return *known.stored, True
    loaded = machine[LoadedModels].loaded.get(model) if machine.assumes and known.computed is None else None
    return (*loaded, False) if loaded is not None else None


def _is_plain_layer(machine: Machine, layer: int, whole: int) -> bool:
    """Whether this is a layer of the model `whole` that casts no input, and neither was cast to float32."""
    names, model = path_in_model(machine, layer)
    named = bool(names) and names[0] in PLAIN_LAYERS
    return named and model == whole and machine[Parameters].lifted.isdisjoint((layer, whole))


def _is_loaded(machine: Machine, model: int) -> bool:
    """Whether a class of transformers or diffusers has loaded `model`."""
    kind, *more = machine.symbols.key(model)
    return kind == "call" and str(more[0]).startswith(("transformers.", "diffusers."))


def _is_prepared(machine: Machine, layer: int) -> bool:
    """Whether a framework, which may convert inputs, has prepared the model of a layer."""
    return any(machine.symbols.key(one)[0] == "prepared" for one in machine.symbols.derivation(layer))


def _casts_no_input(machine: Machine, model: Value) -> bool:
    """Whether a library has loaded `model`, and its first layer gets the input as it is."""
    kind, *more = machine.symbols.key(root(machine, model.symbol)) if isinstance(model, Unknown) else ("",)
    return kind == "call" and str(more[0]).startswith(CASTS_NO_INPUT)


def _takes_embeddings(machine: Machine, model: Value) -> bool:
    """Whether a library has loaded `model`, and it uses embeddings as they are."""
    kind, *more = machine.symbols.key(root(machine, model.symbol)) if isinstance(model, Unknown) else ("",)
    return kind == "call" and takes_embeddings(str(more[0]))


def _is_layer_input(argument: Argument, arguments: Arguments) -> bool:
    """Whether this argument is what the first layer of such a model gets."""
    return argument.keyword in LAYER_INPUTS or (argument.keyword is None and argument is arguments.given[0])


def _is_out_of_sight(machine: Machine, state: State, model: Value) -> bool:
    """Whether the layers of `model` are not interpreted; those that are report a clash themselves."""
    if isinstance(model, Instance):
        forward = attributes.find_method(machine, state, model.cls, "forward")
        return forward is None or forward.chunk not in machine.relevant
    return isinstance(model, Unknown)


def _conversion(machine: Machine, state: State, model: Instance | Unknown) -> tuple[cst.CSTNode | None, str]:
    """The node that cast a model to half, and the dtype."""
    kind, *more = machine.symbols.key(model.symbol)
    if kind == "converted" and more[0] in HALF_DTYPES and isinstance(more[1], cst.CSTNode):
        return more[1], str(more[0])
    known = state[ModelStates].known.get(root(machine, model.symbol), Model())
    dtype, cast = known.stored or ("", None)
    return cast, dtype


def _is_of_processor(machine: Machine, argument: Argument) -> bool:
    """Whether this is, or holds, what a processor of transformers makes of pictures or sounds, which is float32."""
    value, symbols = argument.value, machine.symbols
    if not isinstance(value, Unknown):
        return False
    batch, ends = value.symbol, tuple[str, ...](FEATURE_EXTRACTORS)
    if argument.star != "**":
        if _entry(machine, batch) not in EXTRACTED:
            return False
        batch, ends = symbols.parts(batch)[0], WITHOUT_PARAMETERS
    maker = symbols.callee(batch)
    key = symbols.key(maker) if maker is not None else ()
    made = key[:1] == ("call",) and str(key[1]).startswith("transformers.")
    if not made or not str(key[1]).removesuffix(".from_pretrained").endswith(ends):
        return False
    untouched = machine[HalfModels].converted.isdisjoint((batch, value.symbol))
    return untouched and not _is_filled(machine, argument.node.value)


def _entry(machine: Machine, symbol: int) -> str:
    """The name of an attribute or of an entry; "" for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "attribute":
        return str(key[1])
    index = machine.symbols.key(parts[1]) if key[0] == "index" and len(parts) > 1 else ()
    return str(index[1].value) if index[:1] == ("value",) and isinstance(index[1], Const) else ""


def _is_filled(machine: Machine, place: cst.BaseExpression) -> bool:
    """Whether the running code assigns to entries of the variable at the root of `place`."""
    name = next((node.value for node in walk(place) if isinstance(node, cst.Name)), "")
    return any(
        isinstance(one.target, cst.Subscript)
        and isinstance(one.target.value, cst.Name)
        and one.target.value.value == name
        for node in running(machine)
        if isinstance(node, cst.Assign)
        for one in node.targets
    )


def _float32_guesses(machine: Machine, place: cst.BaseExpression, value: Value) -> tuple[Guessed, ...] | None:
    """The guesses by which an input is float32, as images and audio from a loader are; None for other inputs."""
    if isinstance(value, Tensor) and (value.dtype is not None or value.among is not None):
        return () if value.dtype == "float32" and value.rank != 0 else None
    name = _name(place)
    named = FLOATING.search(name) is not None and isinstance(value, (Unknown, Tensor))
    return FLOATING.guesses(name) if named and is_data(machine, value.symbol) else None  # type: ignore[union-attr]


def _name(place: cst.BaseExpression) -> str:
    """The name of a variable, attribute or entry, seen through moves to a device; "" for anything else."""
    while (
        isinstance(place, cst.Call)
        and isinstance(place.func, cst.Attribute)
        and place.func.attr.value in _MOVES
        and not names_dtype(place)
    ):
        place = place.func.value
    if isinstance(place, cst.Subscript) and len(place.slice) == 1 and isinstance(place.slice[0].slice, cst.Index):
        key = place.slice[0].slice.value
        return str(key.evaluated_value) if isinstance(key, cst.SimpleString) else ""
    return (dotted(place) or "").rpartition(".")[2]


class HalfModels(Tracker):
    """Tracks the inputs of models in half.

    `converted` are the values of unknown type that `.to(...)` converts, which remain the same values. `layers` are
    those that the file names, of models that it may load in half. `prepared` are models that a framework prepares.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.converted = set[int]()
        self.layers = frozenset[str]()
        self.prepared = set[int]()

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Layers, and casts to float32, in a file that loads a model in half and names a layer of it."""
        named = frozenset[str]().union(*(chunk.words for chunk in chunks))
        if Clash.kind in self.machine.wanted and "from_pretrained" in named and not named.isdisjoint(_HALF):
            self.layers = PLAIN_LAYERS & named
        return Words(names=self.layers, calls=frozenset({"float", "to"})) if self.layers else Words()

    def has_parts(self, state: State, owner: Value) -> bool:
        """Whether this is a model in half, the layers of which differ."""
        if not self.layers or not isinstance(owner, Unknown):
            return False
        return _stored(self.machine, state, root(self.machine, owner.symbol)) is not None

    def call_begins(self, state: State, call: Call) -> None:
        """Check the inputs of a forward pass."""
        if call.name == "to" and isinstance(call.owner, Unknown) and names_dtype(call.node):
            self.converted.add(call.owner.symbol)
        if isinstance(call.owner, Manager) and call.name in PREPARING:
            self.prepared.update(root(self.machine, symbol_of(self.machine, one)) for one in call.arguments.values)
        if Models in call.notes:
            model, path = call.notes[Models]
            fed(self.machine, state, call.node, model, path, call.arguments)
        elif call.name in _ENCODES and isinstance(call.owner, Unknown) and isinstance(call.node.func, cst.Attribute):
            fed(self.machine, state, call.node, call.owner, call.node.func.value, call.arguments)
        if self.layers:
            fed_to_layer(self.machine, state, call)
