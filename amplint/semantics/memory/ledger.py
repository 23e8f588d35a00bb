"""Ledger of the state that a script saves and restores."""

from __future__ import annotations

from amplint.semantics.events import Place
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.values import Scaler, Value
from amplint.source import syntax as cst
from amplint.source.source import Source


class Ledger(Tracker):
    """Facts about the checkpoints of a file, by symbol.

    `training` maps a scaler to a place where it steps an optimizer. `taken` maps the value of a `state_dict()` to its
    place, and `made_from` a value to the states in it; `saved` and `restored` map an object to the places where a
    checkpoint saves or restores its state. `scaler_saved` and `scaler_restored` are whether the state of some scaler
    certainly or possibly is. `perhaps_none` are scalers that are missing on some path, and `fleeting` the calls that
    construct scalers which are gone before anything could save them. `spelled` maps the place of a save or restore to
    the names there whose value is a scaler or None, one table for each path, `own` are the places in an object's own
    `state_dict`, and `elsewhere` maps a call that leads to such places in other files to these files. `trained_unseen`
    maps a scaler to the optimizers that unseen code trains with it, `kept` are the scalers that an unseen object keeps
    for that, and `exports` says that the method of such an object may save them. `initialized` maps an optimizer to the
    call that puts it under apex's loss scaling. `told` says that a scaler's missing state has been emitted.
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
        self.trained_unseen: dict[int, set[int]] = {}
        self.kept: set[int] = set()
        self.exports = False
        self.told = False
        self.initialized: dict[int, cst.CSTNode] = {}
        self.own: set[cst.CSTNode] = set()
        self.elsewhere: dict[cst.CSTNode, set[Source | None]] = {}

    def train(self, scaler: Scaler, node: cst.CSTNode) -> None:
        """Record that `scaler` steps an optimizer at `node`."""
        _, first = self.training.get(scaler.symbol, (scaler, node))
        self.training[scaler.symbol] = scaler, first
