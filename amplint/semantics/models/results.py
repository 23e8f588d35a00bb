"""Results of calls, for codemods."""

from __future__ import annotations

from amplint.semantics.events import Returned
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Value


class Results(Tracker):
    """Emits the results of calls, as the other trackers leave them."""

    def is_needed(self) -> bool:
        """Whether a codemod asks for the event."""
        return Returned.kind in self.machine.wanted

    def call_returned(self, state: State, call: Call, result: Value) -> None:
        """Emit the result of a call."""
        self.machine.emit(state, Returned, call.node, result=result)
