"""Objects that run a whole training loop: Hugging Face's Trainer with its arguments, Lightning's Trainer."""

from __future__ import annotations

from amplint.semantics.events import HalfManaged
from amplint.semantics.models import parameters
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, NONE, TRUE, Const, Manager, Ref, Value
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import LOOPS, PRECISIONS, loop_kind

ARGUMENTS, LOOP = "arguments", "loop"
_MODEL = "<model>"
_OTHER_ENGINES = ("deepspeed", "fsdp", "half_precision_backend", "fp16_full_eval")
_NOTHING = (None, NONE, FALSE, Const(""))


def make(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Manager | None:
    """What a call builds that trains with float16 regions and a scaler, None for everything else."""
    kind = loop_kind(name)
    if kind is None or any(argument.star for argument in arguments.given):
        return None
    manager = Manager(machine.symbols.intern("manager", id(node), machine.sites), kind, "float16", False)
    if kind == ARGUMENTS:
        return manager if _asks_for_float16(arguments) else None
    if kind == LOOP:
        given = arguments.value("args", 1)
        model = arguments.value("model", 0)
        half = isinstance(given, Manager) and given.kind == ARGUMENTS
        if model is None or not half or arguments.value("peft_config") not in _NOTHING:
            return None
        state.set_attribute(manager.symbol, _MODEL, model)
        return manager
    precision = arguments.value("precision")
    other = [arguments.value("strategy"), arguments.value("plugins")]
    half = isinstance(precision, Const) and PRECISIONS.get(precision.value) == "float16"
    return manager if half and all(value in (*_NOTHING, Const("auto"), Const("ddp")) for value in other) else None


def _asks_for_float16(arguments: Arguments) -> bool:
    return arguments.value("fp16") == TRUE and all(arguments.value(name) in _NOTHING for name in _OTHER_ENGINES)


def run(
    machine: Machine, state: State, node: cst.Call, manager: Manager, name: str, arguments: Arguments
) -> Value | None:
    """`trainer.train()`, `trainer.fit(model)`: tell where the model's parameters are float16."""
    if LOOPS.get(manager.kind) != name:
        return None
    model = state.heap.get(manager.symbol, {}).get(_MODEL) or arguments.value("model", 0)
    if model is not None:
        meet(machine, state, node, manager, symbol_of(machine, model))
    return None


def meet(machine: Machine, state: State, node: cst.Call, manager: Manager, model: int) -> None:
    """`manager` trains `model`: tell where it scales the gradients of float16 parameters."""
    known = state[ModelStates].known.get(parameters.root(machine, model))
    if known is not None and known.half is not None and manager.precision == "float16":
        guesses = machine.guessed(known.half)
        machine.emit(state, HalfManaged, node, manager=manager, cast=known.half, guesses=guesses)


class Trainers(Tracker):
    """Follows objects that run a whole training loop."""

    def offers(self, name: str) -> bool:
        """What trains by itself."""
        return loop_kind(name) is not None

    def library_call(self, state: State, call: Call) -> Value | None:
        """A trainer or its arguments."""
        assert isinstance(call.callee, Ref)
        return make(self.machine, state, call.node, call.callee.name, call.arguments)
