"""Results of calls where a float16 or bfloat16 region can be on."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown, Value
from amplint.torchlib.names import HALF_DTYPES


class HalfResults(Tracker):
    """The results of calls where a region can be on: `symbols`, and of them the `narrow` ones, of a float16 region."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.symbols: set[int] = set()
        self.narrow: set[int] = set()

    def unseen_returns(self, state: State, call: Call, result: Value) -> None:
        """Record the result."""
        if not state.regions or not isinstance(result, (Tensor, Unknown)):
            return
        region, _ = innermost(self.machine, state)
        dtypes = region.dtypes if region is not None else None
        if dtypes is not None and not HALF_DTYPES.isdisjoint(dtypes):
            self.symbols.add(result.symbol)
            if "float16" in dtypes:
                self.narrow.add(result.symbol)

    entered_returns = unseen_returns
