"""Forward passes outside of the region in which their loss is computed."""

from __future__ import annotations

from collections.abc import Container, Sequence

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.events import ForwardOutside, ScaledWithoutRegion
from amplint.semantics.models.models import Models
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.regions.ran import RegionsRun, is_before, without_gradients
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    Autocast,
    Instance,
    Module,
    NewThread,
    Opaque,
    Ref,
    Scaler,
    Tensor,
    Unknown,
    Value,
)
from amplint.semantics.words import LOSS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.policy import words

_OF_DATA = words("to cuda cpu get item items pop next")
"""Methods that return data or move it."""
_SUM = Ref("builtins.sum")


def produced(machine: Machine, state: State, node: cst.CSTNode, result: Value, *, known_model: bool = True) -> None:
    """Record `result` of the forward pass at `node`, unless gradients are disabled.

    A value that is not known to be a model counts within a region only.
    """
    if without_gradients(state):
        return
    symbol = symbol_of(machine, result)
    contexts = [region.context for region in state.regions]
    bare = not any(isinstance(context, (Autocast, NewThread, Opaque)) for context in contexts)
    if bare and not known_model:
        return
    if known_model and not any(isinstance(context, (Autocast, NewThread)) for context in contexts):
        machine[Outside].plain.setdefault(symbol, node)
        if not bare:
            machine[Outside].seen.discard(node)
    known = machine[Outside].outputs.setdefault(symbol, node)
    machine[Outside].outputs[symbol] = known if bare else None


def _is_loss(node: cst.Call) -> bool:
    """Whether a call is of something named after a loss, which is no model that autocast speeds up."""
    return LOSS.search((dotted(node.func) or "").rpartition(".")[2]) is not None


def worked(machine: Machine, node: cst.Call, callee: Value, result: Value) -> None:
    """Record `result` of an unseen call within a region, which may run a model."""
    of_data = isinstance(node.func, cst.Attribute) and node.func.attr.value in _OF_DATA
    if isinstance(callee, Unknown) and not of_data:
        machine[Outside].within.add(symbol_of(machine, result))


def differentiated(machine: Machine, state: State, loss: Value, backward: cst.CSTNode) -> None:
    """Report a forward pass outside of the region in which the rest of `loss` was computed.

    A computation in the region that does not use the model's output may be the forward pass of another one.
    """
    if machine.wanted.isdisjoint((ForwardOutside.kind, ScaledWithoutRegion.kind)):
        return
    plain = loss.plain if isinstance(loss, Tensor) else None
    behind = [*machine.symbols.derivation(symbol_of(machine, loss) if plain is None else plain)]
    if isinstance(loss, Tensor) and loss.scaled is not None and not state[RegionsRun].ran:
        _without_region(machine, state, loss.scaled, backward, behind)
    ran = [one.context for one in state[RegionsRun].ran if not is_before(one.round, state.iteration)]
    if not state[RegionsRun].ran:
        ran = list({machine[Outside].added[symbol] for symbol in behind if symbol in machine[Outside].added})
    if len(ran) != 1 or len(state[RegionsRun].ran) > 1:
        return
    outputs = {symbol: machine[Outside].outputs[symbol] for symbol in behind if symbol in machine[Outside].outputs}
    bare = [node for node in dict.fromkeys(outputs.values()) if node is not None]
    inside = machine[Outside].within.intersection(behind)
    if (
        len(bare) == 1
        and any(_uses(machine, symbol, outputs) for symbol in machine[Outside].computed.intersection(behind))
        and None not in outputs.values()
        and all(_uses(machine, symbol, outputs) for symbol in inside)
        and _may_be_trained(machine, bare[0])
        and not _is_of_forward(machine, ran[0].node)
    ):
        machine.emit(
            state,
            ForwardOutside,
            bare[0],
            inside=ran[0],
            guesses=machine.guesses_for(bare[0]),
        )


def _uses(machine: Machine, symbol: int, outputs: Container[int]) -> bool:
    """Whether a value was computed from one of these outputs."""
    return any(part in outputs for part in machine.symbols.derivation(symbol))


def _may_be_trained(machine: Machine, forward: cst.CSTNode) -> bool:
    """Whether what runs at `forward` may be what an optimizer updates: of the known ones, it is none of the others."""
    origins = frozenset[int]().union(*(trained.origins for trained in machine[Optimizers].trained.values()))
    model = machine[Outside].models.get(forward)
    return not origins or model is None or not origins.isdisjoint(machine.symbols.derivation(model))


def _is_of_forward(machine: Machine, region: cst.CSTNode) -> bool:
    """Whether a region stands in a forward pass, and not around a loss."""
    source = machine.program.source_of(region)
    above = source.ancestors(region) if source is not None else ()
    return any(isinstance(one, cst.FunctionDef) and one.name.value == "forward" for one in above)


def _without_region(
    machine: Machine, state: State, scaler: Scaler, backward: cst.CSTNode, behind: Sequence[int]
) -> None:
    """Report the scaled loss of a forward pass that no visible code can have computed in half."""
    made = {symbol for symbol in behind if symbol in machine[Outside].outputs}
    outputs = [machine[Outside].plain[symbol] for symbol in behind if symbol in machine[Outside].plain]
    if not outputs or len(made) > len(outputs) or _is_sharded(scaler) or scaler.enabled == FALSE:
        return
    if any(map(_mentions_half, machine.program.chunks)):
        return
    node = outputs[-1]
    sharded = any(_SHARDS.search(chunk.text) for chunk in machine.program.chunks)
    seen = not sharded and all(one in machine[Outside].seen for one in outputs)
    machine.emit(
        state,
        ScaledWithoutRegion,
        node,
        scaler=scaler,
        backward=backward,
        seen=seen,
        guesses=machine.guesses_for(node),
        premises=(Premise.SCALER_PASSED,) if _may_be_left_out(machine, scaler) else (),
    )


def _may_be_left_out(machine: Machine, scaler: Scaler) -> bool:
    """Whether a scaler is a parameter whose default is None, and which no caller in sight gives."""
    key = machine.symbols.key(scaler.symbol)
    function = next((one for one in machine.calls if key[0] == "parameter" and id(one) == key[1]), None)
    parameters = every(function.params, cst.Param) if isinstance(function, cst.FunctionDef) else ()
    defaults = (one.default for one in parameters if one.name.value == key[2])
    return any(isinstance(default, cst.Name) and default.value == "None" for default in defaults)


def _is_sharded(scaler: Scaler) -> bool:
    """Whether a scaler is for sharded models, whose forward pass may run in half by itself."""
    return scaler.cls.endswith("ShardedGradScaler")


@cached_per_chunk
def _mentions_half(chunk: Chunk) -> bool:
    """Whether `chunk` may run in half what it trains; what only imports a region or evaluates under one does not."""
    evaluates = chunk.name is not None and not chunk.is_class and _EVALUATES.search(chunk.code) is not None
    if evaluates and _DIFFERENTIATES.search(chunk.code) is None:
        return False
    return _SPEAKS_OF_HALF.search(_IMPORTS.sub("", chunk.code)) is not None


_SPEAKS_OF_HALF = regex(
    r"autocast|auto_fp16|custom_fwd|float16|\bhalf\b|HalfTensor|MixedPrecision|deepspeed|accelerat|fabric|lightning|\bapex\b"
    r"|tinycudann|transformer_engine|bitsandbytes"
)
"""Names of half dtypes, of regions, and of frameworks that may enter one."""
_IMPORTS = regex(r"(?m)^[ \t]*from torch(?:\.(?:cuda|cpu))?(?:\.amp)? import [^(\\]*$")
"""Imports of PyTorch's own regions and scalers."""
_EVALUATES = regex(r"\.eval\(\)")
_DIFFERENTIATES = regex(r"backward|\.train\(\)")
_SHARDS = regex(r"FSDP|FullyShardedDataParallel|fully_shard")


class Outside(Tracker):
    """Tracks forward passes: `outputs` maps their results to the calls, None for those in a region.

    `within` are the results of unseen calls in regions, and `computed` those of all calls in regions. `plain` are
    forward passes without a visible region around, `seen` those of models in visible code, and `added` maps sums of
    losses to the region around, `models` forward passes to what they are of.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.plain: dict[int, cst.CSTNode] = {}
        self.seen: set[cst.CSTNode] = set()
        self.outputs: dict[int, cst.CSTNode | None] = {}
        self.within: set[int] = set()
        self.computed: set[int] = set()
        self.added: dict[int, Autocast] = {}
        self.models: dict[cst.CSTNode, int] = {}

    def call_returned(self, state: State, call: Call, result: Value) -> Value | None:
        """Record the result of a call in a region."""
        if state.regions and innermost(self.machine, state)[0] is not None:
            self.computed.add(symbol_of(self.machine, result))
        return None

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the forward pass of a model, or of a possible one."""
        model = call.notes.get(Models)
        if model is not None or call.entered == "object":
            self.models[call.node] = symbol_of(self.machine, call.callee)
        if isinstance(call.callee, Module) or (
            isinstance(call.callee, Instance) and attributes.is_whole(self.machine, state, call.callee.cls)
        ):
            self.seen.add(call.node)
        inside = bool(state.regions) and innermost(self.machine, state)[0] is not None
        if inside and model is not None and _is_loss(call.node):
            return
        if call.entered == "object":
            produced(self.machine, state, call.node, result, known_model=model is not None)
        elif call.entered is None:
            if call.callee == _SUM and (region := innermost(self.machine, state)[0]) is not None:
                self.added[symbol_of(self.machine, result)] = region
            if state.regions and call.node not in self.machine.idle:
                worked(self.machine, call.node, call.callee, result)
            if model is not None:
                produced(self.machine, state, call.node, result)
