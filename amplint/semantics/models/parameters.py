"""Parameters of models: their dtypes, sharding and devices, and the optimizers constructed for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.configs.defaults import is_off_by_default
from amplint.semantics.events import HalfStepped, HalfUnscaled, OptState, ScalerMeetsShards, ShardedStep, Stage
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import carrying
from amplint.semantics.memory.progress import gradients_of
from amplint.semantics.models.model_states import Model, ModelStates
from amplint.semantics.python.attributes import bases, lineage
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import decide_value, symbol_of
from amplint.semantics.reading.demos import is_within_test
from amplint.semantics.reading.scopes import MODEL, dotted, last_name
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.tensors.devices import moved_to
from amplint.semantics.tensors.passed import only_runs
from amplint.semantics.tensors.provenance import is_trainable_parameter
from amplint.semantics.tensors.tensors import CONVERSIONS, converts_to, dtype_of, is_conversion
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Class,
    Const,
    Function,
    Instance,
    Items,
    Module,
    OneOf,
    Optimizer,
    Ref,
    Scaler,
    Tensor,
    Trained,
    Unknown,
    Value,
    number,
)
from amplint.semantics.words import (
    CHANGES_PARAMETERS,
    FLOAT32_WEIGHTS,
    OPTIMIZER_MAKER,
    PRETRAINED,
    READS_PARAMETERS,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.changes import MADE_AS_CONFIGURED
from amplint.torchlib.float8 import LAYER_DTYPES
from amplint.torchlib.frameworks import (
    ADAPTERS,
    ADAPTING,
    ADDING,
    ASKED_DTYPES,
    CASTS_ADAPTERS,
    COMPUTE_DTYPE,
    COPIED,
    DTYPE_IN_8_BITS,
    DTYPE_NAMES,
    GIVES_EMBEDDINGS,
    IN_4_BITS,
    IN_8_BITS,
    PIPELINES,
    QUANTIZERS,
    SWITCHES_ADAPTERS,
    WITHOUT_PARAMETERS,
    is_configuration,
    loads_as_saved,
    makes_from_configuration,
)
from amplint.torchlib.names import DEFAULT_SETTERS, DTYPES, HALF_DTYPES, LEGACY_TENSORS, UNSCALES
from amplint.torchlib.optimizers import DECAYS, ELSEWHERE_COMPUTED, EPSILONS, KEEPS_COPIES
from amplint.torchlib.sharding import SHARDERS

CONVERTING = frozenset({"float", "float32", "data", "to"})
"""Words without which a statement does not cast parameters to a dtype other than float16."""
FREEZING = frozenset({"requires_grad", "requires_grad_"})
"""Words without which a statement does not freeze parameters."""
WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "compile", "script"})
_PARTS = frozenset({"parameters", "named_parameters", "children", "named_children", "modules", "named_modules"})
_ORDERS = frozenset({"enumerate", "list", "reversed", "tuple"})
_ORDERED = frozenset(f"builtins.{name}" for name in _ORDERS)
_HELD = frozenset({"attribute", "index", "item", "each", "part"})
_QUANTIZING = ("quantization_config", "load_in_8bit", "load_in_4bit")
_DICTIONARIES = frozenset({"builtins.dict", "collections.OrderedDict"})
_COLLECTIONS = _DICTIONARIES | {"builtins.list", "builtins.tuple"}
_VIEWS = frozenset({"values", "items"})
_LOADERS = frozenset({"from_pretrained", "from_config"})
_BUFFERS = frozenset({"buffers", "named_buffers"})
_CHAIN = "itertools.chain"
_PLACE, _MOVER = "place of", "moved by"
_UNCOMPILED = "attribute", "_orig_mod"
_MAKES = frozenset(DECAYS) | frozenset(EPSILONS) | {"SGD"}
_SHARDING = frozenset(name.rpartition(".")[2] for name in SHARDERS)
_DEFAULTS = frozenset(name.rpartition(".")[2] for name in DEFAULT_SETTERS)
_PLAIN_BASES = Ref("builtins.object"), Ref("abc.ABC")
_OF_OPTIMIZERS = frozenset({HalfStepped.kind, HalfUnscaled.kind, ShardedStep.kind})
_ITERATED = frozenset({"parameters", "named_parameters"})
GROWN, DISPLAY = "grown", "display"
"""The kinds of lists to which parameters of models were added one by one, and of lists that may have groups."""
_WITH_DTYPE = regex(r"\b(?:nn|te)\.(\w+)\([^()]*\b(?:params_)?dtype\s*=")
_MODELS = Instance, Module, Unknown
UNSEEN = Trained(None, frozenset(), plain=False)


@cached_per_chunk
def _layers_with_dtypes(chunk: Chunk) -> frozenset[str]:
    """The names of layers that a part of a file constructs in a dtype it names."""
    return frozenset(_WITH_DTYPE.findall(chunk.text)) if "dtype" in chunk.text else frozenset()


def cast(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """Cast the parameters of a model in place, for `owner.half()` and `owner.to(...)`."""
    if name == "requires_grad_" and arguments.values == (FALSE,):
        freeze(machine, state, [owner])
    elif name == "requires_grad_" and all(value == TRUE for value in arguments.values):
        thaw(machine, state, symbol_of(machine, owner))
    converts, dtype = converts_to(machine, name, arguments)
    if converts and dtype not in HALF_DTYPES and isinstance(owner, Unknown):
        machine[Parameters].lifted.add(owner.symbol)
    lifts = converts and dtype not in HALF_DTYPES and _is_dropped(machine.statement, node)
    if lifts and isinstance(owner, (Unknown, Instance, Module)):
        _lift_part(machine, state, owner)
    perhaps = node if any(map(_may_be_float16, arguments.values)) else None
    if perhaps is not None:
        machine[Parameters].chosen.add(perhaps)
    if not isinstance(owner, (Instance, Module)) and not _is_model(machine, state, owner, node):
        return
    _move(machine, state, owner, name, arguments)
    if not converts:
        return
    half, bfloat16 = (node if dtype == kind else None for kind in ("float16", "bfloat16"))
    machine.record_guesses(node, _model_guesses(machine, state, owner, node))
    changes: dict[str, Any] = {"half": half, "bfloat16": bfloat16, "saved": None, "frozen": None, "perhaps": perhaps}
    changes |= {"layer": None, "part": None, "thawed": False}
    converted = symbol_of(machine, owner)
    for model in (converted, *machine[Parameters].parts.get(converted, ()), *_loaded_parts(machine, state, owner)):
        change(state, root(machine, model), **changes)
    me = state.frames[state.frame].get("self")
    if dtype in HALF_DTYPES and isinstance(me, Instance) and owner in state.heap.get(me.symbol, {}).values():
        change(state, root(machine, me.symbol), part=(str(dtype), node))


def _loaded_parts(machine: Machine, state: State, owner: Value) -> list[int]:
    """The models from libraries that an object of the script holds, as attributes of it or of its parts."""
    todo, seen, found = [owner], set[int](), list[int]()
    while todo:
        one = todo.pop()
        if isinstance(one, Instance) and one.symbol not in seen:
            seen.add(one.symbol)
            todo += state.heap.get(one.symbol, {}).values()
        elif isinstance(one, Unknown) and root(machine, one.symbol) in machine[Parameters].loaded:
            found.append(one.symbol)
    return found


def _set_default(machine: Machine, state: State, node: cst.Call, asked: Value | None) -> None:
    """Record the dtype in which parameters are constructed from here on, a dtype or a class of tensors."""
    name = asked.name if isinstance(asked, Ref) else str(asked.value) if isinstance(asked, Const) else ""
    by_class = LEGACY_TENSORS.get(name.rpartition(".")[2])
    dtype = by_class or dtype_of(machine, asked)
    state.change(ModelStates).default = (dtype, node) if dtype in HALF_DTYPES else None


def _lift_part(machine: Machine, state: State, part: Unknown | Instance | Module) -> None:
    """Forget the dtypes of a model of which a part is converted to another dtype than half."""
    models = [symbol for symbol in state[ModelStates].known if part in state.heap.get(symbol, {}).values()]
    symbol = part.symbol
    while machine.symbols.key(symbol)[0] == "attribute":
        symbol = root(machine, machine.symbols.parts(symbol)[0])
        models.append(symbol)
    machine[Parameters].mixed.update(models)
    if models:
        _may_be_cast_back(machine, state, [Unknown(model) for model in models])


def load(machine: Machine, state: State, node: cst.Call, name: str, model: Value, arguments: Arguments) -> None:
    """Record the dtype of parameters loaded by `Class.from_pretrained(...)`, of this `name`, unless quantized."""
    asked = _asked_dtype(arguments)
    dtype = asked.value if isinstance(asked, Const) else dtype_of(machine, asked)
    if any(_is_on(machine, state, name, arguments.value(name)) for name in _QUANTIZING):
        _quantize(machine, state, model, arguments.value(_QUANTIZING[0]))
        return
    if dtype in HALF_DTYPES:
        machine.record_guesses(node, PRETRAINED.guesses(name))
        machine[Parameters].loaded[symbol_of(machine, model)] = str(dtype), node
        change(state, symbol_of(machine, model), **{"half" if dtype == "float16" else "bfloat16": node})
    elif asked is not None and _may_be_float16(asked):
        machine.record_guesses(node, PRETRAINED.guesses(name))
        change(state, symbol_of(machine, model), perhaps=node)
    elif asked is None and loads_as_saved(name) and not any(argument.star for argument in arguments.given):
        weights = arguments.value("pretrained_model_name_or_path", 0)
        float32 = isinstance(weights, Const) and FLOAT32_WEIGHTS.search(str(weights.value)) is not None
        if not float32 and arguments.value("config") in (None, NONE):
            change(state, symbol_of(machine, model), saved=node)


def _asked_dtype(arguments: Arguments) -> Value | None:
    """The dtype of weights that a call of transformers or diffusers is given."""
    return next((asked for name in ASKED_DTYPES if (asked := arguments.value(name)) is not None), None)


def _make(machine: Machine, state: State, node: cst.Call, model: Value, arguments: Arguments) -> None:
    """Record the dtype of parameters made by `Class.from_config(...)`."""
    asked = _asked_dtype(arguments)
    if asked is None:
        version, config = machine.program.wanted("transformers"), arguments.value("config", 0)
        if config is None or (version is not None and version.has(MADE_AS_CONFIGURED) is False):
            return
        held = state.heap.get(symbol_of(machine, config), {})
        asked = next((held[name] for name in reversed(ASKED_DTYPES) if name in held), None)
    dtype = DTYPE_NAMES.get(str(asked.value)) if isinstance(asked, Const) else dtype_of(machine, asked)
    if dtype in HALF_DTYPES:
        machine[Parameters].loaded[symbol_of(machine, model)] = str(dtype), node
        change(state, symbol_of(machine, model), **{"half" if dtype == "float16" else "bfloat16": node})


def _is_on(machine: Machine, state: State, name: str, given: Value | None) -> bool:
    """Whether an option quantizes a model, on a path of its own where a switch does that is off by default."""
    if isinstance(given, Unknown) and name.startswith("load_in") and is_off_by_default(machine, given):
        return decide_value(machine, state, given)
    return given not in (None, NONE, FALSE)


def _quantize(machine: Machine, state: State, model: Value, config: Value | None) -> None:
    """Record the half compute dtype of a model that a configuration of bitsandbytes quantizes."""
    config_call = machine[Parameters].quantizers.get(config.symbol) if isinstance(config, Unknown) else None
    if config_call is not None:
        change(state, symbol_of(machine, model), computed=config_call)


def adapted(machine: Machine, symbol: int) -> int:
    """The model to which functions of peft have added adapters, or which they have prepared for that."""
    while machine.symbols.key(symbol)[:1] == ("call",) and machine.symbols.key(symbol)[1] in ADAPTING:
        symbol = root(machine, machine.symbols.parts(symbol)[0])
    return symbol


def _may_be_float16(value: Value) -> bool:
    """Whether `value` is one of several dtypes, float16 among them."""
    return isinstance(value, OneOf) and any(DTYPES.get(option) == "float16" for option in value.options)


def _move(machine: Machine, state: State, owner: Value, name: str, arguments: Arguments) -> None:
    """Record the device to which `model.cuda()` or `model.to(device)` moves a model, None if that is not certain."""
    if name not in ("cuda", "cpu", "to"):
        return
    moved = None if _may_be_set_elsewhere(machine, state, arguments) else moved_to(name, arguments)
    function = machine.calls[-1] if machine.calls else None
    symbol = root(machine, symbol_of(machine, owner))
    while (method := machine.symbols.method(symbol)) is not None and method[0] in CONVERSIONS and method[1]:
        symbol = root(machine, method[1][0])
    machine[Parameters].moves.setdefault(symbol, {}).setdefault(function, set()).add(moved)
    state.facts[_PLACE, symbol], state.facts[_MOVER, symbol] = Const(moved), Const(id(function))


def _may_be_set_elsewhere(machine: Machine, state: State, arguments: Arguments) -> bool:
    """Whether the device is an attribute of an unseen object, which may have it from elsewhere on another path."""
    given = arguments.get("device", 0)
    asked = given.node.value if given is not None else None
    return isinstance(asked, cst.Attribute) and isinstance(machine.evaluate(state, asked.value), Unknown)


def place(machine: Machine, state: State, model: Value) -> str | None:
    """The device type of a model; None if that is not certain.

    What a function that has ended moved counts only if no other function moves the model to another device.
    """
    symbol = root(machine, symbol_of(machine, model))
    known, mover = state.facts.get((_PLACE, symbol)), state.facts.get((_MOVER, symbol))
    if known is None or mover is None or known.value is None:
        return None
    moves = set[str | None]().union(*machine[Parameters].moves.get(symbol, {}).values())
    running = any(mover.value == id(function) for function in (None, *machine.calls))
    return str(known.value) if running or moves == {known.value} else None


def _is_model(machine: Machine, state: State, owner: Value, node: cst.Call) -> bool:
    """Whether an unknown value must be a model: loaded or used like one, or cast with the result unused."""
    if not isinstance(owner, Unknown):
        return False
    origin = root(machine, owner.symbol)
    kind, *more = machine.symbols.key(origin)
    if origin in state[ModelStates].known or (kind == "call" and PRETRAINED.search(str(more[0]))):
        return True
    return _is_used_as_model(machine, node)


def _is_used_as_model(machine: Machine, node: cst.Call) -> bool:
    path = dotted(node.func.value) if isinstance(node.func, cst.Attribute) else None
    return machine.kinds().get(path or "") == MODEL or _is_dropped(machine.statement, node)


def _model_guesses(machine: Machine, state: State, owner: Value, node: cst.Call) -> tuple[Guessed, ...]:
    """The guesses by which `owner` is a model, by the name of its constructor."""
    if not isinstance(owner, Unknown) or _is_used_as_model(machine, node):
        return ()
    origin = root(machine, owner.symbol)
    kind, *more = machine.symbols.key(origin)
    known = origin in state[ModelStates].known or kind != "call" or not PRETRAINED.search(str(more[0]))
    return () if known else PRETRAINED.guesses(str(more[0]))


def _is_dropped(statement: cst.CSTNode | None, node: cst.Call) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    for small in statement.body:
        inner = small.value if isinstance(small, cst.Expr) else None
        while isinstance(inner, cst.Call) and inner is not node and isinstance(inner.func, cst.Attribute):
            inner = inner.func.value
        if inner is node:
            return True
    return False


def change(state: State, symbol: int, **changes: Any) -> None:
    """Update the facts of the model `symbol`."""
    known = state[ModelStates].known.get(symbol, Model())
    known = replace(known, **changes)
    state.change(ModelStates).known = {**state[ModelStates].known, symbol: known}
    if known == Model():
        del state.change(ModelStates).known[symbol]


def forget_devices(machine: Machine, state: State, values: Iterable[Value] | None) -> None:
    """Forget the devices of these models, or of any, after they escaped to unseen code."""
    places = [key for key in state.facts if isinstance(key, tuple) and key[0] == _PLACE]
    if places:
        roots = None if values is None else {root(machine, symbol_of(machine, value)) for value in values}
        for key in places:
            if roots is None or key[1] in roots:
                del state.facts[key]


def forget_dtypes(machine: Machine, state: State, values: Iterable[Value] | None = None) -> None:
    """Forget the parameter dtypes of these models, or of any, after they escaped to unseen code."""
    values = None if values is None else tuple(values)
    forget_devices(machine, state, values)
    if state[ModelStates].known:
        chosen = (
            state[ModelStates].known.keys()
            if values is None
            else {root(machine, symbol_of(machine, v)) for v in values}
        )
        for symbol in chosen & state[ModelStates].known.keys():
            change(
                state, symbol, half=None, bfloat16=None, saved=None, frozen=None, perhaps=None, layer=None, part=None,
                thawed=False,
            )  # fmt: skip


def _may_be_cast_back(machine: Machine, state: State, values: Iterable[Value] | None = None) -> None:
    """Forget the parameter dtypes of these models, or of any, which code casts that does not run on every path."""
    models = None if values is None else {root(machine, symbol_of(machine, value)) for value in values}
    for symbol, known in state[ModelStates].known.items():
        if models is None or symbol in models:
            machine[Parameters].undone |= {known.perhaps, known.half}
    forget_dtypes(machine, state, values)


def _members(machine: Machine, value: Value) -> list[Value]:
    """The members of a list or of a join of lists, and `value` itself otherwise."""
    if isinstance(value, Items):
        return [one for member in value.values for one in _members(machine, member)]
    if isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "either":
        joined = [one for one in machine.symbols.key(value.symbol)[1:] if isinstance(one, Items)]
        return [value, *(one for items in joined for one in _members(machine, items))]
    return [value]


def _layer_of(machine: Machine, state: State, value: Value) -> tuple[str, cst.CSTNode] | None:
    """The half dtype in which a layer of the model `value` was constructed, and its call."""
    known = state[ModelStates].known.get(root(machine, symbol_of(machine, value)))
    if isinstance(value, Module) and (known is None or known.layer is None):
        return next(filter(None, (_layer_of(machine, state, part) for part in value.parts)), None)
    return known.layer if known is not None else None


def _has_no_parameters(machine: Machine, state: State, value: Value) -> bool:
    """Whether an attribute adds no parameters to its model: an object of a plain class, or a tokenizer."""
    if isinstance(value, Instance):
        above = [base for cls in lineage(machine, state, value.cls) for base in bases(machine, state, cls)]
        return all(isinstance(base, Class) or base in _PLAIN_BASES for base in above)
    key = machine.symbols.key(value.symbol) if isinstance(value, Unknown) else ()
    called = key[1] if key[:1] == ("call",) and len(key) > 1 else None
    return isinstance(called, str) and called.removesuffix(".from_pretrained").endswith(WITHOUT_PARAMETERS)


def _half_parameter(machine: Machine, value: Value) -> tuple[str, cst.CSTNode] | None:
    """The half dtype in which a parameter that needs gradients is constructed, and what made it half."""
    if not isinstance(value, Tensor) or not is_trainable_parameter(machine, value.symbol):
        return None
    return (str(value.dtype), value.why_half) if value.dtype in HALF_DTYPES and value.why_half is not None else None


def _part_of(machine: Machine, state: State, value: Value, *, whole: bool = True) -> tuple[str, cst.CSTNode] | None:
    """The half dtype of a model, if `whole`, or of one that it holds, and the cast, while it is trained."""
    known = state[ModelStates].known.get(root(machine, symbol_of(machine, value)))
    if known is None:
        return None
    return (known.stored if whole and known.frozen is None else None) or known.part


def freeze(machine: Machine, state: State, values: Iterable[Value] | None = None) -> None:
    """Record that these models, or any, are frozen: their parameters keep their dtype."""
    chosen = state[ModelStates].known if values is None else {root(machine, symbol_of(machine, v)) for v in values}
    stored = {symbol: known.stored for symbol, known in state[ModelStates].known.items() if symbol in chosen}
    forget_dtypes(machine, state, values)
    for symbol, known in state[ModelStates].known.items():
        if (known.layer or known.part) is not None:
            change(state, symbol, layer=None, part=None, thawed=False)  # they may be among the frozen ones
    for symbol, frozen in stored.items():
        if frozen is not None:
            change(state, symbol, frozen=frozen)


def held_by(machine: Machine, symbol: int) -> int | None:
    """What `symbol` is a part, an element, or a list of parts of; None for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] in _HELD or (key[0] == "call" and key[1] in _ORDERED):
        return parts[0] if parts else None
    called = machine.symbols.method(symbol)
    gives = called is not None and (called[0] in _PARTS or called[0] in GIVES_EMBEDDINGS)
    return called[1][0] if called is not None and gives and called[1] else None


def thaw(machine: Machine, state: State, model: int | None) -> None:
    """Record that weights of a frozen model, or of a layer of one, are trained again in the dtype that they have."""
    known = None
    while model is not None and (known is None or known.frozen is None):
        base = root(machine, model)
        known = state[ModelStates].known.get(base)
        model = held_by(machine, base)
    if known is None or known.frozen is None:
        return
    holders = (
        root(machine, holder)
        for holder, held in state.heap.items()
        if any(isinstance(value, _MODELS) and root(machine, value.symbol) == base for value in held.values())
    )
    for symbol in (base, *holders):
        change(state, symbol, part=known.frozen, thawed=True)


def root(machine: Machine, symbol: int) -> int:
    """The symbol of a model before casts, compilation and preparation by a framework, which leave its parameters.

    A join whose sides have the same root counts as one.
    """
    while machine.symbols.key(symbol)[0] in ("converted", "prepared") or machine.symbols.key(symbol)[:2] == _UNCOMPILED:
        symbol = machine.symbols.parts(symbol)[0]
    kind = machine.symbols.key(symbol)[0]
    if kind not in ("either", "if"):
        return symbol
    roots = machine[Parameters].roots
    if symbol not in roots:
        behind = {root(machine, part) for part in machine.symbols.parts(symbol)[kind == "if" :]}
        roots[symbol] = behind.pop() if len(behind) == 1 else symbol
    return roots[symbol]


def path_in_model(machine: Machine, part: int) -> tuple[list[str], int]:
    """The attributes that lead from a model to a part of it, last one first, and the model.

    Of a part that was cast to float32, there are none.
    """
    lifted, names, whole = machine[Parameters].lifted, list[str](), part
    while machine.symbols.key(whole)[0] == "attribute" and whole not in lifted:
        names.append(str(machine.symbols.key(whole)[1]))
        whole = root(machine, machine.symbols.parts(whole)[0])
    return names, whole


def _cast_on_a_path(machine: Machine, symbol: int) -> cst.CSTNode | None:
    """The cast of a model to float16 on one of the joined paths, or for some settings."""

    def below(one: int) -> Iterable[int]:
        return reversed(machine.symbols.parts(one)) if machine.symbols.key(one)[0] in ("either", "prepared") else ()

    for one in machine.symbols.closure(symbol, below):
        kind, *more = machine.symbols.key(one)
        cast = more[1] if kind == "converted" else None
        if isinstance(cast, cst.CSTNode) and (more[0] == "float16" or cast in machine[Parameters].chosen):
            return cast
    return None


def stored_in(machine: Machine, state: State, symbol: int) -> tuple[str, cst.CSTNode] | None:
    """The half dtype of a model's parameters, and the node that cast them; `symbol` is known to be a model.

    One of several models has the dtype that all of them have.
    """
    known = state[ModelStates].known.get(root(machine, symbol))
    if known is not None:
        return known.stored
    while machine.symbols.key(symbol)[0] in ("converted", "prepared"):
        kind, *more = machine.symbols.key(symbol)
        if kind == "converted" and more[0] is not None:
            return (str(more[0]), more[1]) if more[0] in HALF_DTYPES and isinstance(more[1], cst.CSTNode) else None
        symbol = machine.symbols.parts(symbol)[0]
    sides = [*machine.symbols.alternatives(symbol)]
    if sides == [symbol]:
        return None
    stored = [stored_in(machine, state, side) for side in sides]
    dtypes = {side and side[0] for side in stored}
    return stored[0] if len(dtypes) == 1 else None


def train(machine: Machine, state: State, optimizer: Optimizer, arguments: Arguments) -> None:
    """Record the parameters for which an optimizer is constructed."""
    given = arguments.value("params", 0)
    fused = arguments.value("fused")
    held = sources(machine, given) or set()
    if not held and (owner := _asked(machine, given)) is not None:
        _train_part(machine, state, owner)
        held = {owner} if root(machine, owner) in state[ModelStates].known else held
    models = {root(machine, source) for source in held}
    all_held = frozenset(models)
    for source in held:
        stored = None if root(machine, source) in machine[Parameters].mixed else stored_in(machine, state, source)
        if stored is not None and models.isdisjoint(state[ModelStates].known):
            dtype, node = stored
            change(state, root(machine, source), **{"half" if dtype == "float16" else "bfloat16": node})
        elif machine.symbols.key(source)[0] in ("converted", "either") and models.isdisjoint(state[ModelStates].known):
            change(state, root(machine, source), perhaps=_cast_on_a_path(machine, source))
    model = models.pop() if len(models) == 1 else _one_in_half(state, models)
    if model in state[ModelStates].known and not _is_every_parameter(machine, given):
        _choose(machine, state, model, given)
    _remove_outdated(state, model, optimizer.symbol)
    cls = optimizer.cls.rpartition(".")[2] if optimizer.cls.startswith("torch.optim.") else ""
    cls = "" if isinstance(given, Unknown) and machine.symbols.key(given.symbol)[0] == DISPLAY else cls
    machine[Parameters].trained[optimizer.symbol] = Trained(
        model,
        _origins(machine, given),
        plain=fused in (None, NONE, FALSE),
        epsilon=_epsilon(cls, arguments),
        decay=_decay(cls, arguments),
        copies=arguments.value(KEEPS_COPIES) not in (None, NONE, FALSE),
        models=all_held,
    )


def _asked(machine: Machine, given: Value | None) -> int | None:
    """The object of which an unseen method returned the parameters for an optimizer."""
    called = machine.symbols.method(given.symbol) if isinstance(given, Unknown) else None
    return called[1][0] if called is not None and called[1] else None


def _train_part(machine: Machine, state: State, owner: int) -> None:
    """Record that an optimizer gets parameters of an object whose parameters are half."""
    stored = None if root(machine, owner) in machine[Parameters].mixed else stored_in(machine, state, owner)
    if stored is not None:
        change(state, root(machine, owner), part=stored)


def _choose(machine: Machine, state: State, model: int, given: Value | None) -> None:
    """Record that an optimizer gets some parameters of a model, in the half dtype of a part at most by its methods."""
    known = state[ModelStates].known[model]
    part = known.part if known.thawed or _asked(machine, given) is not None else None
    change(state, model, layer=None, part=part, thawed=part is not None and known.thawed)


def _one_in_half(state: State, models: Set[int]) -> int | None:
    """One of several trained models whose parameters are or can be half, unless one is sharded."""
    known = [(symbol, state[ModelStates].known.get(symbol, Model())) for symbol in sorted(models)]
    if any(model.shards is not None for _, model in known):
        return None
    half = (symbol for symbol, model in known if (model.half or model.bfloat16 or model.perhaps) is not None)
    return next(half, None)


def _is_every_parameter(machine: Machine, given: Value | None) -> bool:
    """Whether an optimizer gets all parameters of a model, rather than those that some condition selects."""
    return isinstance(given, Unknown) and machine.symbols.key(given.symbol)[0] == "parameters"


def _remove_outdated(state: State, model: int | None, optimizer: int) -> None:
    """Record that an optimizer constructed again holds the model's current parameters."""
    known = state[ModelStates].known.get(model) if model is not None else None
    if model is not None and known is not None and known.shards is not None and optimizer in known.shards.outdated:
        change(state, model, shards=replace(known.shards, outdated=known.shards.outdated - {optimizer}))


def _decay(cls: str, arguments: Arguments) -> float | None:
    """The share of each weight that weight decay subtracts per step; None if parameter groups may differ."""
    given = arguments.value("params", 0)
    if cls not in DECAYS or isinstance(given, Items) or any(argument.star for argument in arguments.given):
        return None
    factors = [
        passed.value if (passed := arguments.get(name, position)) is not None else Const(default)
        for name, position, default in DECAYS[cls]
    ]
    rate, decay = map(number, factors)
    return rate * decay if rate is not None and decay is not None else None


def _epsilon(cls: str, arguments: Arguments) -> float | None:
    """The epsilon of an optimizer's denominators; None if parameter groups may differ."""
    given = arguments.value("params", 0)
    groups = given.values if isinstance(given, Items) else ()
    own = any(isinstance(group, Items) and Const("eps") in (group.keys or ()) for group in groups)
    switched = any(arguments.value(name) not in (None, NONE, FALSE) for name in ELSEWHERE_COMPUTED)
    if cls not in EPSILONS or switched or own or any(argument.star for argument in arguments.given):
        return None
    default, position = EPSILONS[cls]
    passed = arguments.get("eps", position)
    return number(passed.value) if passed is not None else default


def sources(machine: Machine, value: Value | None) -> set[int] | None:
    """The models whose parameters `value` consists of; None if it has others. A dict is a parameter group."""
    if isinstance(value, Items):
        values = value.values
        if value.keys is not None and GROUP in value.keys:
            values = (values[value.keys.index(GROUP)],)
        groups = [sources(machine, item) for item in values if not isinstance(item, Const)]
        return None if None in groups else set().union(*filter(None, groups))
    return _chosen_from(machine, value.symbol) if isinstance(value, Unknown) else None


def _chosen_from(machine: Machine, symbol: int) -> set[int] | None:
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    kind = key[0]
    if kind == "parameters":
        return {parts[0]}
    if kind == "comprehension" and len(parts) == 2 and _is_element(machine, parts[1]):
        return _chosen_from(machine, parts[0])
    if kind == "call" and key[1] == "builtins.filter" and len(parts) == 2:
        return _chosen_from(machine, parts[1])
    if kind == "call" and key[1] in _COLLECTIONS and len(parts) == 1:
        return _chosen_from(machine, parts[0])
    if (viewed := machine.symbols.method(symbol)) is not None and viewed[0] in _VIEWS and viewed[1]:
        return _chosen_from(machine, viewed[1][0])
    if kind == DISPLAY or (parts and (kind in ("Add", GROWN) or (kind == "call" and key[1] == _CHAIN))):
        chosen = [_chosen_from(machine, part) for part in parts]
        return None if None in chosen else set().union(*filter(None, chosen))
    if kind == "either":
        joined = [value for value in key[1:] if isinstance(value, (Items, Unknown))]
        if not parts and len(joined) < len(key) - 1:
            return None
        known = [_chosen_from(machine, part) for part in parts] or [sources(machine, value) for value in joined]
        behind = (*parts, *(value.symbol for value in joined if isinstance(value, Unknown)))
        grown = any(_has_grown(machine, part) for part in behind)
        certain = [models for models in known if models is not None]
        if grown:
            certain = [models for models in certain if not any(models < more for more in certain)]
        return set.intersection(*certain) or None if certain and None not in known else None
    return None


def _has_grown(machine: Machine, symbol: int) -> bool:
    """Whether this is a list to which parameters were added, on one of the joined paths at least."""

    def below(one: int) -> Iterable[int]:
        kind, *joined = machine.symbols.key(one)
        inner = [value.symbol for value in joined if isinstance(value, Unknown)] if kind == "either" else []
        return (*machine.symbols.parts(one), *inner) if kind == "either" else ()

    return any(machine.symbols.key(one)[0] == GROWN for one in machine.symbols.closure(symbol, below))


GROUP = Const("params")
"""The key of the parameters in a parameter group."""


def parameter_of(machine: Machine, value: Value) -> int | None:
    """The model of which `value` is a parameter, as the element of a loop over its parameters or over pairs of them."""
    symbol = symbol_of(machine, value)
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[:2] == ("attribute", "data"):
        return parameter_of(machine, Unknown(parts[0]))
    place = None
    while key[0] == "part":
        place, symbol = key[1], parts[0]
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] == "index" and (model := _by_name(machine, parts[0])) is not None:
        return model
    if key[0] not in ("item", "each") or not parts:
        return None
    source = parts[0]
    if machine.symbols.key(source)[:2] == ("call", "builtins.zip") and isinstance(place, int):
        iterables = machine.symbols.parts(source)
        source = iterables[place] if place < len(iterables) else -1
    held = _chosen_from(machine, source) if source >= 0 else None
    return held.pop() if held is not None and len(held) == 1 else None


def _is_result(machine: Machine, value: Value) -> bool:
    """Whether `value` is a tensor that an operation has computed, or a conversion made, and no parameter."""
    kind = machine.symbols.key(value.symbol)[0] if isinstance(value, (Tensor, Unknown)) else ""
    if isinstance(value, Tensor):
        return kind != "attribute" and not is_trainable_parameter(machine, value.symbol)
    return kind == "converted"


def _is_buffer(machine: Machine, value: Value) -> bool:
    """Whether `value` is a buffer, as the element of a loop over the buffers of a model or over pairs of them."""
    symbol = symbol_of(machine, value)
    while machine.symbols.key(symbol)[0] == "part":
        symbol = machine.symbols.parts(symbol)[0]
    parts = machine.symbols.parts(symbol)
    called = machine.symbols.method(parts[0]) if machine.symbols.key(symbol)[0] in ("item", "each") and parts else None
    return called is not None and called[0] in _BUFFERS


def _by_name(machine: Machine, symbol: int) -> int | None:
    """The model whose parameters a dictionary has by their names; None for anything else."""
    key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
    if key[0] != "call" or key[1] not in _DICTIONARIES:
        return None
    held = set[int]().union(*(_chosen_from(machine, part) or () for part in parts))
    return held.pop() if len(held) == 1 else None


def _is_element(machine: Machine, symbol: int) -> bool:
    """Whether a comprehension collects its elements, or parts of them (`p for name, p in ...`)."""
    kind = machine.symbols.key(symbol)[0]
    return kind == "each" or (kind == "part" and _is_element(machine, machine.symbols.parts(symbol)[0]))


def _origins(machine: Machine, value: Value | None) -> frozenset[int]:
    """The symbols from which `value` is computed."""
    if isinstance(value, Items):
        return frozenset().union(*(_origins(machine, item) for item in value.values))
    todo, found = [value.symbol] if isinstance(value, Unknown) else [], set()
    while todo:
        symbol = todo.pop()
        if symbol not in found:
            found |= {symbol, root(machine, symbol)}
            todo += machine.symbols.parts(symbol)
    return frozenset(found)


def meet(
    machine: Machine, state: State, node: cst.Call, scaler: Scaler, optimizer: Optimizer, stage: Stage | None
) -> None:
    """Report an unscale, or a step at `stage`, of an optimizer whose parameters do not allow it."""
    if not state[ModelStates].known:
        return
    trained = machine[Parameters].trained.get(optimizer.symbol, UNSEEN)
    known = trained_model(state, trained)
    model = state[ModelStates].known.get(known, Model()) if known is not None else Model()
    half = (model.half or model.perhaps) if not unscales_half(machine) else None
    unscales = stage is None or (stage.state is OptState.READY and trained.plain)
    if half is not None and unscales and not is_off(machine, state, scaler.enabled):
        machine.emit(
            state, HalfUnscaled, node, scaler=scaler, cast=half, guesses=machine.guesses_for(half),
            premises=() if model.half is not None else (Premise.FLOAT16_CHOSEN,),
        )  # fmt: skip
    elif stage is not None and (half is None or not trained.plain):
        step(machine, state, node, optimizer)
    _emit_shards(machine, state, scaler, {optimizer.symbol})


def trained_model(state: State, trained: Trained) -> int | None:
    """The model that an optimizer trains; of several the one whose parameters are or can be half by now."""
    return trained.model if trained.model is not None else _one_in_half(state, trained.models)


def loads_models(machine: Machine) -> bool:
    """Whether the program names a method by which libraries make models in a dtype."""
    return any(not chunk.words.isdisjoint(_LOADERS) for chunk in machine.program.chunks)


def unscales_half(machine: Machine) -> bool:
    """Whether the program replaces the method by which scalers refuse float16 gradients."""
    return any(UNSCALES in chunk.words for chunk in machine.program.chunks)


def step(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer) -> None:
    """Report a step of an optimizer whose parameters are half, unless within a test of a few steps."""
    trained = machine[Parameters].trained.get(optimizer.symbol, UNSEEN)
    made = machine[CallIndex].index.made.get(optimizer.symbol)
    symbol = trained_model(state, trained)
    if symbol not in state[ModelStates].known or made is None or is_within_test(machine.calls):
        return
    model = state[ModelStates].known[symbol]
    known = [("float16", model.half), ("bfloat16", model.bfloat16), *filter(None, (model.layer, model.part))]
    for dtype, cast in known:
        if cast is not None and not trained.copies:
            machine.emit(
                state, HalfStepped, node, dtype=dtype, cast=cast, made=made, cls=optimizer.cls,
                epsilon=trained.epsilon, decay=trained.decay, shards=model.shards, guesses=machine.guesses_for(cast),
                premises=(Premise.UPDATED,) if (dtype, cast) == model.part else (),
            )  # fmt: skip
    if model.shards is not None:
        machine.emit(
            state, ShardedStep, node, made=made, shards=model.shards,
            gradients=carrying(gradients_of(machine, state, optimizer.symbol)),
            outdated=optimizer.symbol in model.shards.outdated,
        )  # fmt: skip


def leave(machine: Machine, state: State, values: Iterable[Value]) -> None:
    """Report, at the end of a function that holds these values, the plain scalers of a sharded model."""
    if not any(model.sharded for model in state[ModelStates].known.values()):
        return
    held = list(values)
    found = [value for value in held if isinstance(value, (Optimizer, Unknown)) and _is_optimizer(machine, value)]
    for value in found:
        maker = machine.symbols.key(value.symbol)[1:2] if isinstance(value, Unknown) else ()
        machine.record_guesses(value.symbol, OPTIMIZER_MAKER.guesses(str(*maker)) if maker else ())
    optimizers = {value.symbol for value in found}
    for scaler in [value for value in held if isinstance(value, Scaler)]:
        _emit_shards(machine, state, scaler, optimizers)


def _is_optimizer(machine: Machine, value: Optimizer | Unknown) -> bool:
    """Whether `value` is an optimizer, or the result of an unseen function named after one."""
    key = machine.symbols.key(value.symbol)
    return isinstance(value, Optimizer) or (key[0] == "call" and OPTIMIZER_MAKER.search(str(key[1])) is not None)


def _emit_shards(machine: Machine, state: State, scaler: Scaler, optimizers: Set[int]) -> None:
    shards = {symbol: model.sharded for symbol, model in state[ModelStates].known.items() if model.sharded is not None}
    if not shards or scaler.created is None or is_off(machine, state, scaler.enabled):
        return
    for optimizer in optimizers:
        known = machine[Parameters].trained.get(optimizer)
        origins = known.origins if known is not None else _origins(machine, Unknown(optimizer))
        for model, wrapped in shards.items():
            if model in origins:
                machine.emit(
                    state, ScalerMeetsShards, scaler.created, scaler=scaler, wrapped=wrapped,
                    guesses=machine.guesses_for(optimizer),
                )  # fmt: skip
                return


def _called_by(statement: cst.CSTNode) -> cst.Attribute | None:
    """The method over whose result a loop goes."""
    called = statement.iter.func if isinstance(statement, cst.For) and isinstance(statement.iter, cst.Call) else None
    return called if isinstance(called, cst.Attribute) else None


def _looped_part(statement: cst.CSTNode, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The part of a model, outside of the loops in `statement`, of which their variable `node` is a part."""
    loops = {loop.target: loop.iter for loop in every(statement, cst.For)}
    held = {name: iterated for target, iterated in loops.items() for name in target_names(target)}
    looped = False
    while True:
        if isinstance(node, cst.Name) and node.value in held:
            node, looped = held.pop(node.value), True
        elif isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _PARTS:
            node = node.func.value
        elif (
            isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in _ORDERS and node.args
        ):
            node = node.args[0].value
        else:
            return node if looped and dotted(node) else None


def _changes_of_training(statement: cst.CSTNode) -> list[tuple[cst.BaseExpression, bool]]:
    """What a statement does to `requires_grad`: the owners, or other calls, and whether it is set to True."""
    found: list[tuple[cst.BaseExpression, bool]] = []
    for node in walk(statement):
        if not isinstance(node, (cst.Assign, cst.Call)):
            continue
        values = [node.value] if isinstance(node, cst.Assign) else [argument.value for argument in node.args]
        changed = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.func]
        enables = all(isinstance(one, cst.Name) and one.value == "True" for one in values)
        owners = [one.value for one in changed if isinstance(one, cst.Attribute) and one.attr.value in FREEZING]
        found += [(owner, enables) for owner in owners]
        if isinstance(node, cst.Call):
            found += [(node, False) for one in node.args if one.keyword is not None and one.keyword.value in FREEZING]
    return found


class Parameters(Tracker):
    """Tracks the dtypes, shards and devices of parameters.

    `trained` maps optimizers to the parameters they update, `chosen` are casts to float16 or another dtype by a
    setting. `quantizers` maps configurations of bitsandbytes to their half compute dtype, and the argument;
    `copying` maps configurations of adapters to whether copies of layers are trained, too, and `adapted` calls of
    peft that run to the cast of what they train. `parts` maps pipelines to the models that they hold. `lifted` are
    values that are converted to another dtype than half, `mixed` models of which a part is, and `undone` casts to a
    chosen dtype after which the parameters may have been cast back on a path. `roots` caches the root of joins,
    whose paths grow exponentially. `moves` holds the device types to which functions move models, None for those
    that are not certain. `loaded` are the half dtypes in which models were loaded, and the calls, whatever unseen code
    has done with them since.
    """

    triggers = frozenset({"half", "float16", "bfloat16"})
    methods = CONVERSIONS | {"parameters", "named_parameters", "trainable_parameters"}
    part = ModelStates

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.roots: dict[int, int] = {}
        self.moves: dict[int, dict[cst.CSTNode | None, set[str | None]]] = {}
        self.trained: dict[int, Trained] = {}
        self.chosen: set[cst.CSTNode] = set()
        self.lifted: set[int] = set()
        self.mixed: set[int] = set()
        self.loaded: dict[int, tuple[str, cst.CSTNode]] = {}
        self.undone: set[cst.CSTNode | None] = set()
        self.parts: dict[int, list[int]] = {}
        self.quantizers: dict[int, tuple[str, cst.CSTNode]] = {}
        self.copying: dict[int, bool] = {}
        self.adapted: dict[cst.CSTNode, dict[str, cst.CSTNode]] = {}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Layers that are constructed in a dtype, in a file that names a half one, and optimizers beside sharding."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        half = not said.isdisjoint(self.triggers)
        layers = frozenset[str]().union(*map(_layers_with_dtypes, chunks)) if half else frozenset[str]()
        shards = not said.isdisjoint(_SHARDING) and not self.machine.wanted.isdisjoint(_OF_OPTIMIZERS)
        makes = _MAKES & said if shards else frozenset[str]()
        return Words(calls=layers | makes | (_DEFAULTS & said if half else frozenset()))

    def handles_library_call(self, name: str) -> bool:
        """Whether this wraps a model, or sets the dtype of those that follow."""
        return name.startswith("torch.") and (name.rpartition(".")[2] in WRAPPERS or name in DEFAULT_SETTERS)

    def library_call(self, state: State, call: Call) -> Value | None:
        """Return the model that a wrapper leaves as it is."""
        assert isinstance(call.callee, Ref)
        given = call.arguments.values
        if call.callee.name in DEFAULT_SETTERS:
            _set_default(self.machine, state, call.node, given[0] if given else None)
            return None
        forget_devices(self.machine, state, given[:1])
        return given[0] if given else None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `parameters()`, and casts of models."""
        assert call.owner is not None
        if call.name in ("parameters", "named_parameters", "trainable_parameters"):
            self.machine.idle.add(call.node)
            return self.machine.unknown("parameters", parts=(symbol_of(self.machine, call.owner),))
        if is_conversion(call):
            cast(self.machine, state, call.node, call.owner, call.name, call.arguments)
        return None

    def unseen(self, state: State, call: Call) -> None:
        """Forget the dtypes of models that escape to unseen code."""
        if call.entered is not None:
            return
        adapts = isinstance(call.callee, Ref) and call.callee.name in ADAPTING
        before = self._trained_in_half(state, call) if adapts or call.name == ADDING else {}
        if not READS_PARAMETERS.search(last_name(call.node.func)):
            forget = forget_dtypes if before else _may_be_cast_back
            members = [_members(self.machine, value) for value in call.arguments.values]
            forget(self.machine, state, [value for several in members for value in several])
        changes = CHANGES_PARAMETERS.search(call.name) and call.name not in SWITCHES_ADAPTERS
        if call.owner is not None and not isinstance(call.callee, Ref) and changes:
            forget_dtypes(self.machine, state, [call.owner])
        if before and call.owner is not None and call.name == ADDING:
            change(state, root(self.machine, symbol_of(self.machine, call.owner)), **before)
        elif before:
            self.adapted[call.node] = before

    def _trained_in_half(self, state: State, call: Call) -> dict[str, cst.CSTNode]:
        """The cast to half of a model to which a call adds weights in the model's dtype; empty for other calls.

        Weights that are added to bfloat16 count where a script asks for their dtype.
        """
        adds = call.name == ADDING
        model = call.owner if adds else call.arguments.value("model", 0)
        known = state[ModelStates].known.get(root(self.machine, symbol_of(self.machine, model))) if model else None
        config = call.arguments.value("adapter_config", 0) if adds else call.arguments.value("peft_config", 1)
        copies = self.copying.get(config.symbol) if isinstance(config, Unknown) else None
        if known is None or copies is None or not (adds or copies or call.arguments.value(CASTS_ADAPTERS) == FALSE):
            return {}
        dtype, cast = known.stored or ("", None)
        if cast is None or (dtype != "float16" and call.arguments.value(CASTS_ADAPTERS) != FALSE):
            return {}
        return {"half" if dtype == "float16" else dtype: cast}

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record a model loaded by a library."""
        if not isinstance(call.callee, Ref) or call.entered is not None:
            return
        if call.callee.name in QUANTIZERS and isinstance(result, Unknown):
            self._configured(result.symbol, call.arguments)
        elif call.callee.name in ADAPTERS and isinstance(result, Unknown):
            self.copying[result.symbol] = call.arguments.value(COPIED) not in (None, NONE)
        elif call.node in self.adapted:
            change(state, symbol_of(self.machine, result), **self.adapted.pop(call.node))
        elif is_configuration(call.callee.name):
            asked = _asked_dtype(call.arguments)
            if asked is not None:
                state.set_attribute(symbol_of(self.machine, result), ASKED_DTYPES[0], asked)
        elif makes_from_configuration(call.callee.name):
            _make(self.machine, state, call.node, result, call.arguments)
        elif PRETRAINED.search(call.callee.name):
            if call.callee.name.startswith(PIPELINES):
                held = [argument.value for argument in call.arguments.given if argument.keyword]
                self.parts[symbol_of(self.machine, result)] = [symbol_of(self.machine, value) for value in held]
            load(self.machine, state, call.node, call.callee.name, result, call.arguments)

    def _configured(self, config: int, arguments: Arguments) -> None:
        """Record the half compute dtype that a configuration sets for quantized weights."""
        asked, eight = arguments.get(COMPUTE_DTYPE), arguments.get(IN_8_BITS)
        if eight is not None and eight.value == TRUE:
            self.quantizers[config] = DTYPE_IN_8_BITS, eight.node
        elif asked is not None and arguments.value(IN_4_BITS) == TRUE:
            value = asked.value
            name = DTYPE_NAMES.get(str(value.value)) if isinstance(value, Const) else None
            dtype = name or dtype_of(self.machine, value)
            if dtype in HALF_DTYPES:
                self.quantizers[config] = str(dtype), asked.node

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """Record a layer that is constructed in half, and a model that is where half is the default."""
        if isinstance(result, Instance) and isinstance(call.callee, Class):
            self._made_in_default(state, result)
        if not isinstance(call.callee, Ref) or not isinstance(result, (Module, Unknown)):
            return None
        argument = LAYER_DTYPES.get(call.callee.name) if isinstance(result, Unknown) else "dtype"
        asked = call.arguments.value(argument) if argument is not None else None
        dtype = dtype_of(self.machine, asked) if asked is not None else None
        layer: tuple[str, cst.CSTNode] | None = (str(dtype), call.node) if dtype in HALF_DTYPES else None
        if layer is None and isinstance(result, Module) and result.parts:
            layer = _layer_of(self.machine, state, result)
        if layer is not None:
            change(state, result.symbol, layer=layer)
        return None

    def _made_in_default(self, state: State, model: Instance) -> None:
        default = state[ModelStates].default
        if default is not None:
            dtype, node = default
            change(state, model.symbol, **{"half" if dtype == "float16" else "bfloat16": node})

    def joined(self, left: Value, right: Value, joint: Value) -> None:
        """Two optimizers of one model, joined to one; of one of unseen construction nothing else is known."""
        if not (isinstance(left, Optimizer) and isinstance(right, Optimizer) and isinstance(joint, Optimizer)):
            return
        known = [self.trained[value.symbol] for value in (left, right) if value.symbol in self.trained]
        if len({one.model for one in known}) == 1:
            origins = frozenset().union(*(one.origins for one in known))
            plain, copies = all(one.plain for one in known), any(one.copies for one in known)
            models = frozenset().union(*(one.models for one in known))
            self.trained.setdefault(joint.symbol, Trained(known[0].model, origins, plain, copies=copies, models=models))

    def call_skipped(
        self, state: State, function: Function, positional: Sequence[Value], keywords: Mapping[str, Value]
    ) -> None:
        """Forget the dtypes of models passed to a call that is not interpreted, unless it only runs them."""
        known = state[ModelStates].known
        given: list[tuple[int | str, Value]] = [*enumerate(positional), *keywords.items()]
        changed = [
            value
            for place, value in given
            if root(self.machine, symbol_of(self.machine, value)) not in known or not only_runs(function, place)
        ]
        forget_dtypes(self.machine, state, changed)

    def statement_skipped(self, state: State, statement: cst.CSTNode) -> None:
        """Forget the dtypes that a statement which is not interpreted may change."""
        if self.machine.slice.mentions(statement, CONVERTING):
            forget_dtypes(self.machine, state)
        elif self.machine.slice.mentions(statement, FREEZING):
            self._gradients_set(state, statement)

    def _gradients_set(self, state: State, statement: cst.CSTNode) -> None:
        """Freeze models, or thaw them, as a statement that is not interpreted may do."""
        changes = _changes_of_training(statement)
        if not all(enables for _, enables in changes):
            freeze(self.machine, state, self._looped_over(state, statement))
            return
        for owner, _ in changes:
            thaw(self.machine, state, parameter_of(self.machine, self.machine.evaluate(state, owner)))
            if (part := _looped_part(statement, owner)) is not None:
                thaw(self.machine, state, symbol_of(self.machine, self.machine.evaluate(state, part)))

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle `parameter.data = value` and `model.layer = value`."""
        if target.attr.value == "requires_grad" and value == TRUE:
            thaw(self.machine, state, parameter_of(self.machine, owner))
        elif target.attr.value == "requires_grad" and not _is_result(self.machine, owner):
            freeze(self.machine, state, self._whole(parameter_of(self.machine, owner)))
        elif target.attr.value == "data" and not isinstance(owner, Instance):
            if not _is_buffer(self.machine, owner):
                _may_be_cast_back(self.machine, state)
        elif not isinstance(value, Const) and not _has_no_parameters(self.machine, state, value):
            layer = (
                _half_parameter(self.machine, value)
                or _layer_of(self.machine, state, value)
                or _layer_of(self.machine, state, owner)
            )
            part = _part_of(self.machine, state, value) or _part_of(self.machine, state, owner, whole=False)
            whole = root(self.machine, symbol_of(self.machine, owner))
            held = state[ModelStates].known.get(whole, Model())
            forget_dtypes(self.machine, state, [owner])
            if held.stored is not None and isinstance(owner, Unknown) and isinstance(value, (Instance, Module)):
                change(state, whole, frozen=held.stored)
            if (layer or part) is not None and isinstance(owner, Instance):
                thawed = part is not None and held.thawed
                change(state, root(self.machine, owner.symbol), layer=layer, part=part, thawed=thawed)
        return None

    def _looped_over(self, state: State, statement: cst.CSTNode) -> list[Value] | None:
        """The model over whose parameters a loop goes; None for other statements, and for a part of a model."""
        called = _called_by(statement)
        if called is None or called.attr.value != "parameters":
            return None
        return self._whole(self._model_of_loop(state, statement))

    def _model_of_loop(self, state: State, statement: cst.CSTNode) -> int | None:
        """The model, or the layer of one, over whose parameters, named or not, a loop goes."""
        called = _called_by(statement)
        if called is None or called.attr.value not in _ITERATED or not dotted(called.value):
            return None
        return symbol_of(self.machine, self.machine.evaluate(state, called.value))

    def _whole(self, model: int | None) -> list[Value] | None:
        """A model that is no part of another one."""
        is_part = model is None or self.machine.symbols.key(root(self.machine, model))[0] == "attribute"
        return None if model is None or is_part else [Unknown(model)]

    def frame_ends(self, state: State, values: Iterable[Value]) -> None:
        """Report the scalers of a sharded model at the end of the function."""
        leave(self.machine, state, values)
