"""Index of the protocol's calls so far, by object."""

from __future__ import annotations

from collections.abc import Mapping

from amplint.semantics.events import Index
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


class CallIndex(Tracker):
    """Adds the index to every event.

    `sites` maps each call of the protocol to itself and the calls that led to it, on any path.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.index = Index()
        self.sites: dict[cst.CSTNode, set[cst.CSTNode]] = {}

    def record(self, node: cst.CSTNode) -> None:
        """Record what leads to the call `node` of the protocol, which runs."""
        known = self.sites.setdefault(node, {node})
        known.update(site for site in self.machine.sites if site is not None)

    def spell(self, scaler: Scaler, node: cst.Call) -> None:
        """Record the expression that `scaler` has in the call `node` of its method."""
        if isinstance(node.func, cst.Attribute):
            self.index.scalers.setdefault(scaler.symbol, []).append(node.func.value)

    def describe(self, state: State) -> Mapping[str, object]:
        """The index, which later calls extend."""
        return {"index": self.index}
