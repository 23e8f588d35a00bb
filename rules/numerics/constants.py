"""Notes shared by the rules about numbers combined with a half tensor."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import TensorOp
from amplint.semantics.values.values import Number
from amplint.source import syntax as cst


def number_notes(event: TensorOp, number: Number) -> Iterator[tuple[cst.CSTNode, str]]:
    """The nodes that made the tensor half, and that combines it with the number if its definition is elsewhere."""
    if event.half is not None:
        yield event.half, event.why
    if number.place is not number.node:
        yield number.node, "it meets the tensor here"
