"""Scaled backward passes that a scaler lacks before its first step."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import NONE, Scaler
from amplint.source import syntax as cst
from amplint.source.tree import every


def is_missing(machine: Machine, scaler: Scaler, late: cst.Call | None) -> bool:
    """Whether a scaler is made in a program that scales nothing, but for a `late` pass."""
    scaling = sum(chunk.text.count(".scale(") for chunk in machine.program.chunks if "scale" in chunk.words)
    return scaler.created is not None and scaling == (late is not None)


def behind(machine: Machine, node: cst.Call, raw: cst.CSTNode | None) -> cst.Call | None:
    """The pass on the scaled loss of the plain pass `raw` that follows the call `node` in its block."""
    source = machine.program.source_of(node)
    loss = _loss(raw)
    if source is None or loss is None:
        return None
    inner: cst.CSTNode = node
    for above in source.ancestors(node):
        if isinstance(above, cst.IndentedBlock):
            for statement in above.body[above.body.index(inner) + 1 :]:
                if any(dotted(one.target) == loss for one in every(statement, cst.AssignTarget)):
                    return None
                found = next((call for call in every(statement, cst.Call) if _is_scaled_pass(call, loss)), None)
                if found is not None:
                    return found
            return None
        inner = above
    return None


def _loss(call: cst.CSTNode | None) -> str | None:
    """What spells the tensor that a backward pass runs on."""
    return dotted(call.func.value) if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else None


def _is_scaled_pass(call: cst.Call, loss: str) -> bool:
    scaled = call.func.value if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward" else None
    if not isinstance(scaled, cst.Call) or not isinstance(scaled.func, cst.Attribute) or len(scaled.args) != 1:
        return False
    return scaled.func.attr.value == "scale" and dotted(scaled.args[0].value) == loss


def without_object(state: State) -> set[str]:
    """The variables, and attributes of objects in variables, that are None on a path."""
    found: set[str] = set()
    for name, value in {**state.frames.get(MODULE_FRAME, {}), **state.frames[state.frame]}.items():
        if value == NONE:
            found.add(name)
        held = state.heap.get(symbol, {}) if (symbol := getattr(value, "symbol", None)) is not None else {}
        found.update(f"{name}.{attribute}" for attribute, one in held.items() if one == NONE)
    return found
