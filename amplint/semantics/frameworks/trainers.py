"""Objects that run a whole training loop: Hugging Face's Trainer with its arguments, Lightning's Trainer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from amplint.premises import Premise
from amplint.semantics.configs.defaults import texts
from amplint.semantics.events import (
    AllHalf,
    Because,
    Bypassed,
    ClippedScaled,
    Evidence,
    HalfLooped,
    HalfManaged,
    HalvesMixed,
    LoopInRegion,
    PrecisionTwice,
)
from amplint.semantics.models import half_outputs
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.models.origins import adapted, root
from amplint.semantics.models.parameters import Parameters
from amplint.semantics.models.stale_copies import keeps_none
from amplint.semantics.python import attributes
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of, truth
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.tensors import CONVERSIONS, converts_to
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Class,
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
from amplint.source.source import Chunk
from amplint.torchlib.changes import LOADED_AS_SAVED
from amplint.torchlib.frameworks import (
    ALL_HALF,
    ARGUMENT_PARSERS,
    ASKING_FOR_BFLOAT16,
    BY_HAND,
    GONE_SINCE_5,
    LIGHTNING_PACKAGES,
    LOOPS,
    LOSS_SCALING_NAMES,
    MAKES_OPTIMIZER,
    OPTIMIZERS_OF,
    OWN_LOOP,
    PARSING_METHODS,
    PLAIN_STRATEGIES,
    PLAIN_STRATEGY,
    PRECISIONS,
    PREDICTS,
    ROUNDING,
    SCALED_IN,
    SHARDING_STRATEGIES,
    SHARDING_STRATEGY,
    TRAINER_METHODS,
    TRAINER_STEP,
    is_mixed_by_default,
    loop_kind,
    place_of_arguments,
)
from amplint.torchlib.names import DTYPES, HALF_DTYPES

ARGUMENTS, LOOP = "arguments", "loop"
_FLOAT16, _BFLOAT16, _BY_HAND = "fp16", "bf16", "automatic_optimization"
_MODEL, _OLDER = "<model>", "<older version>"
_ARGUMENTS, _CLASSES = "<arguments>", "<classes>"
_OTHER_ENGINES = ("deepspeed", "fsdp", "half_precision_backend", "fp16_full_eval")
_OTHER_WEIGHTS = ("peft_config", "optimizers", "optimizer_cls_and_kwargs")
_NOTHING = (None, NONE, FALSE, Const(""), Items((NONE, NONE)))
_RUNS = frozenset(LOOPS.values())
_LIGHTNING = frozenset({"lightning loop", "half loop"})
_Half = tuple[str, cst.CSTNode, tuple[Premise, ...]]
_CHOSEN = {"float16": Premise.FLOAT16_CHOSEN, "bfloat16": Premise.BFLOAT16_CHOSEN}
_SWITCHED = {
    _FLOAT16: ("float16", Premise.FLOAT16_CHOSEN),
    _BFLOAT16: ("bfloat16", Premise.BFLOAT16_CHOSEN),
}
"""Switches of training arguments -> the precision that each asks for, and what it takes for granted."""
_PARSERS = frozenset(name.rpartition(".")[2] for name in ARGUMENT_PARSERS)
_HALF_WORDS = frozenset({"half", *HALF_DTYPES})


def make(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Manager | None:
    """The trainer, or its arguments, that a call constructs for mixed precision; None for everything else."""
    kind = loop_kind(name)
    if kind is None or any(argument.star for argument in arguments.given):
        return None
    symbol = machine.symbols.intern("manager", id(node), machine.sites)
    if any(arguments.get(name) for name in GONE_SINCE_5):
        state.set_attribute(symbol, _OLDER, TRUE)
    if kind == ARGUMENTS:
        precision = _asked(machine, arguments)
        switches = _switches(machine, arguments)
        for name, value in switches.items():
            state.set_attribute(symbol, name, value)
        is_open = any(isinstance(value, Unknown) or _is_chosen(arguments, name) for name, value in switches.items())
        return Manager(symbol, kind, precision, False) if precision is not None or is_open else None
    if kind == LOOP:
        given = arguments.value("args", place_of_arguments(name))
        if isinstance(given, Instance):
            given = machine[Trainers].acting.get(given.symbol, given)
        model = arguments.value("model", 0)
        if not isinstance(given, Manager) or given.kind != ARGUMENTS or model is None:
            return None
        if any(arguments.value(name) not in _NOTHING for name in _OTHER_WEIGHTS):
            return None
        state.set_attribute(symbol, _MODEL, model)
        state.set_attribute(symbol, _ARGUMENTS, given)
        if _is_older(state, given):
            state.set_attribute(symbol, _OLDER, TRUE)
        return Manager(symbol, kind, given.precision, False)
    asked = arguments.value("precision")
    precision = PRECISIONS.get(asked.value) if isinstance(asked, Const) else None
    converts, premises = converted_to(machine, asked) or (None, ())
    kind = kind if converts is None else "half loop"
    precision = converts or precision
    if precision not in HALF_DTYPES or not leaves_precision(machine, arguments, converts=converts is not None):
        return None
    if premises:
        machine[Trainers].chosen[symbol] = premises
    return Manager(symbol, kind, precision, False)


def converted_to(machine: Machine, asked: Value | None) -> tuple[str, tuple[Premise, ...]] | None:
    """The dtype to which Lightning converts modules for a precision, and what that takes for granted."""
    dtypes = {ALL_HALF[text] for text in texts(machine, asked) if text in ALL_HALF}
    if len(dtypes) != 1:
        return None
    dtype = dtypes.pop()
    return dtype, () if isinstance(asked, Const) else (_CHOSEN[dtype],)


def leaves_precision(machine: Machine, arguments: Arguments, *, converts: bool) -> bool:
    """Whether the strategy and the plugins of Lightning's Trainer, or of Fabric, leave the precision to it.

    FSDP's does where the precision `converts` the module.
    """
    return all(_is_plain(machine, arguments.value(name), converts) for name in ("strategy", "plugins"))


def _is_plain(machine: Machine, value: Value | None, converts: bool) -> bool:
    names = PLAIN_STRATEGIES | SHARDING_STRATEGIES if converts else PLAIN_STRATEGIES
    if isinstance(value, OneOf):
        return all(option in names for option in value.options)
    if isinstance(value, Unknown):
        kind, *more = machine.symbols.key(value.symbol)
        return kind == "call" and str(more[0]).rpartition(".")[2] in (
            PLAIN_STRATEGY, *([SHARDING_STRATEGY] if converts else ()),
        )  # fmt: skip
    return value in _NOTHING or (isinstance(value, Const) and value.value in names)


def _names_of_arguments(said: Set[str], loops: Set[str]) -> frozenset[str]:
    """Classes of training arguments by their names: `TrainingArguments`, or `SFTConfig` beside `SFTTrainer`."""
    beside = {loop.removesuffix("Trainer") + "Config" for loop in loops}
    return frozenset(word for word in said if word.endswith("TrainingArguments") or word in beside)


def _may_scale(arguments: Arguments) -> bool:
    """Whether a setting decides on the precision of Lightning's Trainer, so that it may scale losses."""
    asked = arguments.value("precision")
    if isinstance(asked, OneOf):
        return any(PRECISIONS.get(option) == "float16" for option in asked.options)
    starred = any(argument.star for argument in arguments.given)
    return starred or (asked is not None and not isinstance(asked, Const) and arguments.value("plugins") is None)


def _is_chosen(arguments: Arguments, name: str) -> bool:
    """Whether a conditional expression chooses the value of an argument."""
    given = arguments.get(name)
    return given is not None and isinstance(given.node.value, cst.IfExp)


def _switches(machine: Machine, arguments: Arguments) -> dict[str, Value]:
    """The switches for mixed precision that training arguments are given, if no other engine may run them."""
    if any(arguments.value(name) not in _NOTHING for name in _OTHER_ENGINES):
        return {}
    names = (_FLOAT16, _BFLOAT16) if _rounds(machine, arguments) else (_FLOAT16,)
    return {name: value for name in names if (value := arguments.value(name)) is not None}


def _asked(machine: Machine, arguments: Arguments) -> str | None:
    """The mixed-precision dtype of training arguments; None if another engine may run them."""
    if any(arguments.value(name) not in _NOTHING for name in _OTHER_ENGINES):
        return None
    half, bfloat16 = arguments.value("fp16") == TRUE, arguments.value("bf16") == TRUE
    return "float16" if half else "bfloat16" if bfloat16 and _rounds(machine, arguments) else None


def _rounds(machine: Machine, arguments: Arguments) -> bool:
    """Whether the optimizer that training arguments name, or a default, rounds updates to the dtype of its weights."""
    optimizer = arguments.value("optim")
    names = texts(machine, optimizer)
    return optimizer in (None, NONE) or (bool(names) and names <= ROUNDING)


def run(
    machine: Machine, state: State, node: cst.Call, manager: Manager, name: str, arguments: Arguments
) -> Value | None:
    """Report a half model passed to `trainer.train()` or `trainer.fit(model)`."""
    if name == PREDICTS and manager.kind in _LIGHTNING and manager.symbol not in machine[Trainers].chosen:
        return _predicted(machine, state, node, manager, arguments)
    if LOOPS.get(manager.kind) != name:
        return None
    if manager.kind == "half loop":
        known = machine[Trainers]
        made, premises = known.made[manager.symbol], known.chosen.get(manager.symbol, ())
        machine.emit(state, AllHalf, node, dtype=str(manager.precision), made=made, premises=premises)
        return None
    model = state.heap.get(manager.symbol, {}).get(_MODEL) or arguments.value("model", 0)
    if isinstance(model, Instance) and manager.kind in _LIGHTNING:
        for trained in _optimized(machine, state, model) - {symbol_of(machine, model)}:
            meet(machine, state, node, manager, trained)
    if model is not None:
        _report_computed(machine, state, node, manager, symbol_of(machine, model))
    if model is not None and manager.precision is None:
        _report_chosen_precision(machine, state, node, manager, symbol_of(machine, model))
    elif model is not None:
        meet(machine, state, node, manager, symbol_of(machine, model))
    return None


def _predicted(machine: Machine, state: State, node: cst.Call, manager: Manager, arguments: Arguments) -> Value:
    """The list of what `predict_step` returns, which Lightning runs in the precision of the loop."""
    called = machine.unknown("attribute", PREDICTS, parts=(manager.symbol,)).symbol
    outputs = unseen_result(machine, state, Callee(called), arguments, node, (called,))
    dtype = str(manager.precision)
    made = machine[Trainers].made.get(manager.symbol)
    evidence = Evidence(Because.ANNOUNCED, frozenset({dtype}), f"the Trainer runs the module in {dtype}", made)
    if isinstance(outputs, Unknown):
        half_outputs.record(machine, state, outputs.symbol, evidence)
    return outputs


def _report_computed(machine: Machine, state: State, node: cst.Call, manager: Manager, model: int) -> None:
    """Report quantized weights whose compute dtype is the other half dtype than that of mixed precision."""
    known = state[ModelStates].known.get(adapted(machine, root(machine, model)))
    if known is not None and known.computed is not None and manager.precision in HALF_DTYPES:
        dtype, asked = known.computed
        if dtype != manager.precision:
            machine.emit(state, HalvesMixed, node, precision=manager.precision, cast=asked, adapted=True)


def meet(machine: Machine, state: State, node: cst.Call, manager: Manager, model: int) -> None:
    """Report a `model` trained by `manager` whose parameters already have the dtype for autocast."""
    known = state[ModelStates].known.get(root(machine, model))
    cast = None if known is None else known.half if manager.precision == "float16" else known.bfloat16
    if cast is not None and manager.precision in HALF_DTYPES:
        guesses = machine.guesses_for(cast)
        machine.emit(state, HalfManaged, node, manager=manager, cast=cast, guesses=guesses)
        return
    part = known.part if known is not None else None
    if part is not None and manager.kind in LOOPS and part[0] == manager.precision:
        guesses, premises = machine.guesses_for(part[1]), (Premise.UPDATED,)
        machine.emit(state, HalfManaged, node, manager=manager, cast=part[1], guesses=guesses, premises=premises)
        return
    perhaps = None if known is None else known.perhaps or (known.half if manager.precision is None else None)
    undone = perhaps in machine[Parameters].undone
    if perhaps is not None and manager.precision in (None, "float16") and not undone:
        if manager.precision is None and manager.kind == "accelerate" and _is_configured_without_float16(machine):
            return
        chosen, guesses = replace(manager, precision="float16"), machine.guesses_for(perhaps)
        premises = (Premise.FLOAT16_CHOSEN,)
        machine.emit(state, HalfManaged, node, manager=chosen, cast=perhaps, guesses=guesses, premises=premises)
        return
    other = None if known is None else known.bfloat16 if manager.precision == "float16" else known.half
    if other is not None and manager.precision == "bfloat16" and _is_by_support(machine, other):
        return  # where there is no bfloat16 the arguments refuse it
    if other is not None and manager.precision in HALF_DTYPES:
        details = {"precision": manager.precision, "cast": other}
        machine.emit(state, HalvesMixed, node, guesses=machine.guesses_for(other), **details)
        return
    mixed = manager.kind == LOOP and manager.precision == "bfloat16"
    if mixed and known is not None and known.saved is not None and not _is_older(state, manager):
        version = machine.program.wanted("transformers")
        if version is None or version.has(LOADED_AS_SAVED) is not False:
            machine.emit(state, HalfManaged, node, manager=manager, cast=known.saved, as_saved=True, version=version)


def _is_configured_without_float16(machine: Machine) -> bool:
    """Whether configuration files of the project choose mixed precisions, and none of them float16."""
    named = machine.program.precisions()
    return bool(named) and all(PRECISIONS.get(name) in ("float32", "bfloat16") for name in named)


def _optimized(machine: Machine, state: State, module: Instance) -> set[int]:
    """The models whose parameters the optimizers of a Lightning module update, as far as its method shows."""
    function = attributes.find_method(machine, state, module.cls, OPTIMIZERS_OF)
    if function is None or function.node in machine.calls:
        return set()
    returned = [call_function(machine, state.copy(), function, [module], {}, None)]
    found: set[int] = set()
    while returned:
        value = returned.pop()
        returned += value.values if isinstance(value, Items) else ()
        trained = machine[Optimizers].trained.get(value.symbol) if isinstance(value, Optimizer) else None
        if trained is not None and trained.model is not None:
            found.add(trained.model)
    return found


def _half_weights(machine: Machine, state: State, model: int) -> _Half | None:
    """The half dtype of trained weights, of all or of some, with their cast and what that takes for granted."""
    known = state[ModelStates].known.get(root(machine, model))
    if known is None or known.frozen is not None:
        return None
    if known.stored is not None:
        return *known.stored, ()
    return None if known.part is None else (*known.part, (Premise.UPDATED,))


def _run_wide(machine: Machine, state: State, node: cst.Call, kind: str, halves: Iterable[_Half | None]) -> None:
    """Report half weights that a loop updates without mixed precision."""
    for dtype, cast, premises in filter(None, halves):
        details = {"kind_of_loop": kind, "dtype": dtype, "cast": cast, "premises": premises}
        machine.emit(state, HalfLooped, node, guesses=machine.guesses_for(cast), **details)


def _is_by_support(machine: Machine, cast: cst.CSTNode) -> bool:
    """Whether the code around a cast asks whether the device computes in bfloat16."""
    source = machine.program.source_of(cast)
    return source is not None and not source.chunk_of(cast).words.isdisjoint(ASKING_FOR_BFLOAT16)


def _report_chosen_precision(machine: Machine, state: State, node: cst.Call, manager: Manager, model: int) -> None:
    """Emit what is wrong where `manager` trains half weights in the precision that a command line or a file sets.

    Weights in the other half dtype count where the script itself says when a precision is asked for.
    """
    known = state[ModelStates].known.get(root(machine, model))
    arguments = state.heap.get(manager.symbol, {}).get(_ARGUMENTS)
    if known is None or arguments is None:
        return
    said = state.heap.get(symbol_of(machine, arguments), {})
    switches = [name for name in (_FLOAT16, _BFLOAT16) if name in said]
    for name in switches or (_FLOAT16, _BFLOAT16):
        precision, premise = _SWITCHED[name]
        same, other = (known.half, known.bfloat16) if name == _FLOAT16 else (known.bfloat16, known.half)
        if not switches and name == _FLOAT16:
            same = same or known.perhaps
        asked = said.get(name) or machine.unknown("attribute", name, parts=(symbol_of(machine, arguments),))
        certain = truth(machine, state, asked)
        if certain is False or (same is None and not (switches and other)):
            continue
        premises = () if certain else (premise,)
        if same is not None:
            parsed = () if switches or name == _FLOAT16 else (Premise.NO_ENGINE,)
            machine.emit(
                state, HalfManaged, node, manager=replace(manager, precision=precision), cast=same,
                guesses=machine.guesses_for(same), premises=(*premises, *parsed),
            )  # fmt: skip
        elif other is not None:
            details = {"precision": precision, "cast": other, "guesses": machine.guesses_for(other)}
            machine.emit(state, HalvesMixed, node, premises=premises, **details)
        return


def _is_arguments(machine: Machine, state: State, cls: Value) -> bool:
    """Whether `cls` is a class of training-loop arguments, or derives from one."""
    if isinstance(cls, Class):
        return _derives_from_library(machine, state, cls, ARGUMENTS)
    return isinstance(cls, Ref) and loop_kind(cls.name) == ARGUMENTS


def _derives_from_library(machine: Machine, state: State, cls: Class, kind: str) -> bool:
    """Whether a visible class derives from a library class of this `kind`."""
    above = (base for one in attributes.lineage(machine, state, cls) for base in attributes.bases(machine, state, one))
    return any(isinstance(base, Ref) and loop_kind(base.name) == kind for base in above)


def _is_older(state: State, manager: Manager) -> bool:
    """Whether a loop was constructed with arguments that the newest version refuses."""
    return _OLDER in state.heap.get(manager.symbol, {})


class Trainers(Tracker):
    """Tracks objects that run a whole training loop.

    `made` maps their symbols to the constructor calls, `clipped` are the calls that clip gradients of a module with
    manual optimization or in the hook behind the backward pass, `measured` those that read them there, and `plain` are
    the loops of unknown precision, each with the model that it is passed.
    `scaling` are Lightning's loops that scale losses, and `open` says whether one may that is elsewhere, or set.
    `acting` maps objects of the script's own classes to the loops or arguments that they are by inheritance. `wide` are
    the arguments that ask for no mixed precision, and the loops that run without, each with its kind and the half
    weights that it is given; `halves` are those of loops under construction. `chosen` are the loops whose precision is
    a setting, with what is taken for granted of it. `run_elsewhere` are the arguments that ask for another engine.
    """

    methods = PARSING_METHODS | _RUNS

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.made: dict[int, cst.Call] = {}
        self.chosen: dict[int, tuple[Premise, ...]] = {}
        self.clipped: list[cst.Call] = []
        self.measured: list[cst.Call] = []
        self.scaling: list[cst.Call] = []
        self.open = True
        self.plain: dict[int, Value | None] = {}
        self.acting: dict[int, Manager] = {}
        self.wide: dict[int, tuple[str, _Half | None]] = {}
        self.halves: dict[cst.CSTNode, _Half | None] = {}
        self.run_elsewhere: set[int] = set()

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that load a model and train it, in a file that asks for bfloat16, and that train it in a region."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        loops = frozenset(word for word in said if word.endswith("Trainer"))
        in_region = loops and "autocast" in said and LoopInRegion.kind in self.machine.wanted
        overridden = not TRAINER_METHODS.isdisjoint(said) and HalfManaged.kind in self.machine.wanted
        casts = CONVERSIONS & said if overridden and loops else frozenset()
        made = _names_of_arguments(said, loops)
        used = made or not said.isdisjoint(LIGHTNING_PACKAGES)
        wide = loops and used and HalfLooped.kind in self.machine.wanted and not said.isdisjoint(_HALF_WORDS)
        runs = loops | _RUNS if in_region or wide else frozenset()
        return Words(self._names(said) | casts | (made if wide else frozenset()), calls=runs)

    def _names(self, said: frozenset[str]) -> frozenset[str]:
        if not said.isdisjoint((_BY_HAND, SCALED_IN)) and ClippedScaled.kind in self.machine.wanted:
            return frozenset({"Trainer", "manual_backward", *BY_HAND})
        if AllHalf.kind in self.machine.wanted and not said.isdisjoint(LIGHTNING_PACKAGES) and "fit" in said:
            return frozenset({"Trainer", "fit"})
        if self.machine.wanted.isdisjoint({HalfManaged.kind, HalvesMixed.kind}):
            return frozenset()
        parses = not said.isdisjoint(_PARSERS) and "from_pretrained" in said
        if _BFLOAT16 not in said and ((not parses and "super" not in said) or said.isdisjoint(_HALF_WORDS)):
            return frozenset()
        return frozenset(word for word in said if word.endswith(("Trainer", "ForCausalLM", "ForImageTextToText")))

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether a function constructs a trainer, or its arguments."""
        return any(word.endswith(("Trainer", "TrainingArguments")) for word in function.chunk.words)

    def call_begins(self, state: State, call: Call) -> None:
        """Emit what an overridden step of a training loop does wrong: a plain backward pass, or a cast of the model."""
        if call.name in CONVERSIONS and call.owner is not None:
            self._cast_in_step(state, call, call.owner)
        if call.name in _RUNS and call.owner is not None:
            self._run_in_region(state, call, call.owner)
        if call.name != "backward" or call.arguments.given or not self.machine.calls:
            return
        me, node, chunk = state.frames[state.frame].get("self"), self.machine.calls[-1], self.machine.chunk
        plain = isinstance(call.owner, Unknown) or (isinstance(call.owner, Tensor) and call.owner.scaled is None)
        if not (plain and isinstance(me, Instance) and isinstance(node, cst.FunctionDef) and chunk is not None):
            return
        own = node.name.value == TRAINER_STEP and chunk.words.isdisjoint(LOSS_SCALING_NAMES)
        if own and _derives_from_library(self.machine, state, me.cls, LOOP):
            manager = Manager(self.machine.symbols.intern("manager", parts=(me.symbol,)), LOOP, None, True)
            details = {"call": "backward", "step": call.node, "spelled": "self.accelerator", "synced": False}
            self.machine.emit(state, Bypassed, call.node, manager=manager, **details)

    def _run_in_region(self, state: State, call: Call, owner: Value) -> None:
        """Emit `LoopInRegion` for a training loop that runs as a whole in a region."""
        region, entered = innermost(self.machine, state)
        if region is None or LoopInRegion.kind not in self.machine.wanted or keeps_none(state):
            return
        if isinstance(owner, Manager):
            model = state.heap.get(owner.symbol, {}).get(_MODEL)
            runs = LOOPS.get(owner.kind) == call.name and owner.kind != "half loop"
        else:
            runs = isinstance(owner, Unknown) and owner.symbol in self.plain
            model = self.plain.get(owner.symbol) if isinstance(owner, Unknown) else None
        known = None
        if model is not None:
            known = state[ModelStates].known.get(root(self.machine, symbol_of(self.machine, model)))
        if not runs or (known is not None and (known.half or known.bfloat16) is not None):
            return
        partitions = any("deepspeed" in chunk.words for chunk in self.machine.program.main.chunks)
        certain = region.enabled == TRUE and not partitions
        self.machine.emit(state, LoopInRegion, call.node, entered=entered, certain=certain)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record a loop that is constructed without a known precision."""
        if not isinstance(call.callee, Ref) or not isinstance(result, Unknown):
            return
        if loop_kind(call.callee.name) in LOOPS:
            self.plain[result.symbol] = call.arguments.value("model", 0)
        self._record_wide(call.callee.name, result.symbol, call.arguments, self.halves.pop(call.node, None))

    def subclass_instance(self, state: State, call: Call, cls: Class, base: Ref) -> Value | None:
        """Record what an object is by inheritance whose class leaves the constructor to the library."""
        if loop_kind(base.name) is not None and attributes.find_method(self.machine, state, cls, "__init__") is None:
            self._act(state, call, self.machine.identity(state, call.node), cls, base)
        return None

    def inherited_call(self, state: State, call: Call, base: Ref) -> Value | None:
        """Record what an object is by inheritance whose constructor calls that of the library."""
        if call.name == "__init__" and isinstance(call.owner, Instance) and loop_kind(base.name) is not None:
            self._act(state, call, call.owner.symbol, call.owner.cls, base)
            return NONE
        return None

    def _act(self, state: State, call: Call, symbol: int, cls: Class, base: Ref) -> None:
        """Record the loop, or the arguments, that the object `symbol` of the script's class `cls` is."""
        methods = {name: attributes.find_method(self.machine, state, cls, name) for name in OWN_LOOP | MAKES_OPTIMIZER}
        overridden = {name for name, own in methods.items() if own and f"super().{name}(" not in own.chunk.text}
        if not overridden.isdisjoint(OWN_LOOP):
            return
        made = make(self.machine, state, call.node, base.name, call.arguments)
        if made is None:
            if not overridden:
                half = self._given(state, call.arguments)
                self._record_wide(base.name, symbol, call.arguments, half)
                given = call.arguments.value("args", 1)
                elsewhere = isinstance(given, (Instance, Unknown)) and given.symbol in self.run_elsewhere
                if half is not None and loop_kind(base.name) == LOOP and symbol not in self.wide and not elsewhere:
                    self._construct(state, call, half)
        elif made.precision == "float16" or not overridden:
            self.acting[symbol] = made
            self.made[made.symbol] = call.node

    def _construct(self, state: State, call: Call, half: _Half) -> None:
        """Emit `HalfManaged` for a class of loops that gives itself half weights, whatever arguments it is given."""
        asked = call.arguments.value("args", 1)
        adapts = call.arguments.value("peft_config") not in _NOTHING
        if adapts or not isinstance(asked, Unknown) or HalfManaged.kind not in self.machine.wanted:
            return
        dtype, cast, premises = half
        manager = Manager(self.machine.symbols.intern("manager", parts=(asked.symbol,)), LOOP, dtype, False)
        chosen = (Premise.FLOAT16_CHOSEN,) if dtype == "float16" else ()
        self.machine.emit(
            state, HalfManaged, call.node, manager=manager, cast=cast, guesses=self.machine.guesses_for(cast),
            premises=(*premises, *chosen),
        )  # fmt: skip

    def _given(self, state: State, arguments: Arguments) -> _Half | None:
        """The half weights of the model that a loop is constructed with."""
        model = arguments.value("model", 0)
        return None if model is None else _half_weights(self.machine, state, symbol_of(self.machine, model))

    def _record_wide(self, name: str, symbol: int, arguments: Arguments, half: _Half | None) -> None:
        """Record that `symbol` is a loop without mixed precision, or its arguments, if that is certain."""
        kind = loop_kind(name)
        if kind is None or any(argument.star for argument in arguments.given):
            return
        if kind == ARGUMENTS:
            asks = (*_OTHER_ENGINES, _FLOAT16, _BFLOAT16)
            if any(arguments.value(one) not in _NOTHING for one in _OTHER_ENGINES):
                self.run_elsewhere.add(symbol)
            if not is_mixed_by_default(name) and all(arguments.value(one) in _NOTHING for one in asks):
                self.wide[symbol] = kind, None
        elif kind == LOOP:
            given = arguments.value("args", place_of_arguments(name))
            known = isinstance(given, (Instance, Unknown)) and given.symbol in self.wide
            if known and all(arguments.value(one) in _NOTHING for one in _OTHER_WEIGHTS):
                self.wide[symbol] = kind, half
        else:
            asked = arguments.value("precision")
            single = asked is None or (isinstance(asked, Const) and PRECISIONS.get(asked.value) == "float32")
            if single and leaves_precision(self.machine, arguments, converts=False):
                self.wide[symbol] = kind, None

    def _cast_in_step(self, state: State, call: Call, owner: Value) -> None:
        """Emit `HalfManaged` for a cast of the model that the loop passes to a step which its subclass overrides."""
        function, frame = self.machine.calls[-1] if self.machine.calls else None, state.frames[state.frame]
        me, model = frame.get("self"), frame.get("model")
        if not isinstance(function, cst.FunctionDef) or function.name.value not in TRAINER_METHODS:
            return
        if not isinstance(me, Instance) or not isinstance(model, Unknown) or owner != model:
            return
        converts, dtype = converts_to(self.machine, call.name, call.arguments)
        asked = call.arguments.value("dtype", 0)
        options = {DTYPES.get(str(one)) for one in asked.options} if isinstance(asked, OneOf) else {dtype}
        half = next((one for one in HALF_DTYPES if one in options), None)
        if converts and half is not None and _derives_from_library(self.machine, state, me.cls, LOOP):
            manager = Manager(self.machine.symbols.intern("manager", parts=(me.symbol,)), LOOP, half, True)
            self.machine.emit(state, HalfManaged, call.node, manager=manager, cast=call.node)

    def join(self, left: Value, right: Value) -> Value | None:
        """Training arguments that ask for different precisions on two paths."""
        if type(left) is not Manager or type(right) is not Manager or left.kind != ARGUMENTS:
            return None
        return replace(left, precision=None) if replace(left, precision=right.precision) == right else None

    def annotated_value(self, symbol: int, name: str) -> Value | None:
        """Return the arguments for a parameter annotated with their class."""
        if loop_kind(name) != ARGUMENTS:
            return None
        return Manager(self.machine.symbols.intern("manager", parts=(symbol,)), ARGUMENTS, None, False)

    def method(self, state: State, call: Call) -> Value | None:
        """Return the arguments parsed from a command line or a file."""
        if call.name in _RUNS:
            return self._run(state, call)
        classes = state.heap.get(call.owner.symbol, {}).get(_CLASSES) if isinstance(call.owner, Unknown) else None
        if classes is None:
            return None
        made = []
        for cls in classes.values if isinstance(classes, Items) else (classes,):
            value = self.machine.unknown("parsed", cls, parts=(symbol_of(self.machine, call.owner),))  # type: ignore[arg-type]
            whole = Manager(value.symbol, ARGUMENTS, None, False)
            made.append(whole if _is_arguments(self.machine, state, cls) else value)
        return Items(tuple(made))

    def _run(self, state: State, call: Call) -> Value | None:
        """Run a loop that is an object of a class of the script, or one without mixed precision."""
        if not isinstance(call.owner, (Instance, Unknown)):
            return None
        acting = self.acting.get(call.owner.symbol)
        if acting is not None:
            return run(self.machine, state, call.node, acting, call.name, call.arguments)
        kind, half = self.wide.get(call.owner.symbol, ("", None))
        module = call.arguments.value("model", 0)
        if LOOPS.get(kind) == call.name:
            trained = _optimized(self.machine, state, module) if isinstance(module, Instance) else set()
            models = sorted(trained | {module.symbol}) if isinstance(module, Instance) and trained else ()
            halves = [_half_weights(self.machine, state, symbol) for symbol in models] if kind != LOOP else [half]
            _run_wide(self.machine, state, call.node, kind, halves)
        return None

    def handles_library_call(self, name: str) -> bool:
        """Whether this constructs a training loop, its arguments or their parser."""
        return loop_kind(name) is not None or name in ARGUMENT_PARSERS

    def library_call(self, state: State, call: Call) -> Value | None:
        """Handle the construction of a trainer or its arguments."""
        assert isinstance(call.callee, Ref)
        if call.callee.name in ARGUMENT_PARSERS:
            parser, classes = (
                Unknown(self.machine.identity(state, call.node)),
                call.arguments.value("dataclass_types", 0),
            )
            if classes is not None:
                state.set_attribute(parser.symbol, _CLASSES, classes)
            return parser
        both = [call.arguments.get(name) for name in ("fp16", "bf16")]
        if loop_kind(call.callee.name) == ARGUMENTS and all(one is not None and one.value == TRUE for one in both):
            first, second = sorted((one.node for one in both if one is not None), key=call.node.args.index)
            self.machine.emit(state, PrecisionTwice, second, other=first)
        if loop_kind(call.callee.name) == "lightning loop":
            self.open &= _may_scale(call.arguments)
        made = make(self.machine, state, call.node, call.callee.name, call.arguments)
        if made is not None:
            self.made[made.symbol] = call.node
            if made.kind == "lightning loop" and made.precision == "float16":
                self.scaling.append(call.node)
            return made
        if loop_kind(call.callee.name) == LOOP:
            self.halves[call.node] = self._given(state, call.arguments)
        return None

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report gradients clipped with the loss scale of the only loop in the file, or of one elsewhere."""
        said = frozenset[str]().union(*(chunk.words for chunk in self.machine.program.main.chunks))
        scales = len({*self.scaling}) == 1 == len({*self.made.values()})
        if "unscale_" in said or not (scales or self.open):
            return
        made, premises = (self.scaling[0], ()) if scales else (None, (Premise.FLOAT16_CHOSEN,))
        for call in dict.fromkeys((*self.clipped, *self.measured)):
            if self.machine.program.main.owns(call):
                reads = call not in self.clipped
                self.machine.emit(State(), ClippedScaled, call, call=call, made=made, reads=reads, premises=premises)
