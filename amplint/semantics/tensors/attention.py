"""Calls of third-party attention kernels, whose inputs autocast does not cast."""

from __future__ import annotations

from amplint.semantics.events import InputsDiffer
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.tensors.clashes import operand_with_evidence
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref
from amplint.torchlib.attention import SAME_DTYPE
from amplint.torchlib.names import HALF_DTYPES


class Attention(Tracker):
    """Tracks the input dtypes of third-party attention calls."""

    triggers = frozenset(name.rpartition(".")[2] for name in SAME_DTYPE)

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return InputsDiffer.kind in self.machine.wanted

    def unseen_begins(self, state: State, call: Call) -> None:
        """Emit `InputsDiffer` where one input is float32 and another is half."""
        if not isinstance(call.callee, Ref) or call.callee.name not in SAME_DTYPE:
            return
        names = SAME_DTYPE[call.callee.name]
        given = [call.arguments.get(name, place) for place, name in enumerate(names)]
        operands = [
            operand_with_evidence(self.machine, state, one.node.value, one.value) for one in given if one is not None
        ]
        wide = [one for one in operands if one.dtype == "float32"]
        half = [one for one in operands if one.dtype in HALF_DTYPES and one.half is not None]
        if wide and half:
            op = call.callee.name.rpartition(".")[2]
            self.machine.emit(state, InputsDiffer, call.node, op=op, wide=tuple(wide), half=half[0])
