"""Where nodes stand: one statement at a time is written out, since a whole tree costs as much as parsing it did."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

Place: TypeAlias = tuple[int, int, int, int]
"""First row and column, last row and column; rows count from 1, columns from 0."""

_Written: TypeAlias = tuple[Mapping[cst.CSTNode, CodeRange], int]
_HEADED = (cst.If, cst.For, cst.While, cst.With, cst.FunctionDef, cst.ClassDef)
_NOTHING = cst.SimpleStatementSuite([cst.Pass()])


class Positions:
    """The places of the nodes of a module with these `lines`; `parents` tells what holds each node."""

    def __init__(self, module: cst.Module, lines: Sequence[str], parents: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        self._module = module
        self._lines = lines
        self._parents = parents
        self._starts = _starts(module, lines)
        self._written: dict[tuple[cst.CSTNode, bool], _Written] = {}

    def find(self, node: cst.CSTNode, near: cst.CSTNode | None = None) -> Place:
        """Where `node` stands. One without a parent, as parentheses are, is looked for around the one `near` it."""
        statement = near or node
        while statement not in self._starts and statement in self._parents:
            statement = self._parents[statement]
        ranges, shift = self._ranges(statement, isinstance(statement, _HEADED) and statement is not node)
        if node not in ranges:
            ranges, shift = self._ranges(statement, False)
        place = ranges[node]
        return place.start.line + shift, place.start.column, place.end.line + shift, place.end.column

    def _ranges(self, statement: cst.CSTNode, head: bool) -> _Written:
        """The ranges of what is in a statement, or in its `head` alone, and the rows they have to be moved by."""
        key = statement, head
        if key not in self._written:
            self._written[key] = self._write(statement, head)
        return self._written[key]

    def _write(self, statement: cst.CSTNode, head: bool) -> _Written:
        start = self._starts.get(statement)
        if start is None:
            return _resolved(self._module), 0
        row, column = start
        part = _head(statement) if head else statement
        body: cst.BaseStatement = part  # type: ignore[assignment]
        if column:
            block = cst.IndentedBlock([body], indent=self._lines[row - 1][:column])
            body = cst.If(cst.Name("_"), block)
        ranges = _resolved(self._module.with_changes(body=[body], header=(), footer=()))
        return ranges, row - ranges[part].start.line


def _head(statement: cst.CSTNode) -> cst.CSTNode:
    changes = {"orelse": None} if isinstance(statement, (cst.If, cst.For, cst.While)) else {}
    return statement.with_changes(body=_NOTHING, **changes)


def _resolved(module: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
    return MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)


def _starts(module: cst.Module, lines: Sequence[str]) -> dict[cst.CSTNode, tuple[int, int]]:
    """Row and column of the statements that begin a line, as Python's own parser tells them; none where it refuses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse("\n".join(lines))
        pairs = list(_pairs(module.body, tree.body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    places = ((node, known.lineno, known.col_offset) for node, known in pairs)
    return {node: (row, column) for node, row, column in places if not lines[row - 1][:column].strip(" \t")}


def _pairs(
    body: Sequence[cst.CSTNode], known: Sequence[ast.stmt]
) -> Iterator[tuple[cst.SimpleStatementLine | cst.BaseCompoundStatement, ast.stmt]]:
    """The statements of both trees that are the same. Raises ValueError where the trees differ."""
    place = 0
    for statement in body:
        if place >= len(known):
            raise ValueError
        twin = known[place]
        if isinstance(statement, cst.SimpleStatementLine):
            yield statement, twin
            place += len(statement.body)
        elif isinstance(statement, cst.BaseCompoundStatement):
            yield statement, twin
            yield from _inner_pairs(statement, twin)
            place += 1
    if place != len(known):
        raise ValueError


def _inner_pairs(
    statement: cst.CSTNode, twin: ast.AST
) -> Iterator[tuple[cst.SimpleStatementLine | cst.BaseCompoundStatement, ast.stmt]]:
    block = getattr(statement, "body", None)
    if isinstance(block, cst.IndentedBlock):
        yield from _pairs(block.body, twin.body)  # type: ignore[attr-defined]
    orelse = getattr(statement, "orelse", None)
    if isinstance(orelse, cst.If):
        yield from _inner_pairs(orelse, twin.orelse[0])  # type: ignore[attr-defined]
    elif orelse is not None and isinstance(orelse.body, cst.IndentedBlock):
        yield from _pairs(orelse.body.body, twin.orelse)  # type: ignore[attr-defined]
    final = getattr(statement, "finalbody", None)
    if final is not None and isinstance(final.body, cst.IndentedBlock):
        yield from _pairs(final.body.body, twin.finalbody)  # type: ignore[attr-defined]
    for parts in ("handlers", "cases"):
        for part, own in zip(getattr(statement, parts, ()), getattr(twin, parts, ()), strict=True):
            yield from _inner_pairs(part, own)
