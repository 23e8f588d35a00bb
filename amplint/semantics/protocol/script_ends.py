"""The end of a script."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import ScriptEnd
from amplint.semantics.protocol.reads import may_scale, names_cuda
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State


class ScriptEnds(Tracker):
    """Emits the end of the file."""

    def file_ends(self, starts: Sequence[State]) -> None:
        """Everything was run."""
        program = self.machine.program
        grown = next((chunk for chunk in program.main.chunks if chunk.has_tree), None)
        if grown is not None:
            self.machine.emit(
                State(),
                ScriptEnd,
                grown.module,
                complete=self.machine.complete,
                may_scale=may_scale(program.chunks),
                names_cuda=names_cuda(program.chunks),
            )
