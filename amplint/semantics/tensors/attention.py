"""Calls of third-party attention kernels, whose inputs autocast does not cast."""

from __future__ import annotations

from collections.abc import Set

from amplint.semantics.events import InputsDiffer, Operand
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.clashes import operand_with_evidence
from amplint.semantics.tensors.provenance import dtype_root
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref, Tensor
from amplint.torchlib.attention import SAME_DTYPE
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import FLOAT32, LOWER

_NORMS = (operations_with("normalises") | {"rms_norm"}) & FLOAT32
"""Norm layers that CUDA autocast runs in float32."""


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
        op = call.callee.name.rpartition(".")[2]
        if wide and half:
            self.machine.emit(state, InputsDiffer, call.node, op=op, wide=tuple(wide), half=half[0])
        elif self.machine.assumes and innermost(self.machine, state)[0] is None:
            wide = [one for one in operands if self._is_result_of(one, _NORMS)]
            half = [one for one in operands if self._is_result_of(one, LOWER)]
            if wide and half:
                self.machine.emit(state, InputsDiffer, call.node, op=op, wide=tuple(wide), half=half[0], assumed=True)

    def _is_result_of(self, operand: Operand, ops: Set[str]) -> bool:
        """Whether an input of unknown dtype is what one of these operations returns."""
        value = operand.value
        if not isinstance(value, Tensor) or value.dtypes is not None:
            return False
        return self.machine.symbols.key(dtype_root(self.machine, value.symbol))[0] in ops
