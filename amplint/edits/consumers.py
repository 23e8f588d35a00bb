"""The statements that a region is copied around: a forward pass, and what uses its output in the original region."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING

from amplint.source import syntax as cst
from amplint.source.tree import every, target_names

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

COLLECTING = frozenset({"append", "extend", "add", "insert"})


def with_consumers(call: cst.CSTNode, region: cst.CSTNode, rewrite: Rewriter) -> Sequence[cst.CSTNode]:
    """The statement of `call`, and those behind it up to the last that does with its result what `region` does.

    That is a call of the same function, or a matrix product by operator: outside of a region it can refuse a half
    operand beside a float32 one. Where such a statement stands behind the `with` around `call`, the `with` comes first.
    Nothing where one stands behind another block around it, such as a loop that collects results.
    """
    found: list[cst.CSTNode] = []
    level: cst.CSTNode | None = rewrite.statement_of(call)
    work = frozenset(_work(_entered_by(region, rewrite), rewrite))
    known = set(bound(level)) if level is not None else set[str]()
    while isinstance(level, cst.BaseStatement):
        block = rewrite.source.parent(level)
        run: list[cst.CSTNode] = [level, *_behind(level, block)]
        last = 0
        for index, statement in enumerate(run[1:], start=1):
            if known.isdisjoint(one.value for one in every(statement, cst.Name)):
                continue
            known.update(bound(statement), _collects(statement))
            last = index if not work.isdisjoint(_work(statement, rewrite)) else last
        found = run[: last + 1] if last or not found else found
        if _goes_on(run[-1], block, known, work, rewrite):
            return []
        level = rewrite.source.parent(block) if block is not None else None
        if not isinstance(level, cst.With):
            break
    while isinstance(level, (cst.For, cst.While, cst.If, cst.With)):
        block = rewrite.source.parent(level)
        for statement in _behind(level, block):
            if not known.isdisjoint(one.value for one in every(statement, cst.Name)):
                known.update(bound(statement), _collects(statement))
                if not work.isdisjoint(_work(statement, rewrite)):
                    return []
        level = rewrite.source.parent(block) if block is not None else None
    return found


def _goes_on(last: cst.CSTNode, block: cst.CSTNode | None, known: set[str], work: Set[str], rewrite: Rewriter) -> bool:
    """Whether the work goes on behind the first compound statement behind `last`."""
    body = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
    reached = set(known)
    for statement in body[next((index for index, one in enumerate(body) if one is last), len(body)) + 1 :]:
        if not reached.isdisjoint(one.value for one in every(statement, cst.Name)):
            reached.update(bound(statement), _collects(statement))
            if not work.isdisjoint(_work(statement, rewrite)):
                return True
    return False


def _entered_by(region: cst.CSTNode, rewrite: Rewriter) -> cst.CSTNode | None:
    """The body of the `with` statement that makes and enters a region."""
    item = rewrite.source.parent(region)
    statement = rewrite.source.parent(item) if isinstance(item, cst.WithItem) else None
    return statement.body if isinstance(statement, cst.With) else None


def _behind(statement: cst.BaseStatement, block: cst.CSTNode | None) -> Iterator[cst.BaseStatement]:
    """The simple statements directly behind a statement of a block."""
    body = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
    start = next((index for index, one in enumerate(body) if one is statement), len(body))
    for following in body[start + 1 :]:
        if not isinstance(following, cst.SimpleStatementLine):
            return
        yield following


def _work(tree: cst.CSTNode | None, rewrite: Rewriter) -> Iterator[str]:
    """The functions that code calls, as they are written, and `@`."""
    if tree is None:
        return
    yield from (rewrite.text(call.func) for call in every(tree, cst.Call))
    if any(isinstance(one.operator, cst.MatrixMultiply) for one in every(tree, cst.BinaryOperation)):
        yield "@"


def bound(tree: cst.CSTNode) -> Iterator[str]:
    for given in every(tree, cst.Assign):
        for target in given.targets:
            yield from target_names(target.target)


def _collects(tree: cst.CSTNode) -> Iterator[str]:
    """The variables that code appends something to."""
    for call in every(tree, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in COLLECTING:
            yield from (one.value for one in (call.func.value,) if isinstance(one, cst.Name))
