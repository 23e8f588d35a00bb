"""Two choices between scaled and plain work, for backward and for the step, which may be the same choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.source import syntax as cst
from amplint.source.tree import every

_Choice: TypeAlias = tuple[cst.If, cst.CSTNode]


def may_agree(machine: Machine, state: State, backward: cst.CSTNode | None, step: cst.CSTNode) -> bool:
    """Whether each of the two has a counterpart in the other branch, under conditions that the path distinguishes.

    `if scaler is None` around backward and `if use_amp` around the step are equivalent if a scaler is constructed for
    `use_amp`, which a path does not know any more after a join. If it does, the condition of the step was decided
    before it was tested.
    """
    first, second = _choice(machine, backward), _choice(machine, step)
    if first is None or second is None or first[0] is second[0] or not _is_open(state, second[0].test):
        return False
    passes, steps = _calls_opposite(machine, first), _calls_opposite(machine, second)
    return any(map(_is_plain_backward, passes)) and any(_method(call) == "step" and call.args for call in steps)


def _calls_opposite(machine: Machine, choice: _Choice) -> Iterator[cst.Call]:
    """The calls in the other branch that depend on no further choice."""
    for call in every(choice[1], cst.Call):
        own = _choice(machine, call)
        if own is not None and own[0] is choice[0]:
            yield call


def _choice(machine: Machine, node: cst.CSTNode | None) -> _Choice | None:
    """The innermost `if` around `node` with two branches, and the branch that `node` is not in."""
    source = machine.program.source_of(node) if node is not None else None
    inner = node
    for above in source.ancestors(node) if source is not None and node is not None else ():
        if isinstance(above, cst.If) and above.orelse is not None and inner is not above.test:
            return above, above.body if inner is above.orelse else above.orelse
        inner = above
    return None


def _is_open(state: State, test: cst.BaseExpression) -> bool:
    """Whether the path diverged from another one when it last reached `test`."""
    trail = state.trail
    while trail is not None and trail.step[0] is not test:
        trail = trail.before
    return trail is None or bool(trail.step[1])


def _is_plain_backward(call: cst.Call) -> bool:
    """Whether `call` is a backward pass of anything but `scaler.scale(...)`."""
    if not isinstance(call.func, cst.Attribute) or _method(call) != "backward":
        return False
    loss = call.func.value
    return not (isinstance(loss, cst.Call) and _method(loss) == "scale")


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
