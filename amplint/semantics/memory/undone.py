"""Obligations for scalers and optimizers, kept until all code that could fulfil them has been seen."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.memory.progress import Progress
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Scaler
from amplint.source import syntax as cst
from amplint.source.tree import every


@dataclass(frozen=True, slots=True)
class PendingUpdate:
    """A step of a scaler that existed before the call from unseen code, perhaps of a method of `owner`.

    `whole` says that all bases of `owner` are in visible code.
    """

    scaler: Scaler
    node: cst.CSTNode
    statement: cst.CSTNode
    owner: Class | None
    whole: bool


class Obligations(Tracker):
    """Steps of scalers that require an update, and, by call, those whose gradients require clearing.

    `uncleared` are steps in a loop whose rounds clear nothing, each with its backward pass, the loop, and what clears
    before; the rounds of the loops in `clearing` do clear.
    `uncleared_steps` are a scaler's steps, each with its backward pass and its loop, and `cleared` those on paths that
    clear. `clearing_paths` are the calls that clear on a path on which an optimizer, as it is spelled, steps in a loop.

    `began` is the time at which the present call from unseen code began, and `owner` the class of the method, `whole`
    if its bases are in visible code. A scaler or an optimizer passed to unseen code escapes, a scaler in the functions
    `escaped_in`; `escaped_to_base` says that an object with a scaler escaped to an unseen base.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.began: int | None = None
        self.owner: Class | None = None
        self.whole = True
        self.unended: dict[int, PendingUpdate] = {}
        self.uncleared: dict[cst.Call, tuple[cst.CSTNode, cst.CSTNode, tuple[cst.CSTNode, ...]]] = {}
        self.clearing: set[cst.CSTNode] = set()
        self.uncleared_steps: dict[cst.Call, tuple[cst.CSTNode, cst.CSTNode]] = {}
        self.clearing_paths: dict[tuple[cst.CSTNode, str], cst.CSTNode] = {}
        self.cleared: set[cst.CSTNode] = set()
        self.scaler_escaped = False
        self.escaped_in: set[cst.CSTNode] = set()
        self.escaped_to_base = False
        self.optimizer_escaped = False

    def record_escape(self) -> None:
        """Record that a scaler escapes."""
        self.scaler_escaped = True
        self.escaped_in.update(self.machine.calls)


def require_update(machine: Machine, node: cst.CSTNode, scaler: Scaler) -> None:
    """Record a step of `scaler`, if that existed before the call from unseen code."""
    undone = machine[Obligations]
    if undone.began is None or scaler.created is None or machine.loops or machine.statement is None:
        return
    if not (undone.whole or (undone.owner is not None and _makes(undone.owner, scaler.created))):
        return
    if machine.entered_from is None and 0 < machine.symbols.time(scaler.symbol) < undone.began:
        undone.unended.setdefault(
            scaler.symbol, PendingUpdate(scaler, node, machine.statement, undone.owner, undone.whole)
        )


def _makes(owner: Class, created: cst.CSTNode) -> bool:
    """Whether the class contains the constructor call `created`."""
    return any(call is created for call in every(node_of(owner), cst.Call))


def holds_scaler(machine: Machine, state: State, symbol: int) -> bool:
    """Whether a scaler used on the path is an attribute of the object `symbol`."""
    for scaler in state[Progress].scalers:
        key = machine.symbols.key(scaler)
        if key[0] == "attribute" and key[2] == symbol:
            return True
    return False
