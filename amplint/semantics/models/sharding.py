"""Sharded models: the calls that shard them, their compute dtypes, and uses of the unsharded model afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from amplint.premises import Premise
from amplint.regex import regex
from amplint.semantics.events import FrozenPolicySet, HalfSharded, PolicyMade, ShardingRefused, Shards, ShardsClipped
from amplint.semantics.models.held_shards import HeldShards
from amplint.semantics.models.model_states import Model, ModelStates, change
from amplint.semantics.models.optimized import Optimizers
from amplint.semantics.models.origins import root, sources
from amplint.semantics.models.parameters import stored_in
from amplint.semantics.python.containers import is_perhaps
from amplint.semantics.python.expressions import indices, single
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.inference import only_infers
from amplint.semantics.tensors.tensors import dtype_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, NONE, Const, Items, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.names import CLIPPERS
from amplint.torchlib.sharding import FROZEN, POLICIES, POLICY_OF, SHARDERS, TAKEN, TWINS, Sharder

_CLIPS = "clip_grad_norm_"
_PLAIN = frozenset(name for name in CLIPPERS if name.endswith(f".{_CLIPS}"))
_GROUPS = frozenset({"param_groups"})
_NOT_SHARDED = "NO_SHARD"
_ARGUMENTS = TAKEN["fully_shard"] ^ TAKEN["FullyShardedDataParallel"]
_COPIES = frozenset({"copy.copy", "copy.deepcopy"})
_FROZEN_NAMES = frozenset(name.rpartition(".")[2] for name in FROZEN)
_SETTINGS = frozenset(name for policy in FROZEN.values() for name in policy.parameters)


def _shard(machine: Machine, state: State, node: cst.Call, sharder: Sharder, arguments: Arguments) -> None:
    """Record that the first argument, a model, is sharded."""
    strategy = arguments.value(*sharder.strategy) if sharder.strategy is not None else None
    if isinstance(strategy, Ref) and strategy.name.endswith(_NOT_SHARDED):
        return
    model = root(machine, symbol_of(machine, arguments.values[0]))
    stays = _keeps_originals(sharder, arguments)
    outdated = frozenset() if stays else frozenset(_optimizers(machine, model))
    dtype, returns = _computes_in(machine, state, arguments.value(*sharder.policy))
    change(state, model, shards=Shards(node, sharder, dtype, outdated, returns, not stays))


def _keeps_originals(sharder: Sharder, arguments: Arguments) -> bool:
    if any(argument.star for argument in arguments.given):
        return True
    return sharder.keeps_originals is not None and arguments.value(sharder.keeps_originals) not in (None, FALSE)


def _optimizers(machine: Machine, model: int) -> list[int]:
    """The optimizers constructed so far for `model`; those of other paths are never stepped on this one."""
    return [symbol for symbol, trained in machine[Optimizers].trained.items() if trained.model == model]


def _computes_in(machine: Machine, state: State, policy: Value | None) -> tuple[str | None, str | None]:
    """The compute dtype and the output dtype of a policy."""
    known = state.heap.get(policy.symbol, {}) if isinstance(policy, Unknown) else {}
    dtype, returned = dtype_of(machine, known.get("param_dtype")), known.get("output_dtype")
    return dtype, dtype if returned in (None, NONE) else dtype_of(machine, returned)


def _policy_class(state: State, policy: Value) -> str | None:
    """The class of a policy object, by its attributes."""
    known = state.heap.get(policy.symbol, {}) if isinstance(policy, Unknown) else {}
    made = (name for name, found in POLICIES.items() if known.keys() >= set(found.parameters))
    return next((name.rpartition(".")[2] for name in made), None)


def _is_in_a_clip(machine: Machine) -> bool:
    """Whether a function named like PyTorch's is running, which may call that one for unsharded gradients."""
    return any(isinstance(node, cst.FunctionDef) and node.name.value == _CLIPS for node in machine.calls)


def _clear_outdated(state: State) -> None:
    """Record that parameters were assigned to optimizers explicitly: none is outdated any more."""
    for symbol, model in state[ModelStates].known.items():
        if model.shards is not None and model.shards.outdated:
            change(state, symbol, shards=replace(model.shards, outdated=frozenset()))


_MODULES = regex(r"^class \w+\([\w.]*\bModule\):", re.MULTILINE)
_BUFFERS = regex(
    r"register_buffer|\bBuffer\(|(?:Batch|Instance)Norm|from_pretrained|from_config|\bcreate_model\(|hub\.load"
)
"""What makes a buffer, or a model that is not in sight."""


def _keep_no_buffers(chunks: Iterable[Chunk]) -> bool:
    """Whether modules are in sight, and nothing that makes a buffer or a model which may have some."""
    texts = [chunk.text for chunk in chunks]
    return any(map(_MODULES.search, texts)) and not any(map(_BUFFERS.search, texts))


class Sharding(Tracker):
    """Tracks calls that shard models, and the clipping of their gradients.

    `sharded` are the models, `halved` those whose weights have the dtype of their policy, each with the call, and
    `frozen` policies whose attributes cannot be set, each with the name of its class. `put` are the assignments to
    entries of dictionaries that are named like arguments of sharding, by the name and what is assigned.
    """

    triggers = frozenset({"fully_shard", "FullyShardedDataParallel", "MixedPrecision", "MixedPrecisionPolicy", _CLIPS})
    methods = frozenset({_CLIPS})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.sharded: set[int] = set()
        self.frozen: dict[int, str] = {}
        self.put: dict[tuple[str, int], cst.Subscript] = {}
        self.halved: dict[int, tuple[cst.Call, Shards, str, cst.CSTNode]] = {}

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Attributes of policies, where the file makes one that is frozen."""
        makes = any(not _FROZEN_NAMES.isdisjoint(chunk.words) for chunk in chunks)
        return Words(watched=_SETTINGS if makes and FrozenPolicySet.kind in self.machine.wanted else frozenset())

    def library(self) -> Mapping[str, Handler]:
        """Calls that shard a model, and policy classes."""
        return {**dict.fromkeys(SHARDERS, self._shard), **dict.fromkeys(POLICIES, self._policy)}

    def _shard(self, state: State, call: Call) -> Value | None:
        if not call.arguments.given or not isinstance(call.callee, Ref):
            return None
        sharder = SHARDERS[call.callee.name]
        self._refused(state, call, sharder.title, sharder.policy[0])
        model = call.arguments.values[0]
        stored = stored_in(self.machine, state, symbol_of(self.machine, model))
        _shard(self.machine, state, call.node, sharder, call.arguments)
        self._sharded(state, call, symbol_of(self.machine, model), stored)
        return model

    def _sharded(self, state: State, call: Call, model: int, stored: tuple[str, cst.CSTNode] | None) -> None:
        """Record a sharded model, with the half dtype in which its weights are `stored`."""
        known = state[ModelStates].known.get(root(self.machine, model), Model())
        self.sharded.add(model)
        if stored is not None and known.shards is not None and known.frozen is None and known.shards.dtype == stored[0]:
            self.halved.setdefault(model, (call.node, known.shards, *stored))

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report weights that are sharded in half, unless other models are sharded as well, or none is trained."""
        halved, symbols = self.halved.keys(), self.machine.symbols
        alone = all(any(one in halved for one in symbols.derivation(symbol)) for symbol in self.sharded)
        if not halved or not alone or only_infers(self.machine.program.chunks):
            return
        for node, shards, dtype, cast in self.halved.values():
            if self.machine.program.main.owns(node):
                details = {"dtype": dtype, "cast": cast, "shards": shards, "guesses": self.machine.guesses_for(cast)}
                self.machine.emit(State(), HalfSharded, node, premises=(Premise.UPDATED,), **details)

    def _policy(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        policy, symbol = POLICIES[call.callee.name], self.machine.identity(state, call.node)
        name = call.callee.name.rpartition(".")[2]
        self._refused(state, call, name)
        if call.callee.name in FROZEN:
            self.frozen[symbol] = name
        if not any(argument.star for argument in call.arguments.given):
            given = {name: call.arguments.value(name, place) or NONE for place, name in enumerate(policy.parameters)}
            for name, value in given.items():
                state.set_attribute(symbol, name, value)
            dtypes = {
                name: dtype_of(self.machine, value)
                for name, value in given.items()
                if value == NONE or dtype_of(self.machine, value) is not None
            }
            chunks = self.machine.program.chunks
            self.machine.emit(
                state, PolicyMade, call.node, policy=policy, dtypes=dtypes, only_infers=only_infers(chunks),
                bufferless=_keep_no_buffers(chunks),
            )  # fmt: skip
        return Unknown(symbol)

    def _refused(self, state: State, call: Call, called: str, takes_policy: str | None = None) -> None:
        """Report the arguments that only the twin of this function accepts."""
        for name, given in ((argument.keyword, argument.value) for argument in call.arguments.given):
            if name is None:
                continue
            if is_perhaps(self.machine, given) and self._chooses(TWINS[called]):
                continue
            policy = _policy_class(state, given)
            stray = name not in TAKEN[called] and name in TAKEN[TWINS[called]]
            if stray or (name == takes_policy and policy == TWINS[POLICY_OF[called]]):
                behind = self.machine.symbols.derivation(symbol_of(self.machine, given))
                put = next((self.put[name, one] for one in behind if (name, one) in self.put), None)
                details = {"call": call.node, "called": called, "name": name, "policy": policy, "put": put}
                self.machine.emit(state, ShardingRefused, call.node, **details)

    def _chooses(self, twin: str) -> bool:
        """Whether the running function names the twin as well, so that it may choose between their arguments."""
        names = {twin, *(bound for bound, name in self.machine.program.aliases().items() if name == twin)}
        running = self.machine.calls[-1] if self.machine.calls else None
        return running is None or any(node.value in names for node in every(running, cst.Name))

    def call_begins(self, state: State, call: Call) -> None:
        """Report `torch.nn.utils.clip_grad_norm_` on the parameters of a sharded model."""
        if isinstance(call.callee, Ref) and call.callee.name in _PLAIN and call.arguments.given:
            limit = call.arguments.value("max_norm", 1)
            models = sources(self.machine, call.arguments.values[0]) or set()
            if len(models) == 1 and limit != Const(None) and not _is_in_a_clip(self.machine):
                self._clipped(state, call.node, models.pop(), own=False)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the copy of a frozen policy."""
        if self.frozen and isinstance(call.callee, Ref) and call.callee.name in _COPIES and call.arguments.given:
            name = self._frozen_class(call.arguments.values[0])
            if name is not None and isinstance(result, Unknown):
                self.frozen[result.symbol] = name

    def subscript_value(self, state: State, node: cst.Subscript, owner: Value) -> Value | None:
        """An entry of a table of frozen policies of one class, by a key that is not known."""
        if not self.frozen or not isinstance(owner, Items) or not owner.values:
            return None
        first, *others = map(self._frozen_class, owner.values)
        key = single(indices(self.machine, state, node))
        if first is None or any(other != first for other in others) or isinstance(key, Const):
            return None
        made = Unknown(self.machine.fresh())
        self.frozen[made.symbol] = first
        return made

    def _frozen_class(self, value: Value) -> str | None:
        return self.frozen.get(value.symbol) if isinstance(value, Unknown) else None

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Report an attribute of a frozen policy."""
        policy = self._frozen_class(owner)
        if policy is not None and target.attr.value in _SETTINGS:
            self.machine.emit(state, FrozenPolicySet, target, policy=policy, name=target.attr.value)
        return None

    def method(self, state: State, call: Call) -> Value | None:
        """Handle the model's own clipping."""
        if call.owner is not None:
            self._clipped(state, call.node, symbol_of(self.machine, call.owner), own=True)
        return None

    def _clipped(self, state: State, node: cst.Call, model: int, own: bool) -> None:
        known = state[ModelStates].known.get(root(self.machine, model), Model())
        if known.shards is not None and known.shards.sharder.clips:
            self.machine.emit(state, ShardsClipped, node, call=node, shards=known.shards, own=own)
        elif known.shards is None:
            self.machine[HeldShards].clipped(state, node, model, own)

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """Handle `group["params"] = ...`, which gives an optimizer other parameters, and entries for sharding."""
        if not isinstance(value, Const):
            _clear_outdated(state)
        index = target.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        if isinstance(key, cst.SimpleString) and key.evaluated_value in _ARGUMENTS:
            self.put[str(key.evaluated_value), symbol_of(self.machine, value)] = target

    def statement_skipped(self, state: State, statement: cst.CSTNode) -> None:
        """Handle a loop over parameter groups that is not interpreted and may do so."""
        chunk = self.machine.chunk
        sets = chunk is not None and any(f"[{quote}params{quote}] =" in chunk.text for quote in "'\"")
        if sets and self.machine.slice.mentions(statement, _GROUPS):
            _clear_outdated(state)
