"""Conversions whose result is discarded: those of a tensor make a new one, where those of a module convert it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from amplint.semantics.events import ConversionDiscarded
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Value
from amplint.source import syntax as cst
from amplint.source.remembered import per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.methods import CASTS
from amplint.torchlib.policy import words

_DISCARDED = re.compile(
    r"(?m)^[ \t]+[\w.]+\.(?:(half|float|bfloat16|double)\(\)|(to|type|type_as)\([^()\n]*(?:dtype|float|half)[^\n]*\))"
    r"[ \t]*(?:#[^\n]*)?$"
)
"""Such a statement in a function, as far as a line says it."""
_METHODS = frozenset(CASTS) | words("to type type_as")
_TRIES = (cst.Try, cst.With)


class Discards(Tracker):
    """Tells of such statements."""

    def is_needed(self) -> bool:
        """Only for rules that ask for it."""
        return ConversionDiscarded.kind in self.machine.wanted

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The methods that are called so."""
        return Words(calls=frozenset().union(*map(_methods, chunks)))

    def discarded(self, state: State, node: cst.BaseExpression, value: Value) -> None:
        """A statement that is an expression has come to `value`."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return
        if node.func.attr.value not in _METHODS or not self.machine.calls or not isinstance(value, Tensor):
            return
        owner = self.machine.evaluate(state, node.func.value) if dotted(node.func.value) is not None else None
        if not isinstance(owner, Tensor) or (owner.dtype is not None and owner.dtype == value.dtype):
            return
        if not any(isinstance(above, _TRIES) and len(list(_statements(above))) == 1 for above in self._around(node)):
            self.machine.emit(state, ConversionDiscarded, node, dtype=value.dtype)

    def _around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        source = self.machine.program.source_of(node)
        return iter(source.ancestors(node) if source is not None else ())


def _statements(block: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements of what tries something, or measures it."""
    body = block.body if isinstance(block, _TRIES) else None
    yield from body.body if isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite)) else ()


@per_chunk
def _methods(chunk: Chunk) -> frozenset[str]:
    return frozenset(method for found in _DISCARDED.findall(chunk.text) for method in found if method)
