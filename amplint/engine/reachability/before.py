"""What comes before a place in the function around it."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence

from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every, target_names

SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
_BLOCKS = (cst.IndentedBlock, cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.Module)
_BINDING = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For, cst.AsName)


def latest(source: Source, place: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    """The value that a variable has at `place`: that of the assignment in front of it, None if another can be."""
    for block in _blocks_before(source, place):
        for statement in reversed(block):
            if name in bound_in(statement):
                small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
                only = small[0] if len(small) == 1 else None
                return only.value if isinstance(only, cst.Assign) and len(only.targets) == 1 else None
    return None


@cached_per_file
def bound_in(statement: cst.CSTNode) -> frozenset[str]:
    """The variables that the statements in and below `statement` bind, but for those that imports bind."""
    return frozenset(_bound_in(statement))


def _bound_in(statement: cst.CSTNode) -> Iterator[str]:
    for node in every(statement, *_BINDING):
        if isinstance(node, cst.Assign):
            for one in node.targets:
                yield from target_names(one.target)
        elif isinstance(node, cst.AsName):
            yield from target_names(node.name)
        elif isinstance(node, (cst.AnnAssign, cst.AugAssign, cst.NamedExpr, cst.For)):
            yield from target_names(node.target)


def before(source: Source, place: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The statements that run before `place` whenever that does, in its function."""
    return (statement for block in _blocks_before(source, place) for statement in block)


def _blocks_before(source: Source, place: cst.CSTNode) -> Iterator[Sequence[cst.CSTNode]]:
    """The same, by the blocks around `place`, the innermost first."""
    inner = place
    for above in source.ancestors(place):
        if isinstance(above, _BLOCKS):
            yield list(itertools.takewhile(functools.partial(operator.is_not, inner), above.body))
        if isinstance(above, SCOPES):
            return
        inner = above
