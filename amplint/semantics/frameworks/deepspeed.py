"""DeepSpeed engines: their configuration, their construction, and the regions around them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from amplint.premises import Premise
from amplint.records import dataclass
from amplint.regex import regex
from amplint.semantics.configs.display import Reader, find, get, names
from amplint.semantics.configs.files import ConfigFiles
from amplint.semantics.events import (
    Because,
    ClippingLost,
    DividedTwice,
    EngineBypassed,
    EngineConfigured,
    EngineDisagrees,
    EngineInRegion,
    Evidence,
    GradState,
    LossOfOutput,
    ScalerBeside,
)
from amplint.semantics.memory.progress import ANY_OPTIMIZER, gradients_of
from amplint.semantics.models import half_outputs
from amplint.semantics.models.origins import root, sources
from amplint.semantics.python.expressions import assign, indices, single
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.demos import is_within_test
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Const,
    Function,
    Items,
    Optimizer,
    Ref,
    Unknown,
    Value,
    number,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.changes import OUTER_REGION_REFUSED, PLAIN_BACKWARD
from amplint.torchlib.deepspeed import (
    ADDED_BLOCKS,
    AUTO,
    AUTOCAST,
    CLIPPING,
    CONFIGS,
    CONFIGURED,
    CONVERTS,
    HALF_BLOCKS,
    INITIALIZE,
    KNOWN_BY,
    PARTITIONED,
    PRECISIONS,
    STAGE,
    STRATEGY,
    WINDOW,
)
from amplint.torchlib.frameworks import ALSO_HALF, MANAGERS, MATCHED, is_mixed_by_default, loop_kind
from amplint.torchlib.names import CLIPPERS

_PLUGIN, _LOOP = "DeepSpeedPlugin", "lightning loop"
_LIMITS = ("max_norm", "clip_value")
_ENGINES = frozenset({"backward", "step"})
_CLIPS = frozenset(name.rpartition(".")[2] for name, changes in CLIPPERS.items() if changes)


_ONE_EACH = regex(rf"\[\s*[\"']{WINDOW}[\"']\s*\]\s*=\s*1\b")
"""Sets the number of micro-batches in a window to 1."""
_PASSES_LOSS = regex(r"\.backward\(\s*[^)\s]")

_BLOCK = regex(r"[\"'](?:fp16|bf16)[\"'](?:\] ?=|:) ?(?:\{|dict\()|\b(?:fp16|bf16) ?= ?(?:\{|dict\()")

_Known = TypeVar("_Known")


@cached_per_chunk
def _builds_configuration(chunk: Chunk) -> bool:
    """Whether a part of a file writes a block of a configuration for a half dtype."""
    return _BLOCK.search(chunk.text) is not None


@dataclass(frozen=True)
class _Call:
    """PyTorch's own `call` in place of an engine's, and the `step` in which that shows."""

    call: str
    node: cst.CSTNode
    step: cst.CSTNode


@dataclass(frozen=True)
class _Config:
    """A known configuration: its value, the node that defines it, and whether that is in a file."""

    value: Items
    written: cst.CSTNode
    in_file: bool


class DeepSpeed(Tracker):
    """Tracks visible configurations, as literals or files, and the engines constructed with them.

    `plain` are engines without a region around them, `holding` unseen models that hold one of these, `hidden` those
    with an unseen configuration, `unclipped` those whose gradients are not clipped although none are on their
    parameters, and `converted` those that convert their model, each with the dtype. `engines` are all of them, each
    with the call that constructs it and the configuration, `stepped` those whose own step runs, and `bypassed` maps
    the others to the calls that go past them. `passes` are their backward passes, `escaped` what unseen code is
    passed, and `other_steps` are those of unknown objects.
    """

    triggers = frozenset({"initialize", _PLUGIN, STRATEGY[1:], "TrainingArguments"})

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.made: dict[Value, cst.CSTNode] = {}
        self.plain: dict[int, cst.CSTNode] = {}
        self.holding: dict[int, cst.CSTNode] = {}
        self.hidden: set[cst.CSTNode] = set()
        self.unclipped: dict[int, _Config] = {}
        self.converted: dict[int, tuple[str, _Config]] = {}
        self.plugins: dict[int, _Config] = {}
        self.engines: dict[int, tuple[cst.CSTNode, _Config | None]] = {}
        self.stepped: set[int] = set()
        self.bypassed: dict[int, _Call] = {}
        self.passes: dict[int, cst.CSTNode] = {}
        self.escaped: set[int] = set()
        self.other_steps = False

    def is_needed(self) -> bool:
        """Whether a selected rule handles one of the events."""
        events = (
            *(EngineConfigured, EngineInRegion, EngineDisagrees, EngineBypassed, ClippingLost, LossOfOutput),
            *(DividedTwice, ScalerBeside),
        )
        return not self.machine.wanted.isdisjoint(event.kind for event in events)

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that clip gradients, run the backward pass or step, in a file that starts an engine."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        if "deepspeed" not in said:
            builds = not KNOWN_BY.isdisjoint(said) and any(map(_builds_configuration, chunks))
            return Words(watched=KNOWN_BY & said if builds else frozenset())
        names = frozenset(word for word in said if word.endswith("TrainingArguments"))
        clips = _CLIPS if ClippingLost.kind in self.machine.wanted else frozenset()
        return Words(names | clips | _ENGINES if EngineBypassed.kind in self.machine.wanted else names | clips)

    def must_follow(self, state: State, function: Function, given: Sequence[Value]) -> bool:
        """Whether a function builds a configuration."""
        return _builds_configuration(function.chunk)

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Record the node of a dictionary bound to a name, and check a block bound to an entry of a configuration."""
        if not isinstance(value, Items) or not value.keys:
            return
        self.made.setdefault(value, node.value)
        if isinstance(target, cst.Subscript):
            owner, key = self.machine.evaluate(state, target.value), single(indices(self.machine, state, target))
            if (
                isinstance(owner, Items)
                and isinstance(key, Const)
                and key.value in PRECISIONS
                and _is_identified(owner)
            ):
                self._configured(state, node.value, _Config(Items((value,), (key,)), node.value, False))

    def function_returns(self, state: State, value: Value) -> None:
        """Check a dictionary that can only be a configuration."""
        if isinstance(value, Items) and _is_identified(value) and not names(value).isdisjoint(PRECISIONS):
            written = self.made.get(value) or _returned(self.machine.statement)
            if written is not None and not self._is_put_elsewhere(state, value):
                self.made.setdefault(value, written)
                self._configured(state, written, _Config(value, written, False))

    def _configured(self, state: State, node: cst.CSTNode, config: _Config) -> None:
        """Emit a configuration, unless a file has it as it is, which is linted itself."""
        if config.in_file or (_is_identified(config.value) and self._is_content(config.value)):
            return
        written = {name: self.made.get(block) for name in PRECISIONS if (block := get(config.value, name)) is not None}
        blocks = {name: place for name, place in written.items() if place is not None}
        version = self.machine.program.wanted("deepspeed")
        self.machine.emit(
            state,
            EngineConfigured,
            node,
            config=config.value,
            written=config.written,
            blocks=blocks or None,
            version=version,
        )

    def _is_content(self, config: Items) -> bool:
        return self.machine.configs and self.machine[ConfigFiles].holds(config)

    def _is_put_elsewhere(self, state: State, config: Items) -> bool:
        """Whether entries of a configuration were set in an unseen way."""
        parts = (config, *(value for value in config.values if isinstance(value, Items)))
        return any(symbol_of(self.machine, part) in state.heap for part in parts)

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Record the unseen model of which an engine becomes a part."""
        made = self._engine_of(self.plain, value.symbol) if self.plain and isinstance(value, Unknown) else None
        if made is not None and isinstance(owner, Unknown):
            symbol = root(self.machine, owner.symbol)
            while self.machine.symbols.key(symbol)[0] == "attribute":
                symbol = root(self.machine, self.machine.symbols.parts(symbol)[0])
            self.holding[symbol] = made
        return None

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """Handle `config["bf16"] = {...}`, behind which the variable holds another dictionary."""
        key = single(indices(self.machine, state, target))
        if isinstance(key, Const):
            self._put(state, target.value, owner, {key: value})

    def _updated(self, state: State, place: cst.BaseExpression, owner: Items, arguments: Arguments) -> None:
        """Handle `config.update({...})`."""
        given = arguments.given[0] if len(arguments.given) == 1 else None
        more = given.value if given is not None and given.keyword is None and not given.star else None
        if isinstance(more, Items) and more.keys:
            self._put(state, place, owner, dict(zip(more.keys, more.values, strict=True)))

    def _put(self, state: State, place: cst.BaseExpression, owner: Value, entries: Mapping[Value, Value]) -> None:
        """Put entries into the configuration, or the block of one, that the variable or item `place` holds."""
        if not isinstance(owner, Items) or not owner.keys:
            return
        held = dict(zip(owner.keys, owner.values, strict=True))
        changed = {**held, **entries}
        if not names(owner).isdisjoint({*KNOWN_BY, *PRECISIONS, "enabled"}) and changed != held:
            made = Items(tuple(changed.values()), tuple(changed))
            self.made.setdefault(made, self.made.get(owner, place))
            assign(self.machine, state, place, made)

    def call_begins(self, state: State, call: Call) -> None:
        """Record a step of an engine, with the backward pass before it, or of its optimizer alone."""
        if call.name == "update" and isinstance(call.owner, Items) and isinstance(call.node.func, cst.Attribute):
            self._updated(state, call.node.func.value, call.owner, call.arguments)
        if call.name == "backward" and isinstance(call.owner, Unknown) and self.engines:
            self._passed_back(call, call.owner)
        if call.name != "step" or not self.engines or not isinstance(call.owner, (Unknown, Optimizer)):
            return
        symbols, symbol = self.machine.symbols, root(self.machine, call.owner.symbol)
        kind, *place = symbols.key(symbol)
        engine = symbols.parts(symbol)[0] if kind == "part" and place and place[0] in (0, 1) else symbol
        if engine not in self.engines:
            self.other_steps |= kind != "call" or not (place and isinstance(place[0], Ref))
            return
        if place[:1] == [1] and kind == "part":
            self.bypassed.setdefault(engine, _Call("step", call.node, call.node))
            return
        self.stepped.add(engine)
        gradients = gradients_of(self.machine, state, ANY_OPTIMIZER)
        if gradients.state is GradState.RAW and gradients.consumed is None and gradients.raw is not None:
            self.bypassed[engine] = _Call("backward", gradients.raw, call.node)

    def _passed_back(self, call: Call, owner: Unknown) -> None:
        """Record a backward pass of an engine that trains: in a loop, and outside of tests, which read gradients."""
        if not self.machine.loops or is_within_test(self.machine.calls):
            return
        symbols, symbol = self.machine.symbols, root(self.machine, owner.symbol)
        engine = symbols.parts(symbol)[0] if symbols.key(symbol)[:2] == ("part", 0) else symbol
        if engine in self.engines:
            self.passes.setdefault(engine, call.node)

    def escape(self, state: State, values: Iterable[Value]) -> None:
        """Unseen code that is passed an engine may step it."""
        for value in values if self.engines else ():
            if isinstance(value, Unknown):
                self.escaped.update(self.machine.symbols.derivation(value.symbol))

    def file_ends(self, starts: Sequence[State]) -> None:
        """Report engines whose backward pass, or whose step, no call in the file runs."""
        passes = any(_PASSES_LOSS.search(chunk.text) for chunk in self.machine.program.main.chunks)
        texts = [chunk.text for chunk in self.machine.program.main.chunks]
        named = any(WINDOW in text for text in texts) and not any(map(_ONE_EACH.search, texts))
        version = self.machine.program.wanted("deepspeed")
        for engine, node in self.passes.items() if not self.other_steps else ():
            if engine not in self.stepped | self.escaped | self.bypassed.keys():
                made, details = self.engines[engine][0], {"refused": True, "version": version}
                self.machine.emit(State(), EngineBypassed, node, call="no step", step=node, made=made, **details)
        for engine, past in self.bypassed.items():
            made, config = self.engines[engine]
            if past.call == "step" and (engine in self.stepped or not _counts(config, named)):
                continue
            refused = _refuses(config) if past.call == "backward" else config is not None
            accepted = not refused and version is not None and version.has(PLAIN_BACKWARD)
            if past.call == "backward" and (passes or accepted):
                continue
            self.machine.emit(
                State(), EngineBypassed, past.node, call=past.call, step=past.step, made=made, refused=refused,
                version=version,
            )  # fmt: skip

    def unseen_begins(self, state: State, call: Call) -> None:
        """Check the configuration of an engine, gradient clipping outside of it, and its forward pass in a region."""
        if isinstance(call.callee, Ref) and _is_configured(call.callee.name):
            config = self._config(state, call.arguments)
            if config is not None:
                self._configured(state, call.node, config)
            self._compare(state, call, call.callee.name, config)
        elif isinstance(call.callee, Ref) and CLIPPERS.get(call.callee.name) and _clips(call.arguments):
            models = sources(self.machine, next(iter(call.arguments.values), None)) or ()
            for config in filter(None, (self._engine_of(self.unclipped, model) for model in models)):
                name = call.callee.name.rpartition(".")[2]
                written = {"argument": name, "written": config.written}
                self.machine.emit(state, ClippingLost, call.node, **written, called=True)
        elif isinstance(call.callee, Unknown) and self.plain:
            model = call.owner if call.name == "forward" and isinstance(call.owner, Unknown) else call.callee
            held = self.holding.get(root(self.machine, model.symbol))
            made = self._engine_of(self.plain, model.symbol) or held
            region, entered = innermost(self.machine, state)
            if made is None or region is None or region.enabled != TRUE:
                return
            version = self.machine.program.wanted("deepspeed")
            if version is None or version.has(OUTER_REGION_REFUSED) is not False:
                hidden = (Premise.CONFIGURED_WITHOUT,) if made in self.hidden else ()
                premises = (*hidden, Premise.RUNS_ENGINE) if made is held else hidden
                details = {"made": made, "entered": entered, "version": version}
                self.machine.emit(state, EngineInRegion, call.node, premises=premises, **details)

    def is_engine(self, symbol: int) -> bool:
        """Whether `symbol` is an engine that the script starts."""
        return self._engine_of(self.engines, symbol) is not None

    def steps_of(self, engine: int) -> Value | None:
        """The number of micro-batches that the visible configuration of an engine says."""
        _, config = self._engine_of(self.engines, engine) or (None, None)
        return get(config.value, WINDOW) if config is not None else None

    def _engine_of(self, engines: dict[int, _Known], symbol: int) -> _Known | None:
        """The entry in `engines` for the engine that `symbol` is, or whose inner module it is."""
        symbols, symbol = self.machine.symbols, root(self.machine, symbol)
        if symbols.key(symbol)[:2] == ("attribute", "module"):
            symbol = symbols.parts(symbol)[0]
        if symbols.key(symbol)[:2] == ("part", 0):
            symbol = symbols.parts(symbol)[0]
        return engines.get(symbol)

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record an engine, or a plugin for one, constructed with a visible configuration, and the output of one."""
        if isinstance(call.callee, Unknown) and isinstance(result, Unknown) and self.converted:
            found = self._engine_of(self.converted, call.callee.symbol)
            if found is not None:
                dtype, configured = found
                text = f"the engine converts the model to {dtype}, and its output stays so"
                evidence = Evidence(Because.POLICY, frozenset({dtype}), text, configured.written)
                half_outputs.record(self.machine, state, result.symbol, evidence)
        if not isinstance(call.callee, Ref) or not isinstance(result, Unknown):
            return
        config = self._config(state, call.arguments)
        if call.callee.name in INITIALIZE:
            self.engines[result.symbol] = call.node, config
        if config is None:
            if call.callee.name in INITIALIZE:
                self.plain[result.symbol] = call.node
                self.hidden.add(call.node)
            return
        if call.callee.name in INITIALIZE and Const(AUTOCAST) not in (config.value.keys or ()):
            self.plain[result.symbol] = call.node
        for block, dtype in CONVERTS.items() if call.callee.name in INITIALIZE else ():
            if get(config.value, block, "enabled") == TRUE:
                self.converted[result.symbol] = dtype, config
        if call.callee.name in INITIALIZE and _leaves_gradients_alone(config.value):
            self.unclipped[result.symbol] = config
        elif call.callee.name.endswith((f".{_PLUGIN}", STRATEGY)):
            self.plugins[result.symbol] = config

    def _config(self, state: State, arguments: Arguments) -> _Config | None:
        """The configuration argument, if it is a literal that was not changed since in an unseen way."""
        given = next(filter(None, map(arguments.get, CONFIGS)), None)
        if given is None:
            return None
        if isinstance(given.value, Const):
            file = self.machine.program.config(given.value.value) if isinstance(given.value.value, str) else None
            value = Reader(self.machine.fresh).value(file.root) if file is not None else None
            known = isinstance(value, Items) and not names(value).isdisjoint({*KNOWN_BY, *PRECISIONS})
            return _Config(value, file.root, True) if known else None  # type: ignore[arg-type, union-attr]
        if not isinstance(given.value, Items) or not given.value.keys:
            return None
        if self._is_put_elsewhere(state, given.value):
            return None
        return _Config(given.value, self.made.get(given.value, given.node.value), False)

    def _compare(self, state: State, call: Call, name: str, config: _Config | None) -> None:
        """Compare the arguments of a call that starts the engine with `config`."""
        if name in MANAGERS:
            plugin = call.arguments.value("deepspeed_plugin")
            config = self.plugins.get(plugin.symbol) if isinstance(plugin, Unknown) else None
            if config is not None:
                self._compare_precision(state, call, config, "mixed_precision", HALF_BLOCKS)
        elif loop_kind(name) == _LOOP:
            strategy = call.arguments.value("strategy")
            config = self.plugins.get(strategy.symbol) if isinstance(strategy, Unknown) else None
            if config is not None:
                self._compare_precision(state, call, config, "precision", ADDED_BLOCKS)
        elif loop_kind(name) == "arguments" and config is not None:
            for setting, (argument, ours) in _arguments(name, call.arguments):
                self._compare_setting(state, call, config, setting, argument, ours)

    def _compare_precision(
        self, state: State, call: Call, config: _Config, argument: str, blocks: Mapping[str, str]
    ) -> None:
        """Compare an argument for the precision with the blocks that are enabled; it enables one of its own."""
        asked = call.arguments.get(argument)
        precision = asked.value.value if asked is not None and isinstance(asked.value, Const) else None
        for block in {*PRECISIONS} - {blocks[str(precision)]} if str(precision) in blocks else ():
            if asked is not None and get(config.value, block, "enabled") == TRUE:
                starter = call.callee.name.rpartition(".")[2] if isinstance(call.callee, Ref) else ""
                self._emit_disagreement(state, asked.node, config, f"{block}.enabled", argument, asked.value, starter)

    def _compare_setting(
        self, state: State, call: Call, config: _Config, setting: str, argument: str, ours: Value
    ) -> None:
        """Compare a setting; transformers checks those in the configuration and passes on no others."""
        theirs = get(config.value, *setting.split("."))
        given = call.arguments.get(argument)
        node = given.node if given is not None else call.node
        if setting == CLIPPING and theirs is None and given is not None and number(ours):
            self.machine.emit(state, ClippingLost, given.node, argument=argument, written=config.written)
        if isinstance(theirs, Const) and isinstance(ours, Const) and theirs.value not in (AUTO, None, ours.value):
            starter = call.callee.name.rpartition(".")[2] if isinstance(call.callee, Ref) else ""
            self._emit_disagreement(state, node, config, setting, argument, ours, starter)

    def _emit_disagreement(
        self, state: State, node: cst.CSTNode, config: _Config, setting: str, argument: str, ours: Value, starter: str
    ) -> None:
        written = find(config.written, *setting.split("."))
        self.machine.emit(
            state,
            EngineDisagrees,
            node,
            setting=setting,
            theirs=get(config.value, *setting.split(".")),
            written=written if written is not None else config.written,
            argument=argument,
            ours=ours,
            starter=starter,
        )


def _returned(statement: cst.CSTNode | None) -> cst.CSTNode | None:
    """The expression that a statement returns."""
    last = statement.body[-1] if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) else None
    return last.value if isinstance(last, cst.Return) else None


def _is_identified(config: Items) -> bool:
    """Whether a dictionary has settings of an engine by which it can only be a configuration of one."""
    return not names(config).isdisjoint(KNOWN_BY)


def _clips(arguments: Arguments) -> bool:
    """Whether a clipping call may change gradients; with an infinite limit it only measures them."""
    limit = next((arguments.value(name, 1) for name in _LIMITS if arguments.get(name, 1)), None)
    return limit != NONE and (number(limit) or 0) < math.inf


def _leaves_gradients_alone(config: Items) -> bool:
    """Whether an engine leaves no gradients on its parameters, and is not configured to clip them either."""
    keys, least = PARTITIONED
    clips = get(config, CLIPPING)
    return (number(get(config, *keys)) or 0) >= least and (clips is None or number(clips) == 0)


def _counts(config: _Config | None, named: bool) -> bool:
    """Whether an engine is configured to add up micro-batches, or may be in a file that has `named` several."""
    return named if config is None else (number(get(config.value, WINDOW)) or 0) > 1


def _refuses(config: _Config | None) -> bool | None:
    """Whether each version of an engine needs its own backward pass; None for an unseen configuration."""
    if config is None:
        return None
    return get(config.value, "fp16", "enabled") == TRUE or not number(get(config.value, *STAGE))


def _is_configured(name: str) -> bool:
    """Whether a function or class can take a configuration."""
    return name.partition(".")[0] in CONFIGURED or name.endswith(STRATEGY) or loop_kind(name) == _LOOP


def _arguments(name: str, arguments: Arguments) -> Iterator[tuple[str, tuple[str, Value]]]:
    """Settings of DeepSpeed's configuration that training arguments set, too: setting -> argument and its value.

    Defaults are those of `TrainingArguments`; classes of other packages have others, trl's not of float16.
    """
    starred = any(argument.star for argument in arguments.given)
    hidden = starred or not name.startswith("transformers.")
    alike = {"fp16"} if is_mixed_by_default(name) and not starred else set()
    also = any(arguments.value(other) not in (None, FALSE) for other in ALSO_HALF)
    for setting, (argument, default) in MATCHED.items():
        given = arguments.value(argument)
        if given is None and hidden and argument not in alike:
            continue
        if also and setting.endswith(".enabled"):
            continue
        yield setting, (argument, Const(default) if given is None else given)
