"""Definition sites of numbers in module variables, attributes, defaults and arguments."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Const, Value, number
from amplint.source import syntax as cst
from amplint.source.source import Source


def held(machine: Machine, source: Source, value: Value, node: cst.BaseExpression) -> Value:
    """`value` of the expression `node` in the file `source`, stored beyond the surrounding code."""
    if not isinstance(value, Const) or value.written is not None or number(value) is None:
        return value
    return Const(value.value, node) if source is machine.program.main else value


def argument(machine: Machine, state: State, value: Const, node: cst.BaseExpression) -> Value:
    """The value of the argument `node` of a call."""
    return held(machine, machine.module(state), value, node)


def assigned(
    machine: Machine, state: State, target: cst.BaseExpression, value: Value, node: cst.BaseExpression
) -> Value:
    """The value of `target = node`; local variables need no definition site, since their uses are near."""
    lasting = isinstance(target, cst.Attribute) or state.frame == MODULE_FRAME
    return held(machine, machine.module(state), value, node) if lasting else value
