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
    if backward is None:
        return False
    others = _opposite(machine, backward), _opposite(machine, step)
    if None in others:
        return False
    passes, steps = (every(block, cst.Call) for block in others if block is not None)
    return any(_method(call) == "backward" for call in passes) and any(
        _method(call) == "step" and call.args for call in steps
    )


def _opposite(machine: Machine, node: cst.CSTNode) -> cst.CSTNode | None:
    """The other branch of the innermost `if` around `node` that has two."""
    source = machine.program.source_of(node)
    inner = node
    for above in source.ancestors(node) if source is not None else ():
        if isinstance(above, cst.If) and above.orelse is not None and inner is not above.test:
            return above.body if inner is above.orelse else above.orelse
        inner = above
    return None


def _method(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
