"""Objects that run a whole training loop: Hugging Face's Trainer with its arguments, Lightning's Trainer."""

from __future__ import annotations

from amplint.semantics.events import HalfManaged, PrecisionTwice
from amplint.semantics.models import parameters
from amplint.semantics.models.model_states import ModelStates
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, NONE, TRUE, Const, Manager, Ref, Value
from amplint.source import syntax as cst
from amplint.torchlib.frameworks import LOOPS, PRECISIONS, ROUNDING, loop_kind
from amplint.torchlib.names import HALF_DTYPES

ARGUMENTS, LOOP = "arguments", "loop"
_MODEL = "<model>"
_OTHER_ENGINES = ("deepspeed", "fsdp", "half_precision_backend", "fp16_full_eval")
_OTHER_WEIGHTS = ("peft_config", "optimizers", "optimizer_cls_and_kwargs")
_NOTHING = (None, NONE, FALSE, Const(""))


def make(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Manager | None:
    """What a call builds that trains in mixed precision around weights as they come, None for everything else."""
    kind = loop_kind(name)
    if kind is None or any(argument.star for argument in arguments.given):
        return None
    symbol = machine.symbols.intern("manager", id(node), machine.sites)
    if kind == ARGUMENTS:
        precision = _asked(arguments)
        return Manager(symbol, kind, precision, False) if precision is not None else None
    if kind == LOOP:
        given = arguments.value("args", 1)
        model = arguments.value("model", 0)
        if not isinstance(given, Manager) or given.kind != ARGUMENTS or model is None:
            return None
        if any(arguments.value(name) not in _NOTHING for name in _OTHER_WEIGHTS):
            return None
        state.set_attribute(symbol, _MODEL, model)
        return Manager(symbol, kind, given.precision, False)
    asked = arguments.value("precision")
    precision = PRECISIONS.get(asked.value) if isinstance(asked, Const) else None
    other = [arguments.value("strategy"), arguments.value("plugins")]
    plain = all(value in (*_NOTHING, Const("auto"), Const("ddp")) for value in other)
    return Manager(symbol, kind, precision, False) if precision in HALF_DTYPES and plain else None


def _asked(arguments: Arguments) -> str | None:
    """The dtype of the mixed precision that training arguments ask for, None where another engine may run it."""
    if any(arguments.value(name) not in _NOTHING for name in _OTHER_ENGINES):
        return None
    half, bfloat16 = arguments.value("fp16") == TRUE, arguments.value("bf16") == TRUE
    optimizer = arguments.value("optim") or Const("adamw_torch")
    rounds = isinstance(optimizer, Const) and optimizer.value in ROUNDING
    return "float16" if half else "bfloat16" if bfloat16 and rounds else None


def run(
    machine: Machine, state: State, node: cst.Call, manager: Manager, name: str, arguments: Arguments
) -> Value | None:
    """`trainer.train()`, `trainer.fit(model)`: tell where the model's parameters are half."""
    if LOOPS.get(manager.kind) != name:
        return None
    model = state.heap.get(manager.symbol, {}).get(_MODEL) or arguments.value("model", 0)
    if model is not None:
        meet(machine, state, node, manager, symbol_of(machine, model))
    return None


def meet(machine: Machine, state: State, node: cst.Call, manager: Manager, model: int) -> None:
    """`manager` trains `model`: tell where it has parameters in the dtype that it should be cast to."""
    known = state[ModelStates].known.get(parameters.root(machine, model))
    cast = None if known is None else known.half if manager.precision == "float16" else known.bfloat16
    if cast is not None and manager.precision in HALF_DTYPES:
        guesses = machine.guessed(cast)
        machine.emit(state, HalfManaged, node, manager=manager, cast=cast, guesses=guesses)


class Trainers(Tracker):
    """Follows objects that run a whole training loop."""

    def offers(self, name: str) -> bool:
        """What trains by itself."""
        return loop_kind(name) is not None

    def library_call(self, state: State, call: Call) -> Value | None:
        """A trainer or its arguments."""
        assert isinstance(call.callee, Ref)
        both = [call.arguments.get(name) for name in ("fp16", "bf16")]
        if loop_kind(call.callee.name) == ARGUMENTS and all(one is not None and one.value == TRUE for one in both):
            first, second = sorted((one.node for one in both if one is not None), key=call.node.args.index)
            self.machine.emit(state, PrecisionTwice, second, other=first)
        return make(self.machine, state, call.node, call.callee.name, call.arguments)
