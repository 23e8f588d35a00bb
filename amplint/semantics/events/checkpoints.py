"""Events of checkpoints."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


@dataclass(frozen=True, slots=True)
class Place:
    """Where state is taken, passed on or restored.

    `node` is the call, `statement` the statement it stands in, and `scaler` how code there can spell the one gradient
    scaler it sees. Where `node` leads to another file, `within` is the call there.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    scaler: str | None = None
    within: cst.CSTNode | None = None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CheckpointLacksScaler(Event):
    """The state of an optimizer that `scaler` steps goes into a checkpoint, or comes back, without the scaler's.

    `saves` and `restores` are the places where that happens, `restores` empty if a scaler's state does come back;
    `saved` means that it is saved, `resumes` that the optimizer's state or a scaler's comes back. `step` is where the
    scaler steps an optimizer, or is passed to unseen code, `out_of_sight`, that does; `perhaps_none` means that a path
    has no scaler.
    """

    scaler: Scaler
    step: cst.CSTNode
    saves: tuple[Place, ...]
    restores: tuple[Place, ...]
    saved: bool
    resumes: bool
    perhaps_none: bool
    out_of_sight: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CheckpointLacksApex(Event):
    """The state of an optimizer goes into a checkpoint, or comes back, and that of apex's loss scaler does not.

    `initialized` is the call that gave apex the optimizer, `saves` and `restores` are the places of its state.
    """

    initialized: cst.CSTNode
    saves: tuple[Place, ...]
    restores: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalerKept(Event):
    """The class `name` makes a scaler here, keeps it and steps it at `step`, and has no method that exports state."""

    step: cst.CSTNode
    name: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CheckpointOneSided(Event):
    """The state of an optimizer is saved here, or else restored, and the scaler's is not.

    `other` is where the file does the reverse with the scaler's, or, where the finding is assumed, where a class makes
    a scaler, or a function gets one.
    """

    saves: bool
    other: cst.CSTNode
