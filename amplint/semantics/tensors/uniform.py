"""Uniform random numbers drawn in half and compared with a probability."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.regex import regex
from amplint.semantics.events import UNIFORM, RandomCompared
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.halves import is_computed
from amplint.semantics.tensors.provenance import like
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.names import HALF_DTYPES

_DRAWS = frozenset({"rand", "rand_like"})
_HALF = frozenset({"half", "float16", "bfloat16"})
_FOLLOWS = regex(r"\brand_like\(|\brand\([^\n]{0,200}\.dtype\b")
"""A draw in the dtype of another tensor."""
_ORDERS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


class Uniform(Tracker):
    """Tracks comparisons of uniform random numbers drawn in half."""

    def is_needed(self) -> bool:
        """Whether a selected rule handles the event."""
        return RandomCompared.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """Calls that draw uniform numbers, in a file that names a half dtype."""
        said = frozenset[str]().union(*(chunk.words for chunk in chunks))
        follows = self.machine.assumes and any(_FOLLOWS.search(chunk.text) for chunk in chunks)
        return Words(_DRAWS if follows or not said.isdisjoint(_HALF) else frozenset())

    def compared(self, state: State, node: cst.Comparison, left: Value, right: Value) -> Value | None:
        """Handle `torch.rand(n, dtype=torch.bfloat16) < p`."""
        if not isinstance(node.comparisons[0].operator, _ORDERS):
            return None
        for value in (left, right):
            if not isinstance(value, Tensor) or UNIFORM not in value.traits:
                continue
            half = evidence(self.machine, state, value)
            if half is None:
                continue
            if value.dtype in HALF_DTYPES:
                self.machine.emit(state, RandomCompared, node, dtype=value.dtype, half=half)
            elif value.dtypes is None and self._follows_computed(value):
                self.machine.emit(state, RandomCompared, node, dtype=None, half=half, assumed=True)
        return None

    def _follows_computed(self, value: Tensor) -> bool:
        """Whether numbers are drawn in the dtype of an argument or a layer's result, which can be half."""
        other = like(self.machine, value.symbol)
        return self.machine.assumes and other is not None and is_computed(self.machine, other)
