"""Suppression: drop findings that a comment suppresses, and report comments that suppress nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from amplint.engine.diagnostics import ALWAYS_ON, UnusedSuppression, diagnostic
from amplint.engine.select import Rules, matches, nearest_rule
from amplint.findings import Edit, Finding, Fix
from amplint.source.configs.names import is_config
from amplint.source.suppressions import Suppression, may_be_unused, may_suppress, suppressions


def suppress(findings: list[Finding], filename: str, raw: bytes, rules: Rules, active: frozenset[str]) -> list[Finding]:
    """`findings` of one file without the suppressed ones, and with findings about unused suppressions.

    `active` are the codes that were checked. Unused suppressions are not reported if the analysis of the file failed,
    since its findings are then unknown.
    """
    failed = any(finding.code in ALWAYS_ON for finding in findings)
    wanted = UnusedSuppression.code in active and not failed and may_be_unused(raw)
    ours = any(finding.code not in ALWAYS_ON for finding in findings)
    if not wanted and not (ours and may_suppress(raw)):
        return findings
    comments = suppressions(raw, in_config=is_config(filename))
    statements = _Statements(comments, rules)
    kept = [finding for finding in findings if not statements.suppress(finding)]
    if wanted and not any(comment.rows is None and _names_itself(comment) for comment in comments):
        kept += _unused(comments, filename, rules, active, statements.used)
        kept.sort(key=lambda finding: (finding.span, finding.code))
    return kept


class _Statements:
    """The comments of each statement, and their `used` selectors; None stands for the whole file.

    A file, and a statement, may have many findings and many comments: each code is looked up once in each.
    """

    def __init__(self, comments: Iterable[Suppression], rules: Rules) -> None:
        self.used: set[tuple[Suppression, str]] = set()
        self._rules = rules
        self._comments: dict[tuple[int, int] | None, list[Suppression]] = {None: []}
        for comment in comments:
            if not comment.misplaced:
                self._comments.setdefault(comment.rows, []).append(comment)
        self._at: dict[int, list[tuple[int, int]]] = {}
        for rows in filter(None, self._comments):
            for row in range(rows[0], rows[1] + 1):
                self._at.setdefault(row, []).append(rows)
        self._known: dict[tuple[tuple[int, int] | None, str], bool] = {}

    def suppress(self, finding: Finding) -> bool:
        """Whether a comment suppresses `finding`; all that do are marked as used."""
        if finding.code in ALWAYS_ON:
            return False
        meant = (None, *self._at.get(finding.span.start.row, ()))
        ways = [self._suppresses(rows, finding.code) for rows in meant]
        return any(ways)

    def _suppresses(self, rows: tuple[int, int] | None, code: str) -> bool:
        if (rows, code) not in self._known:
            hits = [
                (comment, selector)
                for comment in self._comments[rows]
                for selector in _selectors(comment)
                if code in matches(selector, self._rules)
            ]
            self.used.update(hits)
            self._known[rows, code] = bool(hits)
        return self._known[rows, code]


def _unused(
    comments: Iterable[Suppression],
    filename: str,
    rules: Rules,
    active: frozenset[str],
    used: set[tuple[Suppression, str]],
) -> Iterator[Finding]:
    for comment in comments:
        if _names_itself(comment) or not (comment.own or comment.selectors):
            continue
        ours = [word for word in _selectors(comment) if comment.own or word.upper().startswith("AMP")]
        unknown = [word for word in ours if not matches(word, rules)]
        idle = [word for word in ours if _idle(word, rules, active) and (comment, word) not in used]
        message = _message(comment, unknown, idle, rules)
        if message:
            finding = diagnostic(UnusedSuppression, filename, message, span=comment.span)
            yield finding if unknown or comment.misplaced else replace(finding, fix=_fix(comment, idle))


def _message(comment: Suppression, unknown: list[str], idle: list[str], rules: Rules) -> str:
    if comment.misplaced:
        return "ignore-file counts only on a line of its own; here it suppresses nothing"
    if comment.selectors == ():
        return "this suppression names no rule, so it suppresses nothing"
    parts = [f'no rule is called "{word}"{nearest_rule(word, rules)}' for word in unknown]
    if idle:
        what = "" if comment.selectors is None else f" of {', '.join(idle)}"
        parts.append(f"this suppression{what} suppresses nothing")
    return "; ".join(parts)


def _fix(comment: Suppression, idle: list[str]) -> Fix | None:
    if comment.removal is None or set(comment.selectors or ()) - set(idle):
        return None
    return Fix("Remove the comment.", (Edit(comment.removal, ""),))


def _idle(selector: str, rules: Rules, active: frozenset[str]) -> bool:
    """Whether every code that `selector` covers was checked, so that it can be called unused."""
    covered = matches(selector, rules).keys()
    on_by_default = {code for code in covered if rules[code].default}
    return bool(covered) and (on_by_default or covered) <= active


def _selectors(comment: Suppression) -> tuple[str, ...]:
    return ("ALL",) if comment.selectors is None else comment.selectors


def _names_itself(comment: Suppression) -> bool:
    own = (UnusedSuppression.code, UnusedSuppression.name)
    return any(word.upper() == own[0] or word.lower() == own[1] for word in comment.selectors or ())
