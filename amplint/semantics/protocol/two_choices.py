"""Two choices between scaled and plain work, one for backward and one for the step, which may be the same choice."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.source import syntax as cst
from amplint.source.tree import every


def may_agree(machine: Machine, backward: cst.CSTNode | None, step: cst.CSTNode) -> bool:
    """Whether each of the two stands opposite to a call of its kind, under conditions that the path tells apart.

    `if scaler is None` around backward and `if use_amp` around the step mean the same where a scaler is made for
    `use_amp`, which a path no longer knows once it has been joined with others.
    """
    first, second = _choice(machine, backward), _choice(machine, step)
    if first is None or second is None or first[0] is second[0]:
        return False
    return any(_method(call) == "backward" for call in every(first[1], cst.Call)) and any(
        _method(call) == "step" and call.args for call in every(second[1], cst.Call)
    )


def _choice(machine: Machine, node: cst.CSTNode | None) -> tuple[cst.If, cst.CSTNode] | None:
    """The innermost `if` around `node` that has two branches, and the one that `node` is not in."""
    source = machine.program.source_of(node) if node is not None else None
    inner = node
    for above in source.ancestors(node) if source is not None and node is not None else ():
        if isinstance(above, cst.If) and above.orelse is not None and inner is not above.test:
            return above, above.body if inner is above.orelse else above.orelse
        inner = above
    return None


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
