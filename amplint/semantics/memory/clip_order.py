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
_FRAMEWORKS = ("ccelerat", "abric", "ightning")
"""Parts of the names of frameworks, whose gradients are what the order is asked for."""


class PendingClips(Part):
    """The `calls` that clipped gradients which no step has used yet; `asked` where a framework may own these."""

    __slots__ = ("asked", "calls")

    def __init__(self, calls: Set[cst.CSTNode] = frozenset(), asked: bool = False) -> None:
        self.calls = calls
        self.asked = asked

    def copy(self) -> PendingClips:
        """An independent copy."""
        return PendingClips(self.calls, self.asked)

    def key(self, now: Iteration) -> Hashable:
        """The pending calls distinguish paths where they are asked for: each setting of clipping doubles the paths."""
        return self.calls if self.asked else frozenset()

    def joined_with(self, other: PendingClips) -> PendingClips:
        """The calls pending on both paths, or on either where nobody asks."""
        asked = self.asked or other.asked
        return PendingClips(self.calls & other.calls if asked else self.calls | other.calls, asked)


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
            pending = state.change(PendingClips)
            pending.calls, pending.asked = pending.calls | {call.node}, self._is_asked()
        elif state[PendingClips].calls and not isinstance(call.owner, Instance):
            name = callee.name.rpartition(".")[2] if isinstance(callee, Ref) else call.name
            if name == _STEP or RUNS_BACKWARD.search(name):
                for node in state[PendingClips].calls:
                    self.machine.emit(state, ClipFollowed, node, used=name == _STEP)
                state.change(PendingClips).calls = frozenset()

    def _is_asked(self) -> bool:
        return any(part in chunk.text for chunk in self.machine.program.chunks for part in _FRAMEWORKS)
