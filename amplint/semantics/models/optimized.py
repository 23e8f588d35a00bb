"""Optimizers, and the parameters for which they are constructed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from amplint.premises import Premise
from amplint.semantics.events import HalfStepped, HalfUnscaled, OptState, ScalerMeetsShards, ShardedStep, Stage
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.gradients import carrying
from amplint.semantics.memory.progress import gradients_of
from amplint.semantics.models.model_states import Model, ModelStates, change
from amplint.semantics.models.origins import DISPLAY, origins, root, sources
from amplint.semantics.models.parameters import Parameters, cast_on_a_path, stored_in
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.reading.demos import is_within_test
from amplint.semantics.regions.innermost import is_off
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    Const,
    Items,
    Optimizer,
    Scaler,
    Trained,
    Unknown,
    Value,
    number,
)
from amplint.semantics.words import OPTIMIZER_MAKER
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.names import UNSCALES
from amplint.torchlib.optimizers import DECAYS, ELSEWHERE_COMPUTED, EPSILONS, KEEPS_COPIES
from amplint.torchlib.sharding import SHARDERS

_EMITTED = frozenset({HalfStepped.kind, HalfUnscaled.kind, ShardedStep.kind})
_MAKES = frozenset(DECAYS) | frozenset(EPSILONS) | {"SGD"}
_SHARDING = frozenset(name.rpartition(".")[2] for name in SHARDERS)
UNSEEN = Trained(None, frozenset(), plain=False)


class Optimizers(Tracker):
    """Tracks the parameters that optimizers update."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.trained: dict[int, Trained] = {}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Constructors of optimizers, in a file that shards models."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        shards = not said.isdisjoint(_SHARDING) and not self.machine.wanted.isdisjoint(_EMITTED)
        return Words(calls=_MAKES & said if shards else frozenset())

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

    def frame_ends(self, state: State, values: Iterable[Value]) -> None:
        """Report the scalers of a sharded model at the end of the function."""
        leave(self.machine, state, values)


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
            change(state, root(machine, source), perhaps=cast_on_a_path(machine, source))
    model = models.pop() if len(models) == 1 else _one_in_half(state, models)
    if model in state[ModelStates].known and not _is_every_parameter(machine, given):
        _choose(machine, state, model, given)
    _remove_outdated(state, model, optimizer.symbol)
    cls = optimizer.cls.rpartition(".")[2] if optimizer.cls.startswith("torch.optim.") else ""
    cls = "" if isinstance(given, Unknown) and machine.symbols.key(given.symbol)[0] == DISPLAY else cls
    machine[Optimizers].trained[optimizer.symbol] = Trained(
        model,
        origins(machine, given),
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


def meet(
    machine: Machine, state: State, node: cst.Call, scaler: Scaler, optimizer: Optimizer, stage: Stage | None
) -> None:
    """Report an unscale, or a step at `stage`, of an optimizer whose parameters do not allow it."""
    if not state[ModelStates].known:
        return
    trained = machine[Optimizers].trained.get(optimizer.symbol, UNSEEN)
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


def unscales_half(machine: Machine) -> bool:
    """Whether the program replaces the method by which scalers refuse float16 gradients."""
    return any(UNSCALES in chunk.words for chunk in machine.program.chunks)


def step(machine: Machine, state: State, node: cst.Call, optimizer: Optimizer) -> None:
    """Report a step of an optimizer whose parameters are half, unless within a test of a few steps."""
    trained = machine[Optimizers].trained.get(optimizer.symbol, UNSEEN)
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
        known = machine[Optimizers].trained.get(optimizer)
        chosen = known.origins if known is not None else origins(machine, Unknown(optimizer))
        for model, wrapped in shards.items():
            if model in chosen:
                machine.emit(
                    state, ScalerMeetsShards, scaler.created, scaler=scaler, wrapped=wrapped,
                    guesses=machine.guesses_for(optimizer),
                )  # fmt: skip
                return
