"""Insertion of import statements for new code, and removal of unused ones."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterable, Iterator

from amplint.findings import Position, Span
from amplint.fixes.names import (
    ImportStatement,
    bound_name,
    parse,
    spellings,
    top_level_bindings,
    used_names,
)
from amplint.fixes.splice import Located, place, splice
from amplint.regex import regex
from amplint.source.rewrite_lines import LINE_TAIL, Lines, deletions
from amplint.source.source import NEWLINE
from amplint.torchlib.names import LIBRARIES

_STANDARD = sys.stdlib_module_names - {"__future__"}
_NOQA = regex(r"[^#]*#.*\bnoqa\b", re.IGNORECASE)


def can_import(text: str, wanted: Iterable[str]) -> bool:
    """Whether none of the import statements `wanted` would rebind a name that the file binds itself."""
    tree = parse(text)
    if tree is None:
        return False
    bound: dict[str, set[str]] = {}
    for name, statement in top_level_bindings(tree):
        bound.setdefault(name, set()).add(statement)
    return all(
        name not in bound or any(_same_object(statement, have) for have in bound[name])
        for name, statement in spellings(_statements(wanted))
    )


def add_imports(text: str, wanted: Iterable[str]) -> str:
    """The text with the import statements of `wanted` (`"from torch import nn"`) that its top level lacks.

    They are inserted where isort would put them, above the first use of a name they bind, else below the docstring. A
    text that `ast` cannot parse is returned unchanged.
    """
    needed = list(dict.fromkeys(spellings(_statements(wanted))))
    tree = parse(text) if needed else None
    if tree is None:
        return text
    tried = (inner for node in tree.body if isinstance(node, ast.Try) for inner in node.body)
    have = [statement for _, statement in spellings([*tree.body, *tried])]
    missing = {name: line for name, line in needed if not any(_provides(other, line) for other in have)}
    if not missing:
        return text
    newline = found.group() if (found := NEWLINE.search(text)) else "\n"
    for line in missing.values():
        now = parse(text)
        if now is not None:
            first = _first_use(now, set(missing))
            sorted_in = _insert_sorted(text, now, line, newline, before_row=first)
            text = sorted_in or _insert_imports(text, now, line + newline, newline, before_row=first)
    return text


def remove_stale_imports(old_text: str, new_text: str, keep: Collection[str] = ()) -> str:
    """`new_text` without imports of names that `old_text` imports and uses and `new_text` no longer uses.

    Imports under `try`, with `# noqa`, of `*`, from `__future__` and re-exports of the form `a as a` are kept, and
    those of the names in `keep`.
    """
    old, new = parse(old_text), parse(new_text)
    if old is None or new is None:
        return new_text
    imported = {name for name, _ in spellings(node for node in ast.walk(old) if isinstance(node, ast.stmt))}
    stale = used_names(old, imported)
    stale -= used_names(new, stale).union(keep)
    if not stale:
        return new_text
    lines = Lines(new_text)
    edits = [edit for block, top in _blocks(new) for edit in _removals(lines, block, stale, top=top)]
    return splice(new_text, sorted(edits, key=place))


def _statements(code: Iterable[str]) -> list[ast.stmt]:
    return [statement for line in code for statement in ast.parse(line).body]


def _provides(have: str, wanted: str) -> bool:
    """Whether the import `have` implies `wanted`; `import a.b` implies `import a`."""
    plain = wanted.startswith("import ") and " as " not in wanted + have
    return have == wanted or (plain and have.startswith(f"{wanted}."))


def _same_object(wanted: str, have: str) -> bool:
    """Whether two imports of one name bind it to the same object: `import a.b` and `import a.c` both bind `a`."""
    plain = [line.startswith("import ") and " as " not in line for line in (wanted, have)]
    return have == wanted or all(plain)


def _first_use(tree: ast.Module, names: set[str]) -> float:
    rows = (node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in names)
    return min(rows, default=float("inf"))


def _insert_sorted(text: str, tree: ast.Module, line: str, newline: str, *, before_row: float) -> str | None:
    """The text with the import `line` sorted into a matching group of imports, None if there is none.

    Standard library imports come first, those of one library together, and `import a` before `from a import b`.
    """
    new = _statements([line])[0]
    head = [one for one in tree.body if isinstance(one, (ast.Import, ast.ImportFrom)) and one.lineno < before_row]
    standard = _root(new) in sys.stdlib_module_names
    kin = (
        [one for one in head if _root(one) in _STANDARD]
        if standard
        else [one for one in head if _root(one) == _root(new)]
    )
    if not kin and _root(new) in LIBRARIES:
        kin = [one for one in head if _root(one) in LIBRARIES]
    above = [one for one in kin if _order(one) <= _order(new)]
    lines = Lines(text)
    if above:
        row = _last_row(tree, above[-1])
        return _with_row(text, lines, row + 1, line, newline) if row < len(lines) else None
    if kin:
        return _with_row(text, lines, kin[0].lineno, line, newline)
    first = next((one for one in head if _root(one) != "__future__"), None)
    if standard and first is not None:
        return _with_row(text, lines, first.lineno, line + newline, newline)
    return None


def _root(node: ast.stmt) -> str:
    """The top-level package of an import, empty for a relative one."""
    if isinstance(node, ast.Import):
        return node.names[0].name.partition(".")[0]
    return (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) and not node.level else ""


def _order(node: ast.stmt) -> tuple[bool, str]:
    """The sort key of isort within a section."""
    module = node.names[0].name if isinstance(node, ast.Import) else getattr(node, "module", None) or ""
    return isinstance(node, ast.ImportFrom), module.lower()


def _last_row(tree: ast.Module, node: ast.stmt) -> int:
    """The last row of the statements that share a row with `node`."""
    return max(one.end_lineno or 0 for one in tree.body if one.lineno <= (node.end_lineno or 0))


def _with_row(text: str, lines: Lines, row: int, code: str, newline: str) -> str:
    """The text with `code` inserted above the row."""
    return text[: lines.start(row)] + code + newline + text[lines.start(row) :]


def _insert_imports(text: str, tree: ast.Module, code: str, newline: str, *, before_row: float) -> str:
    lines = Lines(text)
    anchor: ast.stmt | None = None
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)) and (statement.end_lineno or 0) < before_row:
            anchor = statement
    if anchor is None and ast.get_docstring(tree, clean=False) is not None:
        anchor = tree.body[0]
    if anchor is None and not tree.body:
        return text + ("" if lines.blank(len(lines)) else newline) + code
    if anchor is None:
        above = min(node.lineno for node in [tree.body[0], *getattr(tree.body[0], "decorator_list", [])])
        return text[: lines.start(above)] + code + newline + text[lines.start(above) :]
    row = _last_row(tree, anchor)
    apart = isinstance(anchor, ast.Expr) or getattr(anchor, "module", None) == "__future__"
    before = newline if apart else ""
    after = newline if apart and row < len(lines) and not lines.blank(row + 1) else ""
    if row == len(lines):
        return text + newline + before + code
    offset = lines.start(row + 1)
    return text[:offset] + before + code + after + text[offset:]


def _blocks(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], bool]]:
    """Every list of statements outside of `try`, and whether it is the module's own."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            continue
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block, node is tree
        todo.extend(ast.iter_child_nodes(node))


def _removals(lines: Lines, block: list[ast.stmt], stale: set[str], *, top: bool) -> Iterator[Located]:
    gone = 0
    for statement in block:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        indices = {index for index, alias in enumerate(statement.names) if _is_stale(statement, alias, stale)}
        rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        if not indices or any(_NOQA.match(lines.line(row)) for row in rows):
            continue
        span = _span(lines, statement)
        if len(indices) < len(statement.names):
            items = [_span(lines, alias) for alias in statement.names]
            bracketed = "(" in lines.text[slice(*lines.range(span))]
            yield from ((start, end, "") for start, end in deletions(lines, items, indices, bracketed=bracketed))
        elif not lines.before(span.start).strip() and LINE_TAIL.fullmatch(lines.after(span.end)):
            gone += 1
            if top or gone < len(block):
                yield (*lines.range(lines.rows(rows[0], rows[-1])), "")
            else:
                yield (*lines.range(span), "pass")


def _is_stale(statement: ImportStatement, alias: ast.alias, stale: set[str]) -> bool:
    if alias.asname == alias.name or (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
        return False
    return bound_name(statement, alias) in stale


def _span(lines: Lines, node: ast.stmt | ast.alias) -> Span:
    """The span of a node; `ast` counts columns in UTF-8 bytes."""
    end_row, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return Span(_position(lines, node.lineno, node.col_offset), _position(lines, end_row, end_column))


def _position(lines: Lines, row: int, byte_column: int) -> Position:
    return Position(row, len(lines.line(row).encode()[:byte_column].decode()) + 1)
