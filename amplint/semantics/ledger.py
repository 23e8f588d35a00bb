"""Whose state a script saves and restores, as far as it was seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from amplint.semantics.events import Event
from amplint.semantics.tracker import Tracker
from amplint.semantics.values import Scaler

if TYPE_CHECKING:
    from amplint.semantics.machine import Machine


@dataclass(frozen=True, slots=True)
class Place:
    """Where state is taken, handed on or restored.

    `node` is the call, `statement` the statement it stands in, and `scaler` how code there can spell the one gradient
    scaler it sees.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    scaler: str | None = None


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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CheckpointLacksScaler(Event):
    """The state of an optimizer that `scaler` steps goes into a checkpoint, or comes back, without the scaler's.

    `saves` and `restores` are the places where that happens, `restores` empty where a scaler's state does come back;
    `saved` tells that it is saved. `perhaps_none` tells that a path goes without the scaler.
    """

    scaler: Scaler
    saves: tuple[Place, ...]
    restores: tuple[Place, ...]
    saved: bool
    perhaps_none: bool
