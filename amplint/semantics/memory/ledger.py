"""Ledger of the state that a script saves and restores."""

from __future__ import annotations

from amplint.semantics.events import Place
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.values import Scaler, Value
from amplint.source import syntax as cst
from amplint.source.source import Source


class Ledger(Tracker):
    """What is known of the checkpoints of a file, by symbols.

    `training` are the scalers that step an optimizer, with a place where they do. `taken` tells for the value of a
    `state_dict()` where it was made, and `made_from` which of these went into another; `saved` and `restored` whose
    state goes into a checkpoint and comes back, and where. `scaler_saved` and `scaler_restored` tell that some scaler's
    state certainly or possibly does. `perhaps_none` are scalers that some path goes without, and `fleeting` what makes
    those that are gone before anything could save them. `spelled` holds, for each path to a place where state goes by,
    the names there whose value is a scaler or None, `elsewhere` the files in which that happens, by the call that leads
    there.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.watching = False
        self.training: dict[int, tuple[Scaler, cst.CSTNode]] = {}
        self.taken: dict[int, Place] = {}
        self.made_from: dict[int, frozenset[int]] = {}
        self.saved: dict[int, list[Place]] = {}
        self.restored: dict[int, list[Place]] = {}
        self.scaler_saved = False
        self.scaler_restored = False
        self.perhaps_none: set[int] = set()
        self.fleeting: set[cst.CSTNode] = set()
        self.spelled: dict[cst.CSTNode, list[dict[str, Value]]] = {}
        self.elsewhere: dict[cst.CSTNode, set[Source | None]] = {}

    def train(self, scaler: Scaler, node: cst.CSTNode) -> None:
        """Record that `scaler` steps an optimizer at `node`."""
        _, first = self.training.get(scaler.symbol, (scaler, node))
        self.training[scaler.symbol] = scaler, first
