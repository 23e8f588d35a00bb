"""Code for older versions of a library."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.source import Source

_VERSION_TEST = regex(r"__version__|torch_version|\bversion\.|(?i:torch)_(?:greater|\d)|hasattr\(torch(?:\.amp)?,")
_HANDLERS = (cst.ExceptHandler, cst.ExceptStarHandler)
_LEAVING = (cst.Return, cst.Raise)


def is_fallback(source: Source, node: cst.CSTNode, modern: re.Pattern[str]) -> bool:
    """Whether `node` runs only where newer code cannot.

    That is so in an exception handler, and in a branch if its condition tests a version, or if `modern` occurs in the
    other branch or in an earlier one that exits the function.
    """
    inner = node
    for above in source.ancestors(node):
        if isinstance(above, _HANDLERS):
            return True
        if isinstance(above, (cst.If, cst.IfExp)) and inner is not above.test:
            other = above.orelse if inner is above.body else above.body
            if _VERSION_TEST.search(source.code(above.test)) or (
                other is not None and modern.search(source.code(other))
            ):
                return True
        if isinstance(above, cst.IndentedBlock) and any(
            modern.search(source.code(branch)) for branch in _left_before(above, inner)
        ):
            return True
        inner = above
    return False


def _left_before(block: cst.IndentedBlock, end: cst.CSTNode) -> Iterator[cst.If]:
    """The `if` statements of `block` before `end` whose body exits the function."""
    for statement in block.body:
        if statement is end:
            return
        if isinstance(statement, cst.If) and statement.body.body:
            last = statement.body.body[-1]
            if isinstance(last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last, _LEAVING):
                yield statement
