"""What a path has done that matters to accumulation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from amplint.semantics.events import Work
from amplint.semantics.values.state import Iteration, Part


class WorkDone(Part):
    """What has been done on a path, in order."""

    __slots__ = ("work",)

    def __init__(self, work: tuple[Work, ...] = ()) -> None:
        self.work = work

    def copy(self) -> WorkDone:
        """An independent continuation."""
        return WorkDone(self.work)

    def key(self, now: Iteration) -> Hashable:
        """Paths need not have done the same to be joined."""
        return None

    def joined(self, other: WorkDone) -> WorkDone:
        """What either path has done; certain is what both have."""
        if self.work == other.work:
            return WorkDone(self.work)
        both = {done.node for done in self.work if done.certain} & {done.node for done in other.work if done.certain}
        ours = {done.node for done in self.work}
        joined = (*self.work, *(done for done in other.work if done.node not in ours))
        return WorkDone(tuple(done if done.node in both else replace(done, certain=False) for done in joined))

    def continued(self, now: WorkDone, before: WorkDone, then: Iteration, here: Iteration) -> WorkDone:
        """What is done now, and what the call does."""
        seen = {done.node for done in now.work}
        return WorkDone((*now.work, *(done for done in self.work if done.node not in seen)))

    def is_unchanged(self, before: WorkDone) -> bool:
        """Whether nothing has been done since."""
        return [done.node for done in self.work] == [done.node for done in before.work]
