"""Float8: models converted by torchao, and calls within Transformer Engine's regions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from amplint.semantics.events import ConvertedInShards, ConvertedToFloat8, LeftUncompiled, SizeRefused, WithinFloat8
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.models.origins import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Handler, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.weights import owned
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, NONE, Const, Module, Optimizer, Ref, Scaler, Unknown, Value
from amplint.semantics.words import COMPILES_ELSEWHERE
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.float8 import (
    CONFIGS,
    CONVERTERS,
    EMULATES,
    FILTER,
    LAYERS,
    MULTIPLE,
    PLAIN_CHECKPOINTS,
    REGIONS,
)

_WORDS = frozenset(name.rpartition(".")[2] for name in (*CONVERTERS, *CONFIGS, *LAYERS, *REGIONS))
_PACKAGES = frozenset({"torchao", "transformer_engine"})
_CHECKPOINT = "checkpoint"
_LINEAR = "torch.nn.Linear"
_SIZES = (("in_features", 0), ("out_features", 1))
_TRAINS = frozenset({"backward", "step"})


class Float8(Tracker):
    """Tracks conversions, layers and regions.

    `layers` has sizes of layers that float8 refuses, by symbol, `engine` all layers of Transformer Engine, `regions`
    the nodes that enter an enabled region, `converted` the conversions, `emulating` configurations that only round.
    `sizes` maps constructions of linear layers to a size that float8 refuses, None where it takes those of one of them.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.layers: dict[int, tuple[cst.Arg, int]] = {}
        self.engine: set[int] = set()
        self.regions: set[cst.CSTNode] = set()
        self.converted: dict[cst.Call, None] = {}
        self.emulating: set[int] = set()
        self.sizes: dict[cst.CSTNode, int | None] = {}

    def is_needed(self) -> bool:
        """Whether a selected rule handles one of the events."""
        events = (ConvertedInShards, ConvertedToFloat8, LeftUncompiled, WithinFloat8, SizeRefused)
        return not self.machine.wanted.isdisjoint(event.kind for event in events)

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Names of the float8 API, in a file that imports it."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        return Words(_WORDS | {_CHECKPOINT} if not said.isdisjoint(_PACKAGES) else frozenset())

    def library(self) -> Mapping[str, Handler]:
        """Conversions, configurations and layers."""
        handlers = ((CONVERTERS, self._convert), (CONFIGS, self._configure), (LAYERS, self._layer))
        return {name: handler for names, handler in handlers for name in names}

    def _configure(self, state: State, call: Call) -> Value | None:
        made = Unknown(self.machine.identity(state, call.node))
        if call.arguments.value(EMULATES) not in (None, FALSE):
            self.emulating.add(made.symbol)
        return made

    def _convert(self, state: State, call: Call) -> Value | None:
        given = call.arguments.given
        if not given or any(argument.star for argument in given):
            return None
        config = call.arguments.value("config")
        if isinstance(config, Unknown) and config.symbol in self.emulating:
            return given[0].value
        self.converted[call.node] = None
        known = state[ModelStates].known.get(root(self.machine, symbol_of(self.machine, given[0].value)))
        if known is not None and known.shards is not None and known.shards.replaces:
            self.machine.emit(state, ConvertedInShards, call.node, shards=known.shards)
        if call.arguments.value(*FILTER) in (None, NONE):
            refused = next(self._refused(state, given[0].value), None)
            self.machine.emit(state, ConvertedToFloat8, call.node, refused=refused)
        return given[0].value

    def _sized(self, call: Call) -> None:
        """Record the first size of a linear layer that float8 products refuse."""
        sizes = [call.arguments.value(*parameter) for parameter in _SIZES]
        known = [size.value for size in sizes if isinstance(size, Const) and isinstance(size.value, int)]
        wrong = next((size for size in known if size % MULTIPLE), None)
        self.sizes[call.node] = wrong if self.sizes.get(call.node, wrong) is not None else None

    def _refused(self, state: State, model: Value) -> Iterator[tuple[cst.CSTNode, int]]:
        """The layers of a model with constant sizes that float8 products refuse, each with the first such size."""
        for _, _, layer in owned(state, model):
            if isinstance(layer, Module) and layer.cls == _LINEAR and layer.made in self.sizes:
                wrong = self.sizes[layer.made]
                if wrong is not None:
                    yield layer.made, wrong

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report the conversions of a file that trains, unless a name refers to compilation or an external loop."""
        said = frozenset[str]().union(*(chunk.words for chunk in self.machine.program.chunks))
        if not self.converted or not said >= _TRAINS or any(map(COMPILES_ELSEWHERE.search, said)):
            return
        for node in self.converted:
            if self.machine.program.main.owns(node):
                self.machine.emit(State(), LeftUncompiled, node)

    def _layer(self, state: State, call: Call) -> Value | None:
        assert isinstance(call.callee, Ref)
        made = Unknown(self.machine.identity(state, call.node))
        self.engine.add(made.symbol)
        for name, place, multiple in LAYERS[call.callee.name].sizes:
            size = call.arguments.get(name, place)
            known = size.value.value if size is not None and isinstance(size.value, Const) else None
            if size is not None and isinstance(known, int) and known % multiple:
                self.layers.setdefault(made.symbol, (size.node, multiple))
        return made

    def context_entered(self, state: State, value: Value, by: cst.CSTNode, item: cst.BaseExpression | None) -> None:
        """Record an enabled region of Transformer Engine."""
        key = self.machine.symbols.key(value.symbol) if isinstance(value, Unknown) else ()
        if key[:1] == ("call",) and key[1] in REGIONS and isinstance(item, cst.Call):
            off = symbol_of(self.machine, FALSE) in self.machine.symbols.parts(value.symbol)  # type: ignore[union-attr]
            if not off:
                self.regions.add(by)

    def call_begins(self, state: State, call: Call) -> None:
        """Report a layer, a checkpoint, a backward pass or a step within a region."""
        if isinstance(call.callee, Ref) and call.callee.name == _LINEAR:
            self._sized(call)
        entered = next((one.entered_by for one in reversed(state.regions) if one.entered_by in self.regions), None)
        if entered is None:
            return
        callee, what = call.callee, ""
        if isinstance(callee, Ref) and callee.name in PLAIN_CHECKPOINTS and call.arguments.given:
            callee, what = call.arguments.given[0].value, _CHECKPOINT
        symbol = symbol_of(self.machine, callee)
        if symbol in self.layers:
            size, multiple = self.layers[symbol]
            self.machine.emit(state, SizeRefused, size, size=size, multiple=multiple, run=call.node)
        if what and symbol in self.engine:
            self.machine.emit(state, WithinFloat8, call.node, entered=entered, what=what)
        elif call.name == "backward" and not isinstance(call.owner, Ref):
            self.machine.emit(state, WithinFloat8, call.node, entered=entered, what="backward")
        elif call.name == "step" and isinstance(call.owner, (Optimizer, Scaler)):
            self.machine.emit(state, WithinFloat8, call.node, entered=entered, what="step")
