"""Suppression comments: inserted for given findings, and only if they change nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from amplint.engine.deep import call_deep
from amplint.engine.diagnostics import ALWAYS_ON, UnreadableFile, UnusedSuppression, diagnostic
from amplint.engine.discover import Target
from amplint.engine.run import Linter, opened
from amplint.findings import Edit, Finding, Position, Span
from amplint.fixes.names import parse
from amplint.fixes.splice import locate, splice
from amplint.fixes.verify import verify
from amplint.fixes.write import replace_file
from amplint.notebooks.page import Page
from amplint.records import dataclass
from amplint.source.configs.names import is_config
from amplint.source.encoding import SourceError
from amplint.source.files import read
from amplint.source.logical import logical_ends
from amplint.source.rewrite_lines import Lines
from amplint.source.suppressions import Suppression, suppressions

_NOT_IGNORED = ALWAYS_ON | {UnusedSuppression.code}


@dataclass(frozen=True)
class Ignored:
    """The result for a file: the findings that are `left`, and the number `silenced`."""

    left: list[Finding]
    silenced: int = 0


@dataclass(frozen=True)
class _Comment:
    """An insertion point for codes: an existing suppression's list (`joins`), or a new comment at the end of a line."""

    span: Span
    joins: bool

    def edit(self, codes: Iterable[str], line: str) -> Edit:
        listed = ", ".join(sorted(codes))
        if self.joins:
            before = line[: self.span.start.column - 1].rstrip()
            return Edit(self.span, listed if before.endswith(("[", ",")) else f", {listed}")
        return Edit(self.span, f"  # amplint: ignore[{listed}]")


def ignore_in_file(target: Target, findings: list[Finding], linter: Linter) -> Ignored:
    """Insert suppression comments for `findings` of the file `target`, and replace the file.

    A comment is inserted only if the syntax tree stays the same, its finding is suppressed, and no other finding
    appears or disappears except of the same rule in the same statement. Configuration files get no comments.
    """
    wanted = {identity(finding) for finding in findings if finding.code not in _NOT_IGNORED}
    if not wanted or is_config(target.path):
        return Ignored(findings)
    try:
        raw = read(target.path)
        page = opened(target.path, raw)
        after, silenced = commented(page, target, linter, wanted)
        if not silenced:
            return Ignored(findings)
        replace_file(target.path, after, expected=raw)
    except SourceError:
        return Ignored(findings)
    except OSError as failure:
        message = f"cannot be written: {failure.strerror or failure}"
        return Ignored([diagnostic(UnreadableFile, target.filename, message), *findings])
    left = [finding for finding in findings if identity(finding) not in silenced]
    return Ignored(left, len(findings) - len(left))


Identity = tuple[str, Position, str]


def identity(finding: Finding) -> Identity:
    """A key that distinguishes a finding from the others of its file."""
    return finding.code, finding.span.start, finding.message


def commented(page: Page, target: Target, linter: Linter, wanted: set[Identity]) -> tuple[bytes, set[Identity]]:
    """The file's content with as many comments as can be inserted, and the findings that they suppress."""
    before = linter.check_page(target, page)
    placed = [page.placed(finding) for finding in before]
    found = [(identity(there), here) for here, there in zip(before, placed, strict=True) if identity(there) in wanted]
    comments = _comments(page, [here for _, here in found])
    by_comment: dict[_Comment, list[tuple[Identity, Finding]]] = {}
    for (key, here), comment in zip(found, comments, strict=True):
        if comment is not None:
            by_comment.setdefault(comment, []).append((key, here))

    def attempt(chosen: list[_Comment]) -> bytes | None:
        codes = {comment: {here.code for _, here in by_comment[comment]} for comment in chosen}
        silenced = [here for comment in chosen for _, here in by_comment[comment]]
        return _checked(page, codes, lambda after: _silences(linter, target, after, before, silenced))

    chosen = list(by_comment)
    after = attempt(chosen) if chosen else None
    if after is None:
        chosen = [comment for comment in chosen if attempt([comment]) is not None]
        after = attempt(chosen) if chosen else None
    if after is None:
        return page.raw, set()
    return after, {key for comment in chosen for key, _ in by_comment[comment]}


def _comments(page: Page, findings: list[Finding]) -> list[_Comment | None]:
    """The insertion point for each of `findings`, None if there is none."""
    text = page.text
    ends = logical_ends(text)
    lines = Lines(text)
    first: dict[tuple[int, int], Suppression] = {}
    for one in suppressions(page.raw):
        if one.rows is not None and _takes_codes(one, lines):
            first.setdefault(one.rows, one)
    present = {row: one for (start, end), one in reversed(first.items()) for row in range(start, end + 1)}
    return [_comment(finding, present, ends) for finding in findings]


def _takes_codes(suppression: Suppression, lines: Lines) -> bool:
    """Whether it is an amplint suppression with a list that codes can be added to."""
    end = suppression.span.end
    listed = suppression.own and suppression.selectors is not None
    return listed and lines.line(end.row)[: end.column - 1].endswith("]")


def _comment(finding: Finding, present: dict[int, Suppression], ends: dict[int, Position]) -> _Comment | None:
    row = finding.span.start.row
    if row in present:
        end = present[row].span.end
        before = Position(end.row, end.column - 1)
        return _Comment(Span(before, before), joins=True)
    end_of_line = ends.get(row)
    return None if end_of_line is None else _Comment(Span(end_of_line, end_of_line), joins=False)


def _checked(page: Page, codes: dict[_Comment, set[str]], holds: Callable[[bytes], bool]) -> bytes | None:
    """The file's content with a comment for each of `codes`, None if a check fails."""
    old = page.text
    lines = Lines(old)
    edits = [comment.edit(some, lines.line(comment.span.start.row)) for comment, some in codes.items()]
    if not all(page.may_edit(edit.span) for edit in edits):
        return None
    new = splice(old, locate(lines, edits))
    if verify(old, new, edits) is not None or _syntax_dump(old) != _syntax_dump(new):
        return None
    after = page.restored(new)
    return after if after is not None and holds(after) else None


def _syntax_dump(text: str) -> str | None:
    """A dump of the syntax tree, which comments and layout do not affect. None for a syntax error."""
    tree = parse(text)
    return None if tree is None else call_deep(ast.dump, tree)


def _silences(linter: Linter, target: Target, after: bytes, before: list[Finding], silenced: list[Finding]) -> bool:
    """Whether linting `after` reports none of `silenced`, and nothing that was not reported `before`."""
    found = {identity(finding) for finding in linter.check_page(target, opened(target.path, after))}
    return found <= {identity(finding) for finding in before} and found.isdisjoint(map(identity, silenced))
