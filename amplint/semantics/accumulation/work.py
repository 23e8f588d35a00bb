"""The work on a path that matters to accumulation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from amplint.semantics.events import Work
from amplint.semantics.values.state import Iteration, Part
from amplint.source import syntax as cst


class WorkDone(Part):
    """The calls on a path by job, in order."""

    __slots__ = ("_work",)

    def __init__(self, work: dict[cst.CSTNode, Work] | None = None) -> None:
        self._work = work or {}

    @property
    def work(self) -> tuple[Work, ...]:
        """The calls, each once, at its last position."""
        return tuple(self._work.values())

    def add(self, done: Work) -> None:
        """Append `done`."""
        self._work.pop(done.node, None)
        self._work[done.node] = done

    def forget(self) -> None:
        """Begin anew."""
        self._work.clear()

    def copy(self) -> WorkDone:
        """An independent continuation."""
        return WorkDone(dict(self._work))

    def key(self, now: Iteration) -> Hashable:
        """None: paths may join whatever work they did."""
        return None

    def joined(self, other: WorkDone) -> WorkDone:
        """The work of either path; certain if both did it."""
        joined = {**self._work, **{node: done for node, done in other._work.items() if node not in self._work}}
        for node, done in joined.items():
            theirs = other._work.get(node, done)
            if not done.mixed and (theirs.mixed or theirs.closes is not done.closes):
                joined[node] = done = replace(done, mixed=True)
            if done.certain and not (self._is_certain(node) and other._is_certain(node)):
                joined[node] = replace(done, certain=False)
        return WorkDone(joined)

    def _is_certain(self, node: cst.CSTNode) -> bool:
        return node in self._work and self._work[node].certain

    def continued(self, now: WorkDone, before: WorkDone, then: Iteration, here: Iteration) -> WorkDone:
        """The work so far and that of the call."""
        return WorkDone({**now._work, **{node: done for node, done in self._work.items() if node not in now._work}})

    def is_unchanged(self, before: WorkDone) -> bool:
        """Whether no work was done since."""
        return list(self._work) == list(before._work)
