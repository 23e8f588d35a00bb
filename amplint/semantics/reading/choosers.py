"""Functions that only choose among their arguments: `default(value, other)` and the like."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk

_LONGEST = 600
"""How many characters such a function has at most."""


@cached_per_chunk
def chooses(chunk: Chunk) -> bool:
    """Whether `chunk` is a function of two parameters that returns one of them, or the result of calling one."""
    if len(chunk.text) > _LONGEST or chunk.is_class or len(chunk.module.body) != 1:
        return False
    (function,) = chunk.module.body
    if not isinstance(function, cst.FunctionDef) or function.decorators or len(function.params.params) != 2:
        return False
    names = {param.name.value for param in function.params.params}
    returned = list(_returned(function.body))
    given = {one.value for one in returned if isinstance(one, cst.Name)}
    return given == names and all(isinstance(one, (cst.Name, cst.Call)) for one in returned)


def _returned(body: cst.CSTNode) -> Iterator[cst.BaseExpression | None]:
    """The returned expressions in `body`, with None for each other statement."""
    for statement in getattr(body, "body", ()):
        if isinstance(statement, cst.If):
            yield from _of_branches(statement)
            continue
        for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,):
            if isinstance(small, cst.Return) and small.value is not None:
                yield from _sides(small.value)
            elif not (isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString)):
                yield None


def _of_branches(branch: cst.If) -> Iterator[cst.BaseExpression | None]:
    yield from _returned(branch.body)
    if isinstance(branch.orelse, cst.If):
        yield from _of_branches(branch.orelse)
    elif branch.orelse is not None:
        yield from _returned(branch.orelse.body)


def _sides(node: cst.BaseExpression) -> Iterator[cst.BaseExpression | None]:
    if isinstance(node, cst.IfExp):
        yield from _sides(node.body)
        yield from _sides(node.orelse)
    else:
        yield node if isinstance(node, cst.Name) or (isinstance(node, cst.Call) and not node.args) else None
