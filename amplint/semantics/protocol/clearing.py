"""Loops with an effect as a whole: on the gradients of all parameters, or with the optimizers they iterate over."""

from __future__ import annotations

from amplint.semantics.accumulation import windows
from amplint.semantics.events import Job
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.protocol.escapes import forget_gradients
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.methods import CLEARING


def clears(loop: cst.For) -> bool:
    """Whether `loop` does nothing but clear the gradient of each parameter that has one."""
    names = {node.value for node in walk(loop.target) if isinstance(node, cst.Name)}
    body = loop.body.body
    if len(body) == 1 and isinstance(body[0], cst.If) and body[0].orelse is None:
        asked = {dotted(node) for node in walk(body[0].test) if isinstance(node, cst.Attribute)}
        if not asked or any(_parameter(name) not in names for name in asked):
            return False
        body = body[0].body.body
    small = [one for line in body for one in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])]
    return bool(small) and all(_cleared(one) in names for one in small)


def looped(machine: Machine, state: State, loop: cst.CSTNode) -> None:
    """A loop ended: if it stepped the optimizers it iterated over, none has pending gradients."""
    for symbol, gradients in list(state[Progress].gradients.items()):
        if gradients.consumed is not None and machine.symbols.involves(symbol, "item", id(loop)):
            state.change(Progress).gradients[ANY_OPTIMIZER] = gradients


def _cleared(statement: cst.CSTNode) -> str | None:
    """The parameter whose gradient a statement clears."""
    if isinstance(statement, cst.Assign) and isinstance(statement.value, cst.Name) and statement.value.value == "None":
        return _parameter(dotted(statement.targets[0].target))
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        owner, _, method = (dotted(statement.value.func) or "").rpartition(".")
        return _parameter(owner) if method in CLEARING else None
    return None


def _parameter(gradient: str | None) -> str | None:
    """`p` of `p.grad` and `p.grad.data`."""
    name, _, rest = (gradient or "").partition(".")
    return name if rest in ("grad", "grad.data") else None


class LoopsOverGradients(Tracker):
    """Tracks loops that clear all gradients or step several optimizers."""

    triggers = frozenset({"grad"})

    def applies_whole_loop(self, state: State, node: cst.For) -> bool:
        """Whether the loop clears all gradients."""
        if not clears(node):
            return False
        self.machine.interactions += 1
        forget_gradients(state)
        windows.note(self.machine, state, Job.CLEAR, node, in_vain=True)
        return True

    def loop_ends(self, state: State, loop: cst.For | cst.While) -> None:
        """Optimizers may have been stepped one after the other."""
        looped(self.machine, state, loop)
