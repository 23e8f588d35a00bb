"""Operations that autocast does not cast: in-place forms, and calls with `out=`."""

from __future__ import annotations

from amplint.semantics.events import NotCast
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import NOT_CAST_IN_PLACE, NOT_CAST_WITH_OUT


def computed(
    machine: Machine,
    state: State,
    node: cst.Call,
    name: str,
    operand: tuple[cst.BaseExpression, Value],
    arguments: Arguments,
) -> None:
    """Emit `NotCast` for a listed operation in such a form where one of its operands is surely float32."""
    out = arguments.get("out")
    if innermost(machine, state)[0] is None or name not in (NOT_CAST_IN_PLACE if out is None else NOT_CAST_WITH_OUT):
        return
    given = [operand, *((argument.node.value, argument.value) for argument in arguments.given)]
    single = [path for path, value in given if isinstance(value, Tensor) and value.dtype == "float32"]
    half = [path for path, value in given if isinstance(value, Tensor) and value.dtype in HALF_DTYPES]
    if single:
        target = operand[0] if out is None else out.node.value
        machine.emit(state, NotCast, node, op=name, target=target, single=single[0], half=half[0] if half else None)
