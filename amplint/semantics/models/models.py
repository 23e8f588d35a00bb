"""Models: values that are models, their training mode, and the regions around their forward passes."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.events import (
    Clash,
    FlashInFloat32,
    Forward,
    ForwardOutside,
    LossOfOutput,
    OutdatedForward,
    Purpose,
    Recipe,
    RegionMissed,
    ScaledWithoutRegion,
    StaleForward,
    ToNumpy,
)
from amplint.semantics.models import norms
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.models.origins import root
from amplint.semantics.models.placement import place
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.frozen import is_frozen
from amplint.semantics.reading.scopes import MODEL, dotted, last_name, model_names
from amplint.semantics.regions import tracker as contexts
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.tensors import dtype_of, used_as_tensor
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Autocast,
    Const,
    GradMode,
    Instance,
    Method,
    Module,
    NewThread,
    Opaque,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import EVALUATES, MODEL_MAKER, MODEL_NAME, RUNS_BACKWARD_OR_CLEARS, TRAINING_STEP
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import fact_values
from amplint.torchlib.frameworks import NEUTRAL_METHODS
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import LOWER, MODULE_OPS, words

FORWARD_METHODS = words("forward generate __call__")
RUNS_LAYERS = words("forward __call__")
_LAYERS = words("Sequential MultiheadAttention Transformer").union(
    fact_values("recurrent").values(), fact_values("cell").values()
)
_CASTS_ITSELF = regex(
    r"^[ \t]*(?:from|import)[ \t]+(?:accelerate|lightning|pytorch_lightning|lightning_fabric)\b", re.M
)
"""Imports of frameworks that enter autocast around the forward passes of models."""
_RUNS_LOOP = regex(r"^[ \t]*(?:from|import)[ \t]+(?:lightning|pytorch_lightning|lightning_fabric)\b", re.M)
"""Imports of those that do so for all models, and not only for prepared ones."""
_TRAINS = regex(r"backward\(|zero_grad\(")
_WORKS = regex(r"backward\(|zero_grad\(|def forward\(")
"""What trains, or is trained."""
_OF_MODELS = (
    Forward,
    ForwardOutside,
    RegionMissed,
    ScaledWithoutRegion,
    ToNumpy,
    LossOfOutput,
    Clash,
    OutdatedForward,
    StaleForward,
    FlashInFloat32,
)
"""The events that require tracking models and their outputs."""
_MODE, _CAST = "<training>", "<cast>"
_SHOWS_MODEL = words("parameters named_parameters named_modules")


def record_use(machine: Machine, state: State, owner: Value, name: str, arguments: Arguments) -> None:
    """Record the mode that `owner.name(...)` sets, or its cast to half."""
    if not isinstance(owner, (Instance, Module, Unknown)):
        return
    if name in ("train", "eval") and len(arguments.given) <= (name == "train"):
        mode = FALSE if name == "eval" else arguments.values[0] if arguments.given else TRUE
        if mode in (TRUE, FALSE) or isinstance(mode, Unknown):
            state.set_attribute(owner.symbol, _MODE, mode)
            state.set_attribute(root(machine, owner.symbol), _MODE, mode)
    elif name in ("half", "bfloat16") or (
        name == "to" and any(dtype_of(machine, value) in HALF_DTYPES for value in arguments.values)
    ):
        state.set_attribute(owner.symbol, _CAST, TRUE)
        machine[Models].cast.add(owner.symbol)
    elif name in _SHOWS_MODEL:
        table = state.heap.get(owner.symbol, {})
        if _MODE not in table:
            state.set_attribute(owner.symbol, _MODE, machine.unknown("mode", parts=(owner.symbol,)))


def is_model(machine: Machine, state: State, value: Value, node: cst.BaseExpression) -> bool:
    """Whether `value`, the value of `node`, is certainly a model with layers that autocast casts."""
    if isinstance(value, Instance):
        return _is_module_class(machine, state, value) or _MODE in state.heap.get(value.symbol, {})
    if isinstance(value, Module):
        last = value.cls.rpartition(".")[2]
        return last in _LAYERS or MODULE_OPS.get(last) in LOWER
    if not isinstance(value, Unknown):
        return False
    path = dotted(node) or ""
    if _is_used_as_model(machine, state, value, path) or MODEL_NAME.search(path.rpartition(".")[2]):
        return True
    return _maker(machine, value) is not None


def _is_used_as_model(machine: Machine, state: State, value: Unknown, path: str) -> bool:
    return _MODE in state.heap.get(value.symbol, {}) or machine.kinds().get(path) == MODEL


def _maker(machine: Machine, value: Unknown) -> str | None:
    """The function that returned `value`, if it constructs models by its name."""
    key = machine.symbols.key(value.symbol)
    return str(key[1]) if key[0] == "call" and MODEL_MAKER.search(str(key[1])) else None


def model_guesses(machine: Machine, state: State, value: Value, node: cst.BaseExpression) -> tuple[Guessed, ...]:
    """The guesses by which `value`, the value of `node`, is a model."""
    path = dotted(node) or ""
    if not isinstance(value, Unknown) or _is_used_as_model(machine, state, value, path):
        return ()
    maker, last = _maker(machine, value), path.rpartition(".")[2]
    machine.record_guesses(value.symbol, MODEL_NAME.guesses(last) if maker is None else MODEL_MAKER.guesses(maker))
    return machine.guesses_for(value.symbol)


def _is_module_class(machine: Machine, state: State, value: Instance) -> bool:
    return any(
        isinstance(base, Ref) and base.name.startswith("torch.nn.")
        for cls in attributes.lineage(machine, state, value.cls)
        for base in attributes.bases(machine, state, cls)
    )


def runs_forward(call: Call, model: cst.BaseExpression) -> bool:
    """Whether `call`, of a `model` by this expression, returns what its forward pass does."""
    return model is call.node.func or last_name(call.node.func) in RUNS_LAYERS


def called(
    machine: Machine, state: State, func: cst.BaseExpression, callee: Value
) -> tuple[Value, cst.BaseExpression] | None:
    """The model whose forward pass a call of `func` runs, and the expression that names it; None for other calls."""
    if isinstance(func, cst.Attribute) and func.attr.value in FORWARD_METHODS:
        owner = machine.evaluate(state, func.value)
        if is_model(machine, state, owner, func.value):
            return owner, func.value
    return (callee, func) if is_model(machine, state, callee, func) else None


def is_unwrapped(machine: Machine, model: object) -> bool:
    """Whether a model is, on some path, the inner one of a wrapper such as a distributed model."""
    todo: list[object] = [model]
    seen: set[int] = set()
    while todo:
        way = todo.pop()
        if isinstance(way, Method) and way.name == "module":
            return True
        if not isinstance(way, Unknown) or way.symbol in seen:
            continue
        seen.add(way.symbol)
        key = machine.symbols.key(way.symbol)
        if key[:2] == ("attribute", "module"):
            return True
        if key[0] == "either":
            todo += [*key[1:], *map(Unknown, machine.symbols.parts(way.symbol))]
    return False


def forward(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    model: Value,
    path: cst.BaseExpression,
    inputs: Iterable[Value] = (),
    *,
    event: type[Forward] = Forward,
    guesses: tuple[Guessed, ...] = (),
) -> None:
    """Handle a forward pass at `node`, an `event` that can rest on `guesses`.

    One within another model's forward pass is part of that.
    """
    taken = guesses or model_guesses(machine, state, model, path)
    contexts.report_missed_region(machine, state, node, taken)
    if any(map(_runs_layers, machine.calls)):
        return
    machine.interactions += 1
    symbol = symbol_of(machine, model)
    known = state.heap.get(symbol, {})
    mode = state.heap.get(root(machine, symbol), {}).get(_MODE)
    training = bool(mode.value) if isinstance(mode, Const) else None
    gradients = _gradients(state.regions)
    weights = state[ModelStates].known.get(root(machine, symbol), Model())
    statistics = bool(weights.half or weights.bfloat16) and norms.keeps_statistics(machine, state, model)
    purpose, named = _purpose(machine, training, gradients)
    home = machine.program.source_of(node) if purpose is Purpose.TRAINING else None
    if home is not None and is_frozen(home, dotted(path) or ""):
        purpose = Purpose.UNKNOWN  # it takes part in the training of another model
    seen = isinstance(model, (Instance, Module))
    autocast = recipe(machine, state, model)
    if autocast is Recipe.OFF and purpose is Purpose.EVALUATION and not seen and _may_be_in_region(machine):
        autocast = Recipe.UNKNOWN
    normalised = norms.batch_norm_guesses(machine, state, model) if statistics else ()
    cast = weights.half or weights.bfloat16
    loaded = tuple(replace(one, about="weights_cast") for one in machine.guesses_for(cast)) if cast is not None else ()
    machine.record_guesses(node, taken)
    machine.emit(
        state,
        event,
        node,
        model=(identity(machine, symbol), _home(machine, symbol)),
        name=name if (name := dotted(path)) not in (None, "self") else "the model",
        training=training,
        gradients=gradients,
        purpose=purpose,
        autocast=autocast,
        entered=_entered(state),
        way=_call_stack(machine, node),
        half=cast is not None
        or _CAST in known
        or symbol in machine[Models].cast
        or machine.symbols.key(symbol)[0] == "converted",
        weights_cast=cast or _conversion(machine, model),
        statistics=statistics,
        inputs_cast=tuple(made for value in inputs if (made := _conversion(machine, value)) is not None),
        place=place(machine, state, model),
        seen=seen,
        trained=_trained(machine, state) if purpose is Purpose.EVALUATION else "",
        guesses=(*taken, *named, *normalised, *loaded),
    )


def _trained(machine: Machine, state: State) -> str:
    """The half dtype of the regions in other files of the project that train, for another one in a file of neither.

    A file with models may be what those files train.
    """
    region, _ = innermost(machine, state)
    dtypes = region.dtypes if region is not None and machine.calls else None
    if dtypes is None or len(dtypes) != 1 or not dtypes <= HALF_DTYPES:
        return ""
    found = machine.program.trained() if _WORKS.search(machine.program.main.text) is None else frozenset[str]()
    return next(iter(found)) if len(found) == 1 and found <= HALF_DTYPES else ""


def _runs_layers(function: cst.CSTNode) -> bool:
    """Whether this is the method that a call of a model runs."""
    if not isinstance(function, cst.FunctionDef) or function.name.value not in RUNS_LAYERS:
        return False
    return bool(function.params.params) and function.params.params[0].name.value == "self"


def _conversion(machine: Machine, value: Value) -> cst.CSTNode | None:
    """The call that cast `value` to half; None if it may not be half or something else made it so."""
    value = used_as_tensor(machine, value)
    if not isinstance(value, Tensor) or value.dtype not in HALF_DTYPES or not isinstance(value.why_half, cst.Call):
        return None
    method = value.why_half.func.attr.value if isinstance(value.why_half.func, cst.Attribute) else ""
    return value.why_half if method in CASTS or method in ("to", "type") else None


def _home(machine: Machine, symbol: int) -> cst.CSTNode | None:
    """The function that constructed a model for itself; None for a model that outlives the function."""
    root = machine.calls[0] if machine.calls else None
    return root if (symbol, root) in machine[Models].born else None


def _call_stack(machine: Machine, node: cst.CSTNode) -> tuple[tuple[cst.CSTNode | None, cst.CSTNode], ...]:
    """The running functions, None for the top level, each with the call site that leads to `node`."""
    nodes = [*machine.sites, node]
    way = zip([None, *machine.calls], nodes, strict=False)
    return tuple((function, call) for function, call in way if call is not None)


def identity(machine: Machine, symbol: int) -> Hashable:
    """The identity of a model in the whole file: parameters with equal names are one model."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "parameter" and len(key) == 3:
        return ("parameter", key[2])
    if key[:2] == ("attribute", "module"):
        return identity(machine, parts[0])
    if key[0] in ("attribute", "index") and parts:
        names = key[1 : len(key) - len(parts)]
        return (key[0], *names, *(identity(machine, part) for part in parts))
    return symbol


def _purpose(machine: Machine, training: bool | None, gradients: bool | None) -> tuple[Purpose, tuple[Guessed, ...]]:
    """The purpose of a forward pass, and the guesses by which it is.

    A training step without gradients uses a model as a teacher; evaluation shows by the mode.
    """
    if training is False:
        return Purpose.EVALUATION, ()
    functions = [node for node in machine.calls if isinstance(node, cst.FunctionDef)]
    text = "" if machine.chunk is None else machine.chunk.text
    reasons = [reason for function in functions if (reason := _trains(function)) is not None]
    if reasons if functions else _TRAINS.search(text):
        return (Purpose.TRAINING, min(reasons, key=len, default=())) if gradients else (Purpose.UNKNOWN, ())
    names = [node.name.value for node in functions if EVALUATES.search(node.name.value)]
    if training is not None or not (gradients is False or names):
        return Purpose.UNKNOWN, ()
    return Purpose.EVALUATION, () if gradients is False else EVALUATES.guesses(names[-1], "purpose")


@cached_per_file
def _trains(function: cst.FunctionDef) -> tuple[Guessed, ...] | None:
    """The guesses by which a function trains, by its name or a callee's; none for `backward`. None if it does not."""
    called = (node.func for node in walk(function) if isinstance(node, cst.Call))
    names = (func.attr if isinstance(func, cst.Attribute) else func for func in called)
    passes = {name.value for name in names if isinstance(name, cst.Name) and RUNS_BACKWARD_OR_CLEARS.search(name.value)}
    found = [RUNS_BACKWARD_OR_CLEARS.guesses(name, "purpose") for name in sorted(passes)]
    if TRAINING_STEP.search(function.name.value):
        found.append(TRAINING_STEP.guesses(function.name.value, "purpose"))
    return min(found, key=len, default=None)


def _gradients(regions: Sequence[Region]) -> bool | None:
    """Whether operations are recorded for autograd; None if a flag decides."""
    for region in reversed(regions):
        if isinstance(region.context, NewThread):
            break
        if isinstance(region.context, GradMode):
            enabled = region.context.enabled
            return bool(enabled.value) if isinstance(enabled, Const) else None
    return True


def _entered(state: State) -> cst.CSTNode | None:
    return next((r.entered_by for r in reversed(state.regions) if isinstance(r.context, (Autocast, Opaque))), None)


def recipe(machine: Machine, state: State, model: Value, *, prepared: bool = True) -> Recipe:
    """What is known of autocast where `model` runs, which Accelerate may have `prepared`."""
    if innermost(machine, state)[0] is not None:
        return Recipe.ON
    for region in reversed(state.regions):
        if isinstance(region.context, Opaque) and region.context.name not in NEUTRAL_METHODS:
            return Recipe.ON if region.context.name == "autocast" else Recipe.UNKNOWN
        if isinstance(region.context, (Autocast, NewThread)):
            return Recipe.UNKNOWN
    own = "autocast" in model.cls.chunk.text if isinstance(model, Instance) else _may_enter_region(machine, model)
    casts = _casts_itself(machine.program.main, prepared or any(map(_runs_layers, machine.calls)))
    return Recipe.UNKNOWN if own or casts else Recipe.OFF


def _may_enter_region(machine: Machine, model: Value) -> bool:
    """Whether a model that is not seen may be of a class in reach of the file which enters a region in `forward`."""
    return not isinstance(model, Module) and any(
        chunk.is_class and {"forward", "autocast"} <= chunk.words and _runs_in_region(chunk)
        for chunk in machine.program.chunks
    )


def _may_be_in_region(machine: Machine) -> bool:
    """Whether a function that other files call may get a model from beside the file that enters a region by itself."""
    if machine.sites[:1] != (None,):
        return False
    trains = any("autocast" in chunk.words for chunk in machine.program.chunks)
    return trains and machine.program.model_in_region() is not None


@cached_per_chunk
def _runs_in_region(chunk: Chunk) -> bool:
    """Whether a class enters a region around the statements of its `forward`, on every path."""
    for function in every(chunk.module, cst.FunctionDef):
        body = function.body.body if function.name.value == "forward" else ()
        entered = [item.item for one in body if isinstance(one, cst.With) for item in one.items]
        entered += [one.decorator for one in function.decorators] if function.name.value == "forward" else []
        names = (name for each in entered for name in walk(each) if isinstance(name, cst.Name))
        if any(name.value == "autocast" for name in names):
            return True
    return False


@cached_per_file
def _casts_itself(source: Source, prepared: bool) -> bool:
    return (_CASTS_ITSELF if prepared else _RUNS_LOOP).search(source.text) is not None


class Models(Tracker):
    """Tracks models if a rule needs them; the note of a call is the model that it runs, and its name.

    `born` are the results of unseen calls, with the function around them, `cast` the models that some path casts to
    half.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.follows = any(kind.kind in machine.wanted for kind in _OF_MODELS)
        self.born: set[tuple[int, cst.CSTNode | None]] = set()
        self.cast: set[int] = set()

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """A parameter annotated with a class of `torch.nn` is a model without a guess."""
        if name.startswith("torch.nn."):
            self.machine.record_guesses(symbol, ())
        return None

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls of models."""
        return Words(calls=model_names(chunks)) if self.follows else Words()

    def call_begins(self, state: State, call: Call) -> None:
        """Record the mode that the call sets, and a forward pass; what only a name shows to be a model takes inputs."""
        if call.owner is not None:
            record_use(self.machine, state, call.owner, call.name, call.arguments)
        model = called(self.machine, state, call.node.func, call.callee) if self.follows else None
        if model is not None and (call.arguments.given or not model_guesses(self.machine, state, *model)):
            forward(self.machine, state, call.node, *model, call.arguments.values)
            call.notes[Models] = model

    def unknown_result(self, made: Unknown) -> None:
        """Equal calls in two functions construct two objects."""
        if self.follows and not self.machine.muted:
            self.born.add((made.symbol, self.machine.calls[0] if self.machine.calls else None))
