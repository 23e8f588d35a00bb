"""Whose state a script saves and restores, as far as it was seen."""

from __future__ import annotations

from amplint.semantics.events import Place
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.values import Scaler


class Ledger(Tracker):
    """What is known of the checkpoints of a file, by symbols.

    `training` are the scalers that step an optimizer. `taken` tells for the value of a `state_dict()` where it was
    made, and `made_from` which of these went into another; `saved` and `restored` whose state goes into a checkpoint
    and comes back, and where. `scaler_saved` and `scaler_restored` tell that some scaler's state certainly or possibly
    does. `perhaps_none` are scalers that some path goes without.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.watching = False
        self.training: dict[int, Scaler] = {}
        self.taken: dict[int, Place] = {}
        self.made_from: dict[int, frozenset[int]] = {}
        self.saved: dict[int, list[Place]] = {}
        self.restored: dict[int, list[Place]] = {}
        self.scaler_saved = False
        self.scaler_restored = False
        self.perhaps_none: set[int] = set()
