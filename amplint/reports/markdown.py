"""A pull request comment in GitHub's Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from amplint.findings import Applicability, Finding, Severity
from amplint.regex import regex
from amplint.reports.context import Context
from amplint.reports.places import file_label
from amplint.reports.text import fitting, one_line

LONGEST = 65_536
"""Characters that a comment on GitHub may have."""
_LONGEST_TEXT = 1_000
_MARKER = "<!-- amplint -->\n"
"""By which a later run finds its comment."""
_PUNCTUATION = regex(r"[!-/:-@\[-`{-~]")
_LINKED = regex(r"(?:\\[@#:]|\bGH\\-)(?=\S)", re.IGNORECASE)
"""What GitHub makes a mention, an emoji or a reference to an issue of, also where it is escaped."""
_FIXES = {
    Applicability.SAFE: "`amplint --fix` repairs this.",
    Applicability.UNSAFE: "`amplint --fix --unsafe-fixes` repairs this; it may change results.",
}


def markdown(findings: Sequence[Finding], context: Context) -> str:
    """A heading and a list of findings, the most severe first; those beyond the size limit are counted at the end."""
    if not findings:
        return f"{_MARKER}### amplint: no findings\n"
    ordered = sorted(findings, key=lambda finding: -finding.severity)
    head = f"{_MARKER}### amplint: {_counted(findings)}\n\n"
    items = fitting((_item(finding, context) for finding in ordered), LONGEST - len(head))
    while len(text := head + "".join(items) + _left_out(len(ordered) - len(items))) > LONGEST:
        items.pop()
    return text


def _counted(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    words = [_number(counts[level], level.label) for level in sorted(Severity, reverse=True) if counts[level]]
    return f"{', '.join(words)} in {_number(len({finding.filename for finding in findings}), 'file')}"


def _number(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _left_out(number: int) -> str:
    return f"\n{_number(number, 'more finding')} would make this comment too long.\n" if number else ""


def _item(finding: Finding, context: Context) -> str:
    rule = context.rules.get(finding.code)
    code = f"[{finding.code}]({rule.url()})" if rule else literal(finding.code)
    place = _code(f"{file_label(finding.filename, finding.cell)}:{finding.span.start.row}")
    lines = [f"- **{finding.severity.label}** {place} {code} {literal(finding.message)}"]
    if finding.advice:
        lines.append(f"  <br>{literal(finding.advice)}")
    if finding.fix:
        lines.append(f"  <br>{_FIXES[finding.fix.applicability]}")
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """`text` as a code span, whatever it contains."""
    shown = _cut(one_line(text))
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    room = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{room}{shown}{room}{fence}"


def literal(text: str) -> str:
    """`text` verbatim: no Markdown, HTML, link, mention or reference."""
    escaped = _PUNCTUATION.sub(lambda found: f"\\{found.group()}", _cut(one_line(text)))
    return _LINKED.sub(r"\g<0>&#8203;", escaped)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
