"""Suppression comments: `# noqa`, `# amplint: ignore[...]` and `# amplint: ignore-file[...]`, found by tokenizing."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable, Iterator

from amplint.findings import Position, Span
from amplint.records import dataclass
from amplint.regex import regex
from amplint.source.encoding import SourceError, decode

_NOQA = r"noqa\b(?:\s*:\s*(?P<codes>[a-z]+[0-9]+(?:\s*(?:,\s*)?[a-z]+[0-9]+)*))?"
_OWN = r"amplint\s*:\s*(?P<own>ignore-file|ignore)(?![\w-])(?:\s*\[(?P<selectors>[^\]#]*)\])?"
_DIRECTIVE = regex(rf"#\s*(?:{_NOQA}|{_OWN})", re.IGNORECASE)
_HINT = regex(rb"noqa|amplint\s*:", re.IGNORECASE)
_OWN_HINT = regex(rb"amplint\s*:", re.IGNORECASE)
_LISTED = regex(rb"noqa\s*:[^\r\n]*", re.IGNORECASE)
_CODE_HINT = regex(rb"AMP\d", re.IGNORECASE)
_YAML_COMMENT = regex(r"(?:^|\s)(?P<comment>#[^\n]*)")
_LAYOUT = frozenset({tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})


@dataclass(frozen=True)
class Suppression:
    """One suppression comment.

    It covers `rows`, first and last, 1-based; None is the whole file. `selectors` None means every rule. `own`
    distinguishes amplint's comments from `noqa`, which other tools share; `misplaced` marks an `ignore-file` after
    code, which covers nothing. `span` is the comment, `removal` the range to delete to remove it, None if other words
    would be removed as well.
    """

    rows: tuple[int, int] | None
    selectors: tuple[str, ...] | None
    own: bool
    misplaced: bool
    span: Span
    removal: Span | None


def may_suppress(raw: bytes) -> bool:
    """Whether the file may contain a suppression of any kind."""
    return _HINT.search(raw) is not None


def may_be_unused(raw: bytes) -> bool:
    """Whether the file may contain a suppression that is reported if it is unused."""
    folded = raw.lower()
    if b"amplint" in folded and _OWN_HINT.search(raw) is not None:
        return True
    return b"noqa" in folded and any(_CODE_HINT.search(listed) for listed in _LISTED.findall(raw))


def suppressions(raw: bytes, *, in_config: bool = False) -> list[Suppression]:
    """Every suppression in a Python or configuration file, in order; empty if the file cannot be tokenized."""
    found: list[Suppression] = []
    try:
        text, _ = decode(raw)
        lines = io.StringIO(text, newline=None).readlines()
        tokens = _of_config(lines) if in_config else tokenize.generate_tokens(iter(lines).__next__)
        for comment, rows in _comments(tokens):
            found += _directives(comment, lines[comment.start[0] - 1], rows)
    except (SourceError, tokenize.TokenError, SyntaxError):
        return []
    return found


def _of_config(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    """The comments of YAML, each as a token."""
    for row, line in enumerate(lines, 1):
        found = _YAML_COMMENT.search(line)
        if found is not None:
            start, end = (row, found.start("comment")), (row, found.end())
            yield tokenize.TokenInfo(tokenize.COMMENT, found["comment"], start, end, line)


def _comments(tokens: Iterable[tokenize.TokenInfo]) -> Iterator[tuple[tokenize.TokenInfo, tuple[int, int]]]:
    """Each comment with the rows of its logical line: a simple statement or a compound one's header."""
    first: int | None = None
    inside: list[tokenize.TokenInfo] = []
    for token in tokens:
        if token.type == tokenize.COMMENT:
            if first is None:
                yield token, (token.start[0], token.start[0])
            else:
                inside.append(token)
        elif token.type == tokenize.NEWLINE:
            last = token.start[0]
            yield from ((comment, (first or last, last)) for comment in inside)
            first, inside = None, []
        elif token.type not in _LAYOUT and first is None:
            first = token.start[0]


def _directives(comment: tokenize.TokenInfo, line: str, rows: tuple[int, int]) -> Iterator[Suppression]:
    row, shift = comment.start
    after_code = bool(line[:shift].strip())
    for found in _DIRECTIVE.finditer(comment.string):
        own = found["own"]
        listed = found["selectors" if own else "codes"]
        whole_file = own is not None and own.lower() == "ignore-file"
        yield Suppression(
            rows=None if whole_file else rows,
            selectors=None if listed is None else tuple(re.findall(r"[^\s,]+", listed)),
            own=own is not None,
            misplaced=whole_file and after_code,
            span=_span(row, shift + found.start(), shift + found.end()),
            removal=_removal(row, line, shift, shift + found.end()) if found.start() == 0 else None,
        )


def _removal(row: int, line: str, start: int, end: int) -> Span | None:
    before, after = line[:start].rstrip(), line[end:]
    if after.strip():
        return _span(row, start, line.index("#", end)) if after.lstrip().startswith("#") else None
    if not before and line.endswith("\n"):
        return Span(Position(row, 1), Position(row + 1, 1))
    return _span(row, len(before), len(line.rstrip("\n")))


def _span(row: int, start: int, end: int) -> Span:
    return Span(Position(row, start + 1), Position(row, end + 1))
