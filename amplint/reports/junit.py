"""JUnit XML: a test suite per file with findings, a failed test per finding."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from amplint.findings import Finding
from amplint.reports.context import Context
from amplint.reports.places import line
from amplint.reports.prose import paragraphs
from amplint.reports.text import visible_lines


def junit(findings: Sequence[Finding], context: Context) -> str:
    """The document; without findings it has one passed test, since some readers reject an empty document."""
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.filename, []).append(finding)
    suites = "".join(_suite(name, found) for name, found in files.items()) or _passed()
    tests = max(1, len(findings))
    head = f'<testsuites name="amplint" tests="{tests}" failures="{len(findings)}" errors="0">'
    document = f'<?xml version="1.0" encoding="UTF-8"?>\n{head}\n{suites}</testsuites>\n'
    return document.encode("ascii", "xmlcharrefreplace").decode("ascii")


def _passed() -> str:
    suite = '<testsuite name="amplint" tests="1" failures="0" errors="0" skipped="0">'
    return f'  {suite}\n    <testcase name="no findings" classname="amplint"/>\n  </testsuite>\n'


def _suite(name: str, findings: Sequence[Finding]) -> str:
    counts = f'tests="{len(findings)}" failures="{len(findings)}" errors="0" skipped="0"'
    cases = "".join(_case(finding) for finding in findings)
    return f"  <testsuite name={_attribute(name)} file={_attribute(name)} {counts}>\n{cases}  </testsuite>\n"


def _case(finding: Finding) -> str:
    place = f"{line(finding.span)}, column {finding.span.start.column}"
    test = _attribute(f"{finding.code} {finding.name} ({place})")
    text = escape(visible_lines("\n".join([f"{finding.filename}: {place}", *paragraphs(finding)])))
    failure = (
        f"<failure type={_attribute(finding.severity.label)} message={_attribute(finding.message)}>{text}</failure>"
    )
    return f"    <testcase name={test} classname={_attribute(finding.filename)}>\n      {failure}\n    </testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(visible_lines(text).replace("\n", " "))
