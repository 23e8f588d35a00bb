"""Optimizer settings of an mmcv 1.x config: three dicts, with the position and the comments of each entry."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Sequence

from amplint.findings import Span
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.source.source import NEWLINE
from amplint.training.refusal import Refusal
from amplint.training.script import Script

NAMES = ("optimizer", "optimizer_config", "fp16")
DELETE = "_delete_"
"""The entry by which a dict replaces the inherited one instead of being merged into it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One `name=value` of a dict; `comments` stand above it, `comment` after it."""

    name: str
    value: cst.BaseExpression
    item: cst.Arg | cst.DictElement
    comments: tuple[str, ...]
    comment: str


@dataclass(frozen=True, slots=True)
class Setting:
    """`name = dict(...)`, or `name = None` if `entries` is None.

    `comment` follows the statement, `comments` are those above it, and `dead` are the statements it overwrites.
    """

    name: str
    statement: cst.SimpleStatementLine
    value: cst.BaseExpression
    entries: dict[str, Entry] | None
    comment: str
    comments: tuple[str, ...]
    dead: tuple[cst.SimpleStatementLine, ...]

    @property
    def deletes(self) -> bool:
        """Whether all inherited entries are discarded."""
        return self.entries is not None and DELETE in self.entries


def assignments(script: Script, name: str) -> list[tuple[cst.SimpleStatementLine, cst.Assign]]:
    """The statements at the top level that assign to this name alone."""
    found = []
    for statement in script.top:
        if isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Assign) and [_name(target) for target in small.targets] == [name]:
                    found.append((statement, small))
    return found


def read(script: Script) -> dict[str, Setting]:
    """The settings in the file. Raises Refusal if one of them is no literal dict."""
    comments = _Comments(script)
    found = {}
    for name in NAMES:
        given = assignments(script, name)
        if not given:
            continue
        statement, assignment = given[-1]
        row = script.row(statement)
        for _, each in given:
            script.statement(each)
        none = isinstance(assignment.value, cst.Name) and assignment.value.value == "None"
        entries = None if none else _entries(script, assignment.value, comments)
        if entries is None and not none:
            raise Refusal(row, f"what {name} holds is not written out here")
        span = script.source.span(statement)
        dead = tuple(above for above, _ in given[:-1])
        beside = comments.behind(span), comments.above(0, span)
        found[name] = Setting(name, statement, assignment.value, entries, *beside, dead)
    _refuse_later_use(script, found)
    return found


def items(value: cst.BaseExpression) -> Sequence[cst.Arg | cst.BaseDictElement] | None:
    """The entries of `dict(...)` or `{...}`; None for anything else."""
    if isinstance(value, cst.Dict):
        return value.elements
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value == "dict":
        return value.args
    return None


def key(item: cst.Arg | cst.BaseDictElement) -> str | None:
    """The key of an entry; None if it is no literal."""
    if isinstance(item, cst.Arg):
        return item.keyword.value if item.keyword is not None else None
    if isinstance(item, cst.DictElement) and isinstance(item.key, cst.SimpleString):
        value = item.key.evaluated_value
        return value if isinstance(value, str) and value.isidentifier() else None
    return None


def _entries(script: Script, value: cst.BaseExpression, comments: _Comments) -> dict[str, Entry] | None:
    found: dict[str, Entry] = {}
    last = script.source.span(value).start.row
    for item in items(value) or ():
        name = key(item)
        if name is None or not isinstance(item, (cst.Arg, cst.DictElement)):
            return None
        span = script.source.span(item)
        above = comments.above(last, span)
        found[name] = Entry(name, item.value, item, above, comments.behind(span))
        last = span.end.row
    return found if items(value) is not None else None


def _refuse_later_use(script: Script, settings: dict[str, Setting]) -> None:
    """Raise Refusal if the config reads or changes a setting after its assignment."""
    bound = {one.targets[0].target for name in settings for _, one in assignments(script, name)}
    for node in script.of_kind(cst.Name):
        if node.value not in settings or node in bound:
            continue
        if not script.rewrite.is_word(node):
            raise Refusal(script.row(node), f"{node.value} is used again here")


def _name(target: cst.AssignTarget) -> str | None:
    return target.target.value if isinstance(target.target, cst.Name) else None


class _Comments:
    """The comments of a text by their rows."""

    def __init__(self, script: Script) -> None:
        self._lines = script.lines
        self._found: dict[int, tuple[int, str]] = {}
        text = NEWLINE.sub("\n", script.text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                self._found[token.start[0]] = (token.start[1], token.string.rstrip())

    def above(self, after: int, item: Span) -> tuple[str, ...]:
        """The comments on their own rows directly above an item that begins its row."""
        if self._lines.before(item.start).strip():
            return ()
        rows = []
        row = item.start.row - 1
        while row > after and self._lines.comment(row):
            rows.append(self._found[row][1])
            row -= 1
        return tuple(reversed(rows))

    def behind(self, span: Span) -> str:
        """The comment after an item, with at most a comma in between."""
        column, comment = self._found.get(span.end.row, (0, ""))
        between = self._lines.line(span.end.row)[span.end.column - 1 : column]
        return comment if comment and between.strip(" \t,;") == "" else ""
