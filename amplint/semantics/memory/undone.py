"""What still has to be done with scalers and optimizers, remembered until all that could do it has been seen."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.memory.progress import Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Scaler
from amplint.source import syntax as cst


@dataclass(frozen=True, slots=True)
class Unended:
    """A step of a scaler that was there before the call from out of sight, perhaps of a method of `owner`."""

    scaler: Scaler
    node: cst.CSTNode
    statement: cst.CSTNode
    owner: Class | None


class Undone(Tracker):
    """Steps by scaler that await an update, and by call those whose gradients await to be cleared.

    `began` is when the call from out of sight that now runs began, None where who else may act is not known, and
    `owner` the class it is a method of. A scaler or an optimizer that is handed to code out of sight has escaped.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.began: int | None = None
        self.owner: Class | None = None
        self.unended: dict[int, Unended] = {}
        self.uncleared: dict[cst.Call, cst.CSTNode] = {}
        self.scaler_escaped = False
        self.optimizer_escaped = False


def await_update(machine: Machine, node: cst.CSTNode, scaler: Scaler) -> None:
    """`scaler` steps: remember it where it was there before the call that leads here from out of sight."""
    undone = machine[Undone]
    if undone.began is None or scaler.created is None or machine.loops or machine.statement is None:
        return
    if machine.entered_from is None and 0 < machine.symbols.time(scaler.symbol) < undone.began:
        undone.unended.setdefault(scaler.symbol, Unended(scaler, node, machine.statement, undone.owner))


def holds_scaler(machine: Machine, state: State, symbol: int) -> bool:
    """Whether a scaler that is used on the path is an attribute of the object `symbol`."""
    for scaler in state[Progress].scalers:
        key = machine.symbols.key(scaler)
        if key[0] == "attribute" and key[2] == symbol:
            return True
    return False
