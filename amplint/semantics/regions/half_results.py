"""Results of calls where a float16 region can be on."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.regions.innermost import can_be_half
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value


class HalfResults(Tracker):
    """The results of calls where a float16 region can be on, by symbol."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.symbols: set[int] = set()

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the result."""
        if state.regions and isinstance(result, (Tensor, Unknown)) and can_be_half(self.machine, state):
            self.symbols.add(result.symbol)

    entered_returns = unseen_returns
