"""Verification of a repaired text before it is written."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator

from amplint.findings import Edit, Position
from amplint.fixes.names import parse
from amplint.fixes.splice import locate, splice
from amplint.source.encoding import SourceError
from amplint.source.rewrite_lines import Lines
from amplint.source.source import NEWLINE, Source


def verify(old: str, new: str, edits: Iterable[Edit]) -> str | None:
    """Why `new` must not replace `old`, None if it may.

    `new` has to be as valid as `old`, to differ from it only by `edits` and import statements, and to keep every
    comment of `old` except those of import statements and those inside a deletion (an edit to nothing or to `pass`).
    """
    old_tree, new_tree = parse(old), parse(new)
    if _validity(new, new_tree) < max(1, _validity(old, old_tree)):
        return "the result is not valid Python"
    lines = Lines(old)
    try:
        located = locate(lines, edits)
    except ValueError as failure:
        return f"an edit has no place in the text: {failure}"
    expected = splice(old, located)
    if expected != new and _code(expected, parse(expected)) != _code(new, new_tree):
        return "the result differs from the original outside the edits"
    if not any(content and "#" in old[start:end] for start, end, content in located):
        return None
    imports = _import_rows(old_tree)
    deleted = [(start, end) for start, end, content in located if content in ("", "pass")]
    comments = Counter(
        comment
        for position, comment in _comments(old)
        if position.row not in imports and not any(start <= lines.offset(position) < end for start, end in deleted)
    )
    lost = comments - Counter(comment for _, comment in _comments(new))
    return f"a comment would be lost: {next(iter(lost))}" if lost else None


def _validity(text: str, tree: ast.Module | None) -> int:
    """The validity of a text: 3 compiles, 2 parses, 1 only libcst parses (which accepts more), 0 none."""
    if tree is None:
        try:
            Source("", text)
        except SourceError:
            return 0
        return 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return 2
    return 3


def _import_rows(tree: ast.Module | None) -> set[int]:
    return {
        row
        for node in (ast.walk(tree) if tree else ())
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for row in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _code(text: str, tree: ast.Module | None) -> list[str]:
    """The lines without imports, blank lines and the `pass` that replaces an import."""
    imports = _import_rows(tree)
    lines = enumerate(NEWLINE.split(text), 1)
    return [line for row, line in lines if row not in imports and line.strip() not in ("", "pass")]


def _comments(text: str) -> Iterator[tuple[Position, str]]:
    """Positions and texts of the comments, up to where `tokenize` fails."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(NEWLINE.sub("\n", text)).readline):
            if token.type == tokenize.COMMENT:
                yield Position(token.start[0], token.start[1] + 1), token.string.rstrip()
    except (tokenize.TokenError, SyntaxError):
        return
