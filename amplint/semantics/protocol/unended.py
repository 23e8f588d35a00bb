"""Scalers that step an optimizer in every call by unseen code, and that no visible code updates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.semantics.events import NeverUpdated
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.memory.undone import Obligations, PendingUpdate
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, Class
from amplint.semantics.words import MAY_UPDATE
from amplint.source import syntax as cst


def conclude(machine: Machine) -> None:
    """Emit the scalers without `update`: the second call that steps them raises."""
    if not machine[Obligations].unended or machine[Obligations].scaler_escaped or not machine.complete:
        return
    for symbol, last in machine[Obligations].unended.items():
        if symbol in machine[CallIndex].index.updates or last.scaler.enabled == FALSE:
            continue
        if last.whole and machine[Obligations].escaped_to_base:
            continue
        if not any(MAY_UPDATE.search(text) for text in _texts(machine, last)):
            machine.statement = last.statement
            machine.emit(State(), NeverUpdated, last.node, scaler=last.scaler, whole=last.whole)


def _texts(machine: Machine, last: PendingUpdate) -> Iterator[str]:
    """The reachable text, without methods overridden in a derived class."""
    above = attributes.lineage(machine, State(), last.owner) if last.owner is not None else []
    family = {cls.chunk for cls in above if cls.node is None}
    for chunk in machine.program.chunks:
        if chunk not in family:
            yield chunk.text
    replaced: set[str] = set()
    for cls in above:
        methods = {name: node for name, node in attributes.members(cls).items() if isinstance(node, cst.FunctionDef)}
        for name, node in methods.items():
            if name not in replaced:
                yield cls.chunk.source.code(node)
        replaced |= methods.keys()


class Updates(Tracker):
    """Tracks scalers that step and never update."""

    def root_begins(self, owner: Class | None, whole: bool) -> None:
        """Older objects belong to the caller."""
        undone = self.machine[Obligations]
        undone.began, undone.owner, undone.whole = self.machine.symbols.tick(), owner, whole

    def file_ends(self, starts: Sequence[State]) -> None:
        """Emit scalers that never update."""
        conclude(self.machine)
