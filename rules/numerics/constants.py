"""What the rules about constants share: the story of a number that meets a half tensor."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.events import TensorOp
from amplint.semantics.values.values import Number
from amplint.source import syntax as cst


def story(event: TensorOp, number: Number) -> Iterator[tuple[cst.CSTNode, str]]:
    """Where the tensor became half, and where it meets the number, if that is written somewhere else."""
    if event.half is not None:
        yield event.half, event.why
    if number.place is not number.node:
        yield number.node, "it meets the tensor here"
