"""Frameworks that scale the loss and step the optimizer themselves: Accelerate, Fabric, Lightning's manual mode.

A prepared optimizer is known by its symbol. Gradients from the framework's own backward are its responsibility: the
state only records their manager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from amplint.premises import Premise
from amplint.semantics.accumulation.windows import record_backward
from amplint.semantics.configs.display import Reader, get
from amplint.semantics.events import (
    AllHalf,
    Bypassed,
    ClippedNothing,
    ClippedTooEarly,
    Gradients,
    GradState,
    ManagedBackward,
    Setting,
)
from amplint.semantics.frameworks import trainers
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Owners, Progress, gradients_of
from amplint.semantics.models.optimized import Optimizers, trained_model, unscales_half
from amplint.semantics.python import attributes
from amplint.semantics.python.calls import unseen
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Handler, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import ACCELERATOR, dotted
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.facts import Fact, compatible, is_on
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Autocast,
    Const,
    Function,
    Instance,
    Items,
    Manager,
    OneOf,
    Optimizer,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import walk
from amplint.torchlib.frameworks import (
    BY_HAND,
    CLIPPING,
    COLLECTING,
    DIVIDING,
    LAUNCHING,
    LOOPS,
    MANAGERS,
    NEUTRAL_METHODS,
    PRECISION_PARAMETER,
    PRECISIONS,
    PREPARING,
    SCALED_IN,
    TRAINER_STEP,
    UNWRAPPING,
    WINDOW,
    is_lightning_module,
)
from amplint.torchlib.names import HALF_DTYPES

PREPARED = "prepared"
_MICRO_BATCHES = "micro-batches of a window"
_PLUGIN_STEPS = "num_steps"
_PLUGINS = ("accelerate.utils.GradientAccumulationPlugin", "accelerate.GradientAccumulationPlugin")
_NAMES = {"float32": "no", "float16": "fp16", "bfloat16": "bf16"}
"""The dtype of autocast regions -> what `Accelerator.mixed_precision` returns."""
_UNSCALING = frozenset({"unscale_gradients", "clip_grad_norm_", "clip_grad_value_", "clip_gradients"})
_LIGHTNING_HARMLESS = frozenset({"toggle_optimizer", "untoggle_optimizer", "clip_gradients", "lr_schedulers"})
_RUNS_BACKWARD = frozenset({"manual_backward", "backward", "automatic_optimization"})
_PART_OF = frozenset({"part", "index", "item", "each"})


def make(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Manager:
    """The object that a call of one of the `MANAGERS` constructs."""
    kind = MANAGERS[name]
    symbol = machine.symbols.intern("manager", id(node), machine.sites)
    converts = trainers.converted_to(machine, arguments.value("precision")) if kind == "fabric" else None
    if converts is not None and trainers.leaves_precision(machine, arguments, converts=True):
        machine[Frameworks].halving[symbol] = *converts, node
    asked = arguments.value(PRECISION_PARAMETER[kind]) if kind == "accelerate" else None
    if isinstance(asked, (Unknown, OneOf)):
        machine[Frameworks].asked[symbol] = asked
    manager = Manager(
        symbol,
        kind,
        _precision(kind, arguments) or _launched_with(machine, kind, arguments),
        _accumulates(arguments),
        _steps(machine, state, symbol, arguments),
    )
    known = machine[Frameworks].made.get(symbol, (manager, state.facts))[1]
    machine[Frameworks].made[symbol] = (
        manager,
        {key: fact for key, fact in state.facts.items() if known.get(key) == fact},
    )
    return manager


def _unseen_accelerator(machine: Machine, symbol: int) -> Manager:
    """The `Accelerator` for `symbol`, constructed in unseen code."""
    manager = machine.symbols.intern("manager", parts=(symbol,))
    steps = machine.unknown(_MICRO_BATCHES, parts=(manager,))
    return Manager(manager, "accelerate", None, True, steps, may_be_none=True)


def _precision(kind: str, arguments: Arguments) -> str | None:
    given = arguments.value(PRECISION_PARAMETER[kind])
    if kind == "fabric" and given is None and arguments.given:
        return "float32" if all(argument.keyword for argument in arguments.given) else None
    if given is None and arguments.value("fp16") == TRUE:
        return "float16"
    return PRECISIONS.get(given.value) if isinstance(given, Const) else None


def _launched_with(machine: Machine, kind: str, arguments: Arguments) -> str | None:
    """The precision that `accelerate launch` sets, if configuration files are taken into account."""
    if not machine.configs or kind != "accelerate" or any(argument.star for argument in arguments.given):
        return None
    if any(arguments.get(name) for name in ("mixed_precision", "fp16", "deepspeed_plugin", "fsdp_plugin")):
        return None
    file = machine.program.launched_by()
    if file is None:
        return None
    settings = Reader(machine.fresh).value(file.root)
    asked = get(settings, "mixed_precision") if isinstance(settings, Items) else None
    machine.program.assumed[file.path] = file
    return PRECISIONS.get(asked.value) if isinstance(asked, Const) else None


def _accumulates(arguments: Arguments) -> bool:
    hidden = any(argument.star for argument in arguments.given) or arguments.get("gradient_accumulation_plugin")
    return bool(hidden) or arguments.value("gradient_accumulation_steps") not in (None, Const(1))


def _steps(machine: Machine, state: State, manager: int, arguments: Arguments) -> Value | None:
    """The number of micro-batches in a window, None if it is known to be one.

    It is unknown if an unseen plugin or the launcher sets it.
    """
    given = arguments.value("gradient_accumulation_steps")
    plugin = arguments.value("gradient_accumulation_plugin")
    if isinstance(plugin, Unknown):
        given = state.heap.get(plugin.symbol, {}).get(_PLUGIN_STEPS)
    if given is None:
        return machine.unknown(_MICRO_BATCHES, parts=(manager,))
    return given if given not in (NONE, Const(1)) else None


def call_method(
    machine: Machine, state: State, node: cst.Call, manager: Manager, name: str, arguments: Arguments
) -> Value | None:
    """The result of `manager.name(...)`; None for an unknown method."""
    if manager.kind in LOOPS:
        return trainers.run(machine, state, node, manager, name, arguments)
    if name in PREPARING or name.startswith("setup_dataloaders"):
        return _prepared(machine, manager, arguments)
    if name == "backward" and arguments.given:
        return _backward(machine, state, node, manager, arguments)
    if name == UNWRAPPING and arguments.given:
        return arguments.values[0]
    if name in NEUTRAL_METHODS:
        called = machine.unknown("attribute", name, parts=(manager.symbol,)).symbol
        found = unseen_result(machine, state, Callee(called), arguments, node, (called,))
        return _collected(machine, arguments.values[0], found) if name in COLLECTING and arguments.given else found
    if name in _UNSCALING:
        if name in CLIPPING:
            _record_clip(machine, state, node)
        _record_unscaled(state, manager)
        return Unknown(machine.fresh())
    if name == LAUNCHING and manager.kind == "fabric":
        return _launched(machine, state, node, manager, arguments)
    if name == "autocast":
        enabled = FALSE if manager.precision == "float32" else machine.unknown("mixed", parts=(manager.symbol,))
        return Autocast(None, frozenset({manager.precision}) if manager.precision else None, enabled, node)
    return None


def _launched(machine: Machine, state: State, node: cst.Call, manager: Manager, arguments: Arguments) -> Value | None:
    """What the function returns that Fabric runs in its processes with itself as the first argument."""
    function = arguments.values[0] if arguments.given else None
    if not isinstance(function, Function) or any(argument.star for argument in arguments.given):
        return None
    positional = [argument.value for argument in arguments.given[1:] if argument.keyword is None]
    keywords = {argument.keyword: argument.value for argument in arguments.given if argument.keyword is not None}
    return call_function(machine, state, function, [manager, *positional], keywords, node)


def _collected(machine: Machine, given: Value, otherwise: Value) -> Value:
    """The tensors of all ranks, in the dtypes of `given`; `otherwise` where these are unknown."""
    if isinstance(given, Items):
        return Items(tuple(_collected(machine, one, Unknown(machine.fresh())) for one in given.values), given.keys)
    if isinstance(given, Tensor) and given.dtypes is not None:
        return replace(given, symbol=machine.fresh(), rank=None, scaled=None)
    return otherwise


def call_lightning(
    machine: Machine, state: State, node: cst.Call, owner: Instance, name: str, arguments: Arguments
) -> Value | None:
    """The result of `self.name(...)` in a Lightning module with manual optimization; None for any other call."""
    if name not in _LIGHTNING_HARMLESS | {"optimizers", "manual_backward"} or not _is_manual(machine, state, owner):
        return None
    manager = Manager(machine.symbols.intern("manager", parts=(owner.symbol,)), "lightning", None, False)
    if name == "manual_backward" and arguments.given:
        return _backward(machine, state, node, manager, arguments)
    if name in BY_HAND:
        _clipped_by_hand(machine, state, node)
    if name == "optimizers":
        if arguments.given:
            return None
        return Optimizer(machine.symbols.intern(PREPARED, manager, parts=(owner.symbol,)))
    return Unknown(machine.fresh())


def _is_manual(machine: Machine, state: State, owner: Instance) -> bool:
    bases = (
        base for cls in attributes.lineage(machine, state, owner.cls) for base in attributes.bases(machine, state, cls)
    )
    if not any(isinstance(base, Ref) and is_lightning_module(base.name) for base in bases):
        return False
    return attributes.member(machine, state, owner, "automatic_optimization") == FALSE


def _prepared(machine: Machine, manager: Manager, arguments: Arguments) -> Value:
    values = tuple(_mark(machine, manager, value) for value in arguments.values)
    if any(argument.star for argument in arguments.given):
        return machine.unknown(PREPARED, manager, parts=tuple(symbol_of(machine, value) for value in values))
    return values[0] if len(values) == 1 else Items(values)


def _mark(machine: Machine, manager: Manager, value: Value) -> Value:
    if isinstance(value, Items):
        return Items(tuple(_mark(machine, manager, item) for item in value.values), value.keys)
    if not isinstance(value, (Optimizer, Unknown)):
        return value
    symbol = machine.symbols.intern(PREPARED, manager, parts=(value.symbol,))
    owner = machine[Owners].known.get(value.symbol)
    if owner is not None:
        machine[Owners].known[symbol] = owner
    named = machine[CallIndex].index.trained
    if value.symbol in named:
        named[symbol] = named[value.symbol]
    if value.symbol in machine[Optimizers].trained:
        machine[Optimizers].trained[symbol] = machine[Optimizers].trained[value.symbol]
    return replace(value, symbol=symbol)


def manager_of(machine: Machine, optimizer: int) -> Manager | None:
    """The manager that has prepared an optimizer; None if none certainly has."""
    symbol = optimizer
    while machine.symbols.key(symbol)[0] in _PART_OF:
        symbol = machine.symbols.parts(symbol)[0]
    kind, *more = machine.symbols.key(symbol)
    return more[0] if kind == PREPARED and isinstance(more[0], Manager) else None


def is_kept(machine: Machine, optimizer: int) -> bool:
    """Whether Lightning's trainer holds an optimizer, which every call of `self.optimizers()` returns again."""
    manager = manager_of(machine, optimizer)
    return manager is not None and manager.kind == "lightning"


def _backward(machine: Machine, state: State, node: cst.Call, manager: Manager, arguments: Arguments) -> Value:
    loss = arguments.given[0]
    machine.idle.add(node)
    machine[Frameworks].passes[node] = manager
    converts = machine[Frameworks].halving.get(manager.symbol)
    if converts is not None:
        dtype, premises, made = converts
        machine.emit(state, AllHalf, node, dtype=dtype, made=made, runs="Fabric", premises=premises)
    machine.emit(state, ManagedBackward, node, loss=loss.value, manager=manager)
    if manager.kind not in DIVIDING or _runs_by_hand(machine, manager):
        record_backward(machine, state, node, loss.value)
    state.note(node, "the framework runs backward")
    fresh = Gradients(GradState.UNKNOWN, backward=node, manager=manager)
    state.change(Progress).gradients = dict.fromkeys([ANY_OPTIMIZER, *state[Progress].gradients], fresh)
    return Const(None)


def _runs_by_hand(machine: Machine, manager: Manager) -> bool:
    """Whether a script counts micro-batches itself, beside a framework that is not asked to."""
    return not manager.accumulates and not any(WINDOW in chunk.words for chunk in machine.program.chunks)


def _record_clip(machine: Machine, state: State, node: cst.Call) -> None:
    """Record whether all gradients are cleared that `node` clips."""
    known = state[Progress].gradients.values()
    cleared = [one.cleared for one in known if one.state is GradState.NONE and one.cleared is not None]
    clips = machine[Frameworks].clips
    machine[Frameworks].own_clips.add(node)
    clips[node] = cleared[0] if cleared and len(cleared) == len(known) and clips.get(node, cleared[0]) else None


def _record_unscaled(state: State, manager: Manager) -> None:
    """Record that the gradients of `manager` are unscaled."""
    for optimizer, known in state[Progress].gradients.items():
        if known.manager == manager:
            state.change(Progress).gradients[optimizer] = replace(known, manager=None)


def stepped(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer) -> None:
    """Report an `optimizer.step()` with gradients the framework did not compute, or of float16 parameters."""
    manager = manager_of(machine, optimizer.symbol)
    trained = machine[Optimizers].trained.get(optimizer.symbol)
    model = trained_model(state, trained) if trained is not None and trained.plain else None
    if manager is not None and model is not None and (manager.precision == "bfloat16" or not unscales_half(machine)):
        trainers.meet(machine, state, node, manager, model)
    gradients = gradients_of(machine, state, optimizer.symbol)
    if gradients.consumed is not None:
        return
    if manager is not None and gradients.state is GradState.RAW and gradients.raw is not None:
        _emit_bypassed(machine, state, manager, gradients.raw, "backward", node)
    elif manager is None and gradients.state is GradState.UNKNOWN and gradients.backward is not None:
        _stepped_unprepared(machine, state, node, optimizer, gradients.backward)


def _stepped_unprepared(
    machine: Machine, state: State, node: cst.Call, optimizer: Optimizer, backward: cst.CSTNode
) -> None:
    """Report a step of an optimizer, constructed in the script, with gradients that a framework has scaled."""
    manager = machine[Frameworks].passes.get(backward)
    if manager is None or manager.precision not in (None, "float16"):
        return
    if manager.kind in MANAGERS.values() and optimizer.symbol in machine[CallIndex].index.made:
        premises = () if manager.precision is not None else (Premise.FLOAT16_CHOSEN,)
        _emit_bypassed(machine, state, manager, node, "step", backward, premises)


def clipped(machine: Machine, state: State, node: cst.Call, what: str, mutates: bool) -> None:
    """Report PyTorch's own clipping of gradients of a framework, or its measuring of them unless it `mutates` any."""
    if mutates:
        _clipped_by_hand(machine, state, node)
        if clipped_too_early(machine, state, node):
            return
    live = [known for known in state[Progress].gradients.values() if known.consumed is None]
    managers = {known.manager for known in live if known.state is not GradState.NONE}
    if len(managers) == 1 and (manager := managers.pop()) is not None and manager.kind != "lightning":
        if state.facts.get(_syncing(machine, manager)) == FALSE:
            return  # no step takes these gradients as they are
        _emit_bypassed(machine, state, manager, node, what, node, reads=not mutates)


def clipped_too_early(machine: Machine, state: State, node: cst.CSTNode) -> bool:
    """Report that `node` clips in a step of Lightning which leaves the backward pass to the loop; whether it does."""
    running = [function.name.value if isinstance(function, cst.FunctionDef) else "" for function in machine.calls]
    if TRAINER_STEP not in running or not any(
        isinstance(me, Instance) and leaves_backward(machine, state, me)
        for me in [frame.get("self") for frame in state.frames.values()]
    ):
        return False
    inner = len(running) - 1 - running.index(TRAINER_STEP)
    called = machine.sites[-inner] if inner else None
    machine.emit(state, ClippedTooEarly, called or node, clip=node)
    return True


def leaves_backward(machine: Machine, state: State, me: Instance) -> bool:
    """Whether `me` is a Lightning module whose backward pass the loop runs."""
    lineage = [*attributes.lineage(machine, state, me.cls)]
    bases = [base for cls in lineage for base in attributes.bases(machine, state, cls)]
    if not any(isinstance(base, Ref) and is_lightning_module(base.name) for base in bases):
        return False
    return not any(_runs_backward(cls.chunk) for cls in lineage)


@cached_per_chunk
def _runs_backward(chunk: Chunk) -> bool:
    """Whether the code of a class names a backward pass of its own, or manual optimization."""
    if chunk.words.isdisjoint(_RUNS_BACKWARD):
        return False
    return any(isinstance(node, cst.Name) and node.value in _RUNS_BACKWARD for node in walk(chunk.module))


def met_in_hook(machine: Machine, state: State, node: cst.CSTNode, mutates: bool) -> None:
    """Remember that gradients are changed, or measured, in the hook of a Lightning module behind the backward pass."""
    hook = machine.calls[0] if machine.calls else None
    if not isinstance(hook, cst.FunctionDef) or hook.name.value != SCALED_IN or not isinstance(node, cst.Call):
        return
    if any(
        isinstance(me, Instance) and leaves_backward(machine, state, me)
        for me in [frame.get("self") for frame in state.frames.values()]
    ):
        known = machine[trainers.Trainers]
        (known.clipped if mutates else known.measured).append(node)


def _clipped_by_hand(machine: Machine, state: State, node: cst.Call) -> None:
    """Remember explicit clipping of gradients in a Lightning module with manual optimization."""
    live = [known for known in state[Progress].gradients.values() if known.consumed is None]
    if any(known.manager is not None and known.manager.kind == "lightning" for known in live):
        machine[trainers.Trainers].clipped.append(node)


def _emit_bypassed(
    machine: Machine, state: State, manager: Manager, node: cst.CSTNode, call: str, step: cst.CSTNode,
    premises: tuple[Premise, ...] = (), *, reads: bool = False,
) -> None:  # fmt: skip
    chosen = _chosen_precision(machine, state, manager)
    told = replace(manager, precision="float32" if _is_left_wide(machine, state, manager) else chosen)
    if reads and chosen is None:
        premises = (*premises, Premise.FLOAT16_CHOSEN)
    machine.emit(
        state, Bypassed, node, manager=told, call=call, step=step, spelled=spelled(machine, state, manager),
        synced=synced(machine, state, manager), premises=premises, clips=machine[Frameworks].own_clips,
        reads=reads,
    )  # fmt: skip


def _chosen_precision(machine: Machine, state: State, manager: Manager) -> str | None:
    """The precision of `manager`, where a condition chooses it that the path has decided."""
    asked: Value | None = machine[Frameworks].asked.get(manager.symbol)
    while isinstance(asked, Unknown) and machine.symbols.key(asked.symbol)[0] == "if":
        condition, *sides = machine.symbols.parts(asked.symbol)
        holds = is_on(machine.symbols, machine.assumed(state), Unknown(condition))
        if holds is None:
            return manager.precision
        key = machine.symbols.key(sides[not holds])
        asked = key[1] if key[0] == "value" and isinstance(key[1], Const) else Unknown(sides[not holds])
    return PRECISIONS.get(asked.value) if isinstance(asked, Const) else manager.precision


def _is_left_wide(machine: Machine, state: State, manager: Manager) -> bool:
    """Whether a condition that selects half for one object of the framework has left the precision of this one open.

    `manager` may be one of several, of which those count that the assumptions of the path leave.
    """
    made = machine[Frameworks].made
    behind = [symbol for symbol in machine.symbols.derivation(manager.symbol) if symbol in made]
    left = [made[symbol] for symbol in behind if compatible(made[symbol][1], state.facts)]
    halves = [facts for other, facts in made.values() if other.precision in HALF_DTYPES and other.kind == manager.kind]
    return bool(left) and all(
        one.precision is None and not all(compatible(facts, own) for facts in halves) for one, own in left
    )


def synced(machine: Machine, state: State, manager: Manager) -> bool:
    """Whether `manager` is known to be at the end of a window of micro-batches."""
    return state.facts.get(_syncing(machine, manager)) == TRUE


def _syncing(machine: Machine, manager: Manager) -> int:
    """The symbol of `manager.sync_gradients`."""
    return machine.unknown("attribute", "sync_gradients", parts=(manager.symbol,)).symbol


def spelled(machine: Machine, state: State, manager: Manager) -> str | None:
    """An expression for `manager` in the current function."""
    seen: set[str] = set()
    for frame in machine.enclosing(state.frame):
        for name, value in state.frames.get(frame, {}).items():
            if name in seen:
                continue
            seen.add(name)
            if value == manager:
                return name
            held = state.heap.get(value.symbol, {}).items() if isinstance(value, Instance) else ()
            found = next((attribute for attribute, item in held if item == manager), None)
            if found is not None:
                return f"{name}.{found}"
    if manager.kind == "lightning":
        return "self"
    return None


class Frameworks(Tracker):
    """Tracks the objects of frameworks that scale and step themselves.

    `passes` are their backward passes, `halving` are those that convert their modules, each with the dtype, what is
    taken for granted of it, and the call that makes the object. `asked` are the values of the precision that
    Accelerators were made with, where the script leaves them open. `made` are the objects that the script makes, by
    their symbols, each with the facts of all paths that make it. `own_clips` are their calls that clip gradients, and
    `clips` has for each of them what has cleared these on every path.
    """

    triggers = frozenset({"Accelerator", "Fabric", "autocast", "backward", "clip_grad_norm_", "clip_grad_value_"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.passes: dict[cst.CSTNode, Manager] = {}
        self.halving: dict[int, tuple[str, tuple[Premise, ...], cst.CSTNode]] = {}
        self.asked: dict[int, Value] = {}
        self.own_clips: set[cst.CSTNode] = set()
        self.clips: dict[cst.CSTNode, cst.CSTNode | None] = {}
        self.made: dict[int, tuple[Manager, Mapping[Fact, Const]]] = {}

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit `ClippedNothing` for calls that clip cleared gradients alone, where the script runs backward itself."""
        for node, cleared in self.clips.items() if self.machine.complete and self.passes else ():
            if cleared is not None:
                self.machine.emit(State(), ClippedNothing, node, cleared=cleared)

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether an argument is an object of a framework."""
        return any(isinstance(value, Manager) for value in given)

    def library(self) -> Mapping[str, Handler]:
        """`Accelerator` and the like."""
        return {**dict.fromkeys(MANAGERS, self._make), **dict.fromkeys(_PLUGINS, self._plugin)}

    def _make(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        return make(self.machine, state, call.node, call.callee.name, call.arguments)

    def _plugin(self, state: State, call: Call) -> Value | None:
        made, steps = Unknown(self.machine.identity(state, call.node)), call.arguments.value(_PLUGIN_STEPS, 0)
        if steps is not None:
            state.set_attribute(made.symbol, _PLUGIN_STEPS, steps)
        return made

    def method(self, state: State, call: Call) -> Value | None:
        """Handle their methods, and those of a Lightning module with manual optimization."""
        if isinstance(call.owner, Instance):
            return call_lightning(self.machine, state, call.node, call.owner, call.name, call.arguments)
        if isinstance(call.owner, Manager):
            found = call_method(self.machine, state, call.node, call.owner, call.name, call.arguments)
            return found if found is not None else unseen(self.machine, state, call)
        return None

    def attribute_value(self, state: State, owner: Value, name: str) -> Value | None:
        """The name of an Accelerator's precision, where the script sets it, or the value that it was made with."""
        if name == "mixed_precision" and isinstance(owner, Manager) and owner.kind == "accelerate":
            known = Const(_NAMES[owner.precision]) if owner.precision in _NAMES else None
            return known or self.asked.get(owner.symbol)
        return None

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """The manager that a parameter is by its annotation."""
        if name not in MANAGERS:
            return None
        if MANAGERS[name] == "accelerate":
            return _unseen_accelerator(self.machine, symbol)
        manager = self.machine.symbols.intern("manager", parts=(symbol,))
        return Manager(manager, MANAGERS[name], None, True, may_be_none=True)

    def kind_of(self, value: Unknown, path: str, kind: str) -> Value | None:
        """Return an `Accelerator` where the use of a value implies one."""
        return _unseen_accelerator(self.machine, value.symbol) if kind == ACCELERATOR else None

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Emit the assignment of a configuration dictionary."""
        if isinstance(value, Items) and value.keys and (name := dotted(target)) is not None:
            asked = self.machine.program.wanted_mmcv() if Setting.kind in self.machine.wanted else None
            self.machine.emit(state, Setting, node, name=name.rpartition(".")[2], value=value, mmcv=asked)
