"""Models that libraries load, and the dtypes that they load them in."""

from __future__ import annotations

from amplint.semantics.configs.defaults import is_off_by_default
from amplint.semantics.models.model_states import ModelStates, change
from amplint.semantics.models.origins import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import decide_value, symbol_of
from amplint.semantics.tensors.tensors import dtype_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, NONE, TRUE, Const, OneOf, Ref, Unknown, Value
from amplint.semantics.words import FLOAT32_WEIGHTS, PRETRAINED
from amplint.source import syntax as cst
from amplint.torchlib.changes import MADE_AS_CONFIGURED
from amplint.torchlib.frameworks import (
    ADAPTERS,
    ADDING,
    ASKED_DTYPES,
    CASTS_ADAPTERS,
    COMPUTE_DTYPE,
    COPIED,
    DTYPE_IN_8_BITS,
    DTYPE_NAMES,
    IN_4_BITS,
    IN_8_BITS,
    PIPELINES,
    QUANTIZERS,
    is_configuration,
    loads_as_saved,
    makes_from_configuration,
)
from amplint.torchlib.names import DTYPES, HALF_DTYPES

_QUANTIZING = ("quantization_config", "load_in_8bit", "load_in_4bit")
_LOADERS = frozenset({"from_pretrained", "from_config"})


class LoadedModels(Tracker):
    """Tracks models that libraries load, quantize, or train adapters of.

    `loaded` are the half dtypes in which models were loaded, and the calls, whatever unseen code has done with them
    since. `parts` maps pipelines to the models that they hold. `quantizers` maps configurations of bitsandbytes to
    their half compute dtype, and the argument; `copying` maps configurations of adapters to whether copies of layers
    are trained, too, and `adapted` calls of peft that run to the cast of what they train.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.loaded: dict[int, tuple[str, cst.CSTNode]] = {}
        self.parts: dict[int, list[int]] = {}
        self.quantizers: dict[int, tuple[str, cst.CSTNode]] = {}
        self.copying: dict[int, bool] = {}
        self.adapted: dict[cst.CSTNode, dict[str, cst.CSTNode]] = {}

    def trained_in_half(self, state: State, call: Call) -> dict[str, cst.CSTNode]:
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


def load(machine: Machine, state: State, node: cst.Call, name: str, model: Value, arguments: Arguments) -> None:
    """Record the dtype of parameters loaded by `Class.from_pretrained(...)`, of this `name`, unless quantized."""
    asked = _asked_dtype(arguments)
    dtype = asked.value if isinstance(asked, Const) else dtype_of(machine, asked)
    if any(_is_on(machine, state, name, arguments.value(name)) for name in _QUANTIZING):
        _quantize(machine, state, model, arguments.value(_QUANTIZING[0]))
        return
    if dtype in HALF_DTYPES:
        machine.record_guesses(node, PRETRAINED.guesses(name))
        machine[LoadedModels].loaded[symbol_of(machine, model)] = str(dtype), node
        change(state, symbol_of(machine, model), **{"half" if dtype == "float16" else "bfloat16": node})
    elif asked is not None and may_be_float16(asked):
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
        machine[LoadedModels].loaded[symbol_of(machine, model)] = str(dtype), node
        change(state, symbol_of(machine, model), **{"half" if dtype == "float16" else "bfloat16": node})


def _is_on(machine: Machine, state: State, name: str, given: Value | None) -> bool:
    """Whether an option quantizes a model, on a path of its own where a switch does that is off by default."""
    if isinstance(given, Unknown) and name.startswith("load_in") and is_off_by_default(machine, given):
        return decide_value(machine, state, given)
    return given not in (None, NONE, FALSE)


def _quantize(machine: Machine, state: State, model: Value, config: Value | None) -> None:
    """Record the half compute dtype of a model that a configuration of bitsandbytes quantizes."""
    config_call = machine[LoadedModels].quantizers.get(config.symbol) if isinstance(config, Unknown) else None
    if config_call is not None:
        change(state, symbol_of(machine, model), computed=config_call)


def loads_models(machine: Machine) -> bool:
    """Whether the program names a method by which libraries make models in a dtype."""
    return any(not chunk.words.isdisjoint(_LOADERS) for chunk in machine.program.chunks)


def may_be_float16(value: Value) -> bool:
    """Whether `value` is one of several dtypes, float16 among them."""
    return isinstance(value, OneOf) and any(DTYPES.get(option) == "float16" for option in value.options)
