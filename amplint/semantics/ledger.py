"""Whose state a script saves and restores, as far as it was seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from amplint.semantics.events import Event
from amplint.semantics.values import Scaler


@dataclass(frozen=True, slots=True)
class Place:
    """Where state is taken, handed on or restored.

    `node` is the call, `statement` the statement it stands in, and `scaler` how code there can spell the one gradient
    scaler it sees.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    scaler: str | None = None


@dataclass(slots=True)
class Ledger:
    """What is known of the checkpoints of a file, by symbols.

    `training` are the scalers that step an optimizer. `taken` tells for the value of a `state_dict()` where it was
    made, and `made_from` which of these went into another; `saved` and `restored` whose state goes into a checkpoint
    and comes back, and where. `scaler_saved` and `scaler_restored` tell that some scaler's state certainly or possibly
    does. `perhaps_none` are scalers that some path goes without.
    """

    watching: bool = False
    training: dict[int, Scaler] = field(default_factory=dict)
    taken: dict[int, Place] = field(default_factory=dict)
    made_from: dict[int, frozenset[int]] = field(default_factory=dict)
    saved: dict[int, list[Place]] = field(default_factory=dict)
    restored: dict[int, list[Place]] = field(default_factory=dict)
    scaler_saved: bool = False
    scaler_restored: bool = False
    perhaps_none: set[int] = field(default_factory=set)


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
