"""The evidence of a record about a place in a file: operations, dtypes, regions, failures."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator

from amplint.records import dataclass
from amplint.trace.data import Call, Failure, HalfLoss, Held, NonFinite, Operation, RunData, digest
from amplint.trace.kinds import computes

Rows = range
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_HIDDEN = "step"
"""A method of optimizers."""


@dataclass(frozen=True)
class Seen:
    """The evidence at a place. `operations` are those that compute or convert, without PyTorch's own backward passes.

    `inner` are the forward operations in the modules called there, and `around` says whether anything ran in the
    enclosing function or module. `hidden` says that nothing can be observed: operations of optimizers are not recorded.
    """

    operations: tuple[tuple[Operation, int], ...]
    calls: tuple[tuple[Call, int], ...]
    failures: tuple[Failure, ...]
    held: tuple[Held, ...]
    nonfinite: tuple[NonFinite, ...]
    losses: tuple[HalfLoss, ...]
    inner: tuple[tuple[Operation, int], ...]
    around: bool
    hidden: bool

    @property
    def exercised(self) -> bool:
        """Whether anything was observed at the place itself."""
        return bool(self.operations or self.calls or self.failures or self.held)


class Evidence:
    """A record, queried by places in files; files are identified by content, whatever their path."""

    def __init__(self, record: RunData) -> None:
        self.record = record
        self._trees: dict[str, ast.Module] = {}

    def names(self, path: str, raw: bytes) -> list[str] | None:
        """The record's names of the file at `path` with content `raw`; empty if none of it ran.

        None if the record has a file of this name with other content.
        """
        same = [name for name, content in self.record.sources.items() if content == digest(raw)]
        alike = [name for name in same if os.path.basename(name) == os.path.basename(path)]
        if same:
            return alike or same
        ending = os.path.join(*os.path.abspath(path).split(os.sep)[-2:])
        named = (os.path.abspath(name) for name in self.record.sources)
        return None if any(name.endswith(os.sep + ending) for name in named) else []

    def at(self, names: list[str], raw: bytes, start: int, end: int) -> Seen:
        """The evidence for the statement around the rows from `start` to `end` of a file with content `raw`.

        It covers the whole block if these are the header of a `with` statement or a decorator.
        """
        tree = self._tree(raw)
        block, head = _statement(tree, start, end)
        record, function = self.record, _function(tree, start, end)
        rows = range(1, 1 << 30) if function is None else _rows(function)
        named = function.name if function is not None else ""

        def here(place: Operation | Call | Failure | Held | NonFinite | HalfLoss, among: Rows = block) -> bool:
            return place.row in among and place.filename in names

        around = any(here(one, rows) for some in (record.operations, record.calls, record.failures) for one in some)
        calls = tuple((call, count) for call, count in record.calls.items() if here(call))
        paths = {call.module for call, _ in calls if call.module}
        return Seen(
            operations=tuple((one, count) for one, count in self._computing(named == "backward") if here(one)),
            calls=calls,
            failures=tuple(failure for failure in record.failures if here(failure, head)),
            held=tuple(filter(here, record.held)),
            nonfinite=tuple(filter(here, record.nonfinite)),
            losses=tuple(filter(here, record.losses)),
            inner=tuple((one, count) for one, count in self._computing() if _inside(one.module, paths)),
            around=around,
            hidden=not around and named == _HIDDEN,
        )

    def _computing(self, backward: bool = False) -> Iterator[tuple[Operation, int]]:
        for operation, count in self.record.operations.items():
            if (backward or operation.phase != "backward") and computes(operation):
                yield operation, count

    def _tree(self, raw: bytes) -> ast.Module:
        key = digest(raw)
        if key not in self._trees:
            try:
                self._trees[key] = ast.parse(raw)
            except (SyntaxError, ValueError):  # syntax of a newer Python
                self._trees[key] = ast.Module([], [])
        return self._trees[key]


def _inside(module: str, paths: set[str]) -> bool:
    return any(module == path or module.startswith(path + ".") for path in paths)


def _statement(tree: ast.Module, start: int, end: int) -> tuple[Rows, Rows]:
    """The rows of the innermost statement around a place, and, for a compound statement, the rows of its header.

    They differ for regions only: a finding at the header of another compound statement is not about its block.
    """
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _holds(node, start, end)]
    if not around:
        return range(start, end + 1), range(start, end + 1)
    inner = min(around, key=lambda node: len(_rows(node)))
    rows, body = _rows(inner), getattr(inner, "body", None)
    if not body:
        return rows, rows
    head = range(rows.start, max(body[0].lineno, inner.lineno + 1))
    decorates = isinstance(inner, _Function) and start < inner.lineno
    return rows if decorates or isinstance(inner, (ast.With, ast.AsyncWith)) else head, head


def _function(tree: ast.Module, start: int, end: int) -> _Function | None:
    """The innermost function around the rows of a place."""
    around = [node for node in ast.walk(tree) if isinstance(node, _Function) and _holds(node, start, end)]
    return min(around, key=lambda node: len(_rows(node)), default=None)


def _holds(node: ast.stmt, start: int, end: int) -> bool:
    return start in _rows(node) and end in _rows(node)


def _rows(node: ast.stmt) -> Rows:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)
