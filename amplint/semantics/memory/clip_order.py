"""Order of clipping, steps and backward passes on a path."""

from __future__ import annotations

from collections.abc import Hashable, Set

from amplint.semantics.events import ClipFollowed
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.values.state import Iteration, Part, State
from amplint.semantics.values.values import Instance, Ref
from amplint.semantics.words import RUNS_BACKWARD
from amplint.source import syntax as cst
from amplint.torchlib.names import CLIPPERS

_STEP = "step"


class PendingClips(Part):
    """The `calls` that clipped gradients which no step has used yet."""

    __slots__ = ("calls",)

    def __init__(self, calls: Set[cst.CSTNode] = frozenset()) -> None:
        self.calls = calls

    def copy(self) -> PendingClips:
        """An independent copy."""
        return PendingClips(self.calls)

    def key(self, now: Iteration) -> Hashable:
        """The pending calls, which distinguish paths."""
        return self.calls

    def joined_with(self, other: PendingClips) -> PendingClips:
        """The calls pending on both paths."""
        return PendingClips(self.calls & other.calls)


class ClipOrder(Tracker):
    """Tracks the step or backward pass that follows PyTorch's own clipping on a path."""

    part = PendingClips

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return ClipFollowed.kind in self.machine.wanted

    def call_begins(self, state: State, call: Call) -> None:
        """Record a clipping, or emit `ClipFollowed` for the step or backward pass after it."""
        callee = call.callee
        if isinstance(callee, Ref) and CLIPPERS.get(callee.name):
            state.change(PendingClips).calls = state[PendingClips].calls | {call.node}
        elif state[PendingClips].calls and not isinstance(call.owner, Instance):
            name = callee.name.rpartition(".")[2] if isinstance(callee, Ref) else call.name
            if name == _STEP or RUNS_BACKWARD.search(name):
                for node in state[PendingClips].calls:
                    self.machine.emit(state, ClipFollowed, node, used=name == _STEP)
                state.change(PendingClips).calls = frozenset()
