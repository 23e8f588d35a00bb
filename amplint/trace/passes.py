"""Counts of backward passes by autograd graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.autograd import _get_sequence_nr as _sequence_number  # type: ignore[attr-defined]

from amplint.trace.tally import Kind

_GRAPHS = 64
"""Maximum number of known graphs; a model that builds a new one each time is observed each time."""


class Passes:
    """Backward passes whose operations are known from an equal graph observed before.

    The graph of a backward pass follows from the forward operations of the step so far: their kinds, which of their
    inputs require gradients, and which of them created an autograd node. The first pass through a graph is slow, so the
    times are those of the second. A pass that runs Python code, as for a recomputation or a `torch.autograd.Function`,
    is always observed.
    """

    def __init__(self, kinds: Mapping[Any, Kind]) -> None:
        self._kinds = kinds
        self._history, self._first = 0, _sequence_number()
        self._warm: set[int] = set()
        self._known: dict[int, list[tuple[Kind, int, float]] | None] = {}
        self._runs_python = False

    def begin_step(self) -> None:
        """Begin a step with an empty graph."""
        self._history, self._first = 0, _sequence_number()

    def forget(self) -> None:
        """Discard all known graphs."""
        self._warm.clear()
        self._known.clear()

    def add(self, kind: Kind, inputs: Sequence[Tensor]) -> None:
        """Add a forward operation to the graph."""
        made = _sequence_number() - self._first
        self._history = hash((self._history, id(kind), made, *[one.requires_grad for one in inputs]))

    def record_python(self) -> None:
        """Record that the running pass calls Python code."""
        self._runs_python = True

    def begin(self, loss: Tensor) -> int:
        """Begin a backward pass, and return the identity of the graph of `loss`."""
        node = loss.grad_fn
        self._history = hash((self._history, "backward", node and node._sequence_nr() - self._first))
        return self._history

    def knows(self, graph: int) -> bool:
        """Whether a pass through `graph` needs no observation."""
        return self._known.get(graph) is not None

    def count(self, graph: int) -> None:
        """Count the operations of a pass through the known `graph`."""
        for kind, count, seconds in self._known[graph] or ():
            kind.count += count
            kind.seconds += seconds

    @contextlib.contextmanager
    def observing(self, graph: int) -> Iterator[None]:
        """Record the operations of the pass within this context, and their time unless it is the first one."""
        if graph in self._known:
            yield
            return
        before = {key: (kind.count, kind.seconds) for key, kind in self._kinds.items()}
        self._runs_python = False
        yield
        if len(self._warm) == _GRAPHS:
            self.forget()
        if self._runs_python:
            self._known[graph] = None
        elif graph in self._warm:
            self._known[graph] = list(self._since(before))
        self._warm.add(graph)

    def _since(self, before: Mapping[Any, tuple[int, float]]) -> Iterator[tuple[Kind, int, float]]:
        for key, kind in self._kinds.items():
            count, seconds = before.get(key, (0, 0.0))
            if kind.count > count:
                yield kind, kind.count - count, kind.seconds - seconds
