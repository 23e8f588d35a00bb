"""Where numbers are written that variables of the module, attributes and defaults hold, or that calls hand over."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Const, Value, number
from amplint.source import syntax as cst
from amplint.source.source import Source


def held(machine: Machine, source: Source, value: Value, node: cst.BaseExpression) -> Value:
    """`value` of the expression `node` in the file `source`, which something holds that outlives the code around it."""
    if not isinstance(value, Const) or value.written is not None or number(value) is None:
        return value
    return Const(value.value, node) if source is machine.program.main else value


def handed(machine: Machine, state: State, value: Value, node: cst.BaseExpression) -> Value:
    """What the argument `node` of a call hands over."""
    return held(machine, machine.module(state), value, node) if isinstance(value, Const) else value


def assigned(
    machine: Machine, state: State, target: cst.BaseExpression, value: Value, node: cst.BaseExpression
) -> Value:
    """What `target = node` assigns: variables of functions are read near to where they are set."""
    lasting = isinstance(target, cst.Attribute) or state.frame == MODULE_FRAME
    return held(machine, machine.module(state), value, node) if lasting else value
