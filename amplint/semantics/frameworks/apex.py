"""Results of NVIDIA apex: the optimizer it was given, and an alias of the loss it scales."""

from __future__ import annotations

from amplint.semantics.memory.ledger import Ledger
from amplint.semantics.models import parameters
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.plain_calls import unseen_result
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors import weights
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Const, Items, Optimizer, Ref, Tensor, Value
from amplint.source import syntax as cst
from amplint.torchlib.legacy import INITIALIZE, SCALE_LOSS


def called(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value | None:
    """The result of a call of a library function; None if it is not one of apex's wrappers."""
    loss = arguments.value("loss", 0) if name == SCALE_LOSS else None
    if loss is not None:
        scaled = unseen_result(machine, state, name, arguments, node)
        return Tensor(symbol_of(machine, scaled), plain=symbol_of(machine, loss))
    optimizer = arguments.value("optimizers", 1) if name == INITIALIZE else None
    if not isinstance(optimizer, Optimizer):
        return None
    if _scales_dynamically(arguments):
        machine[Ledger].initialized.setdefault(optimizer.symbol, node)
    parameters.forget_dtypes(machine, state, arguments.values)
    weights.escape(machine, arguments.values)
    both = unseen_result(machine, state, name, arguments, node)
    return Items((machine.unknown("part", 0, parts=(symbol_of(machine, both),)), optimizer))


_FLOAT32 = Const("O0")
_UNSCALED = (_FLOAT32, Const("O3"))
"""Levels of optimisation without loss scaling, by default."""


def _scales_dynamically(arguments: Arguments) -> bool:
    """Whether the scale is found while training runs, so that it is part of the state."""
    scale = arguments.value("loss_scale", 8)
    usual = scale in (None, Const(None), Const("dynamic"))
    level = arguments.value("opt_level", 3)
    if arguments.value("enabled", 2) == FALSE or not usual or level == _FLOAT32:
        return False
    return scale == Const("dynamic") or level not in _UNSCALED


class Apex(Tracker):
    """Tracks the results of apex's wrappers."""

    def handles_library_call(self, name: str) -> bool:
        """Whether this wraps an optimizer or a loss."""
        return name in (INITIALIZE, SCALE_LOSS)

    def library_call(self, state: State, call: Call) -> Value | None:
        """Handle `amp.initialize` and `amp.scale_loss`."""
        assert isinstance(call.callee, Ref)
        return called(self.machine, state, call.node, call.callee.name, call.arguments)
