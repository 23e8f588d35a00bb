"""Index of the protocol's calls so far, by object."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.semantics.events import Index
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State


class CallIndex(Tracker):
    """Adds the index to every event."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.index = Index()

    def describe(self, state: State) -> Mapping[str, object]:
        """The index, which later calls extend."""
        return {"index": self.index}
