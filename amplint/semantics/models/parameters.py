"""Parameters of models: their dtypes, and whether they are trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from amplint.findings import Guessed
from amplint.regex import regex
from amplint.semantics.models.loading import LoadedModels, may_be_float16
from amplint.semantics.models.model_states import Model, ModelStates, change
from amplint.semantics.models.origins import ORDERS, PARTS, held_by, is_buffer, is_result, parameter_of, root
from amplint.semantics.models.placement import forget_devices, move
from amplint.semantics.python.attributes import bases, lineage
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import MODEL, dotted, last_name
from amplint.semantics.tensors.passed import only_runs
from amplint.semantics.tensors.provenance import is_trainable_parameter
from amplint.semantics.tensors.tensors import CONVERSIONS, converts_to, dtype_of, is_conversion
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Class,
    Const,
    Function,
    Instance,
    Items,
    Module,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import CHANGES_PARAMETERS, PRETRAINED, READS_PARAMETERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.float8 import LAYER_DTYPES
from amplint.torchlib.frameworks import (
    ADAPTING,
    ADDING,
    SWITCHES_ADAPTERS,
    WITHOUT_PARAMETERS,
)
from amplint.torchlib.names import DEFAULT_SETTERS, HALF_DTYPES, LEGACY_TENSORS

CONVERTING = frozenset({"float", "float32", "data", "to"})
"""Words without which a statement does not cast parameters to a dtype other than float16."""
FREEZING = frozenset({"requires_grad", "requires_grad_"})
"""Words without which a statement does not freeze parameters."""
WRAPPERS = frozenset({"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "compile", "script"})
_DEFAULTS = frozenset(name.rpartition(".")[2] for name in DEFAULT_SETTERS)
_PLAIN_BASES = Ref("builtins.object"), Ref("abc.ABC")
_ITERATED = frozenset({"parameters", "named_parameters"})
_WITH_DTYPE = regex(r"\b(?:nn|te)\.(\w+)\([^()]*\b(?:params_)?dtype\s*=")
_MODELS = Instance, Module, Unknown


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
    perhaps = node if any(map(may_be_float16, arguments.values)) else None
    if perhaps is not None:
        machine[Parameters].chosen.add(perhaps)
    if not isinstance(owner, (Instance, Module)) and not _is_model(machine, state, owner, node):
        return
    move(machine, state, owner, name, arguments)
    if not converts:
        return
    half, bfloat16 = (node if dtype == kind else None for kind in ("float16", "bfloat16"))
    machine.record_guesses(node, _model_guesses(machine, state, owner, node))
    changes: dict[str, Any] = {"half": half, "bfloat16": bfloat16, "saved": None, "frozen": None, "perhaps": perhaps}
    changes |= {"layer": None, "part": None, "thawed": False}
    converted = symbol_of(machine, owner)
    for model in (converted, *machine[LoadedModels].parts.get(converted, ()), *_loaded_parts(machine, state, owner)):
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
        elif isinstance(one, Unknown) and root(machine, one.symbol) in machine[LoadedModels].loaded:
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


def path_in_model(machine: Machine, part: int) -> tuple[list[str], int]:
    """The attributes that lead from a model to a part of it, last one first, and the model.

    Of a part that was cast to float32, there are none.
    """
    lifted, names, whole = machine[Parameters].lifted, list[str](), part
    while machine.symbols.key(whole)[0] == "attribute" and whole not in lifted:
        names.append(str(machine.symbols.key(whole)[1]))
        whole = root(machine, machine.symbols.parts(whole)[0])
    return names, whole


def cast_on_a_path(machine: Machine, symbol: int) -> cst.CSTNode | None:
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
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in PARTS:
            node = node.func.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in ORDERS and node.args:
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
    """Tracks the dtypes of parameters.

    `chosen` are casts to float16 or another dtype by a setting. `lifted` are values that are converted to another
    dtype than half, `mixed` models of which a part is, and `undone` casts to a chosen dtype after which the parameters
    may have been cast back on a path.
    """

    triggers = frozenset({"half", "float16", "bfloat16"})
    methods = CONVERSIONS | {"parameters", "named_parameters", "trainable_parameters"}
    part = ModelStates

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.chosen: set[cst.CSTNode] = set()
        self.lifted: set[int] = set()
        self.mixed: set[int] = set()
        self.undone: set[cst.CSTNode | None] = set()

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Layers that are constructed in a dtype, in a file that names a half one."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        if said.isdisjoint(self.triggers):
            return Words()
        return Words(calls=frozenset[str]().union(*map(_layers_with_dtypes, chunks)) | (_DEFAULTS & said))

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
        loading = self.machine[LoadedModels]
        adapts = isinstance(call.callee, Ref) and call.callee.name in ADAPTING
        before = loading.trained_in_half(state, call) if adapts or call.name == ADDING else {}
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
            loading.adapted[call.node] = before

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
        elif target.attr.value == "requires_grad" and not is_result(self.machine, owner):
            freeze(self.machine, state, self._whole(parameter_of(self.machine, owner)))
        elif target.attr.value == "data" and not isinstance(owner, Instance):
            if not is_buffer(self.machine, owner):
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
