"""The closing lines of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from amplint.engine.select import Rules
from amplint.findings import Applicability, Finding, Severity
from amplint.reports.marks import verdicts
from amplint.reports.text import visible


def summary(
    findings: Sequence[Finding],
    files: int,
    *,
    fixed: int,
    fixing: bool,
    safe: Collection[Applicability],
    partly: bool = False,
) -> str:
    """Number of findings, of fixes and of files, and what could still be fixed.

    `safe` are the kinds of fixes that `--fix` applies; `fixing` says that it was given. `partly` says that findings
    were left out.
    """
    lines = [f"Fixed {_count(fixed, 'finding')}."] if fixed else []
    if findings:
        by_severity = [sum(finding.severity is level for finding in findings) for level in reversed(Severity)]
        parts = [_count(n, level.label) for n, level in zip(by_severity, reversed(Severity), strict=True) if n]
        where = len({finding.filename for finding in findings})
        left = " left" if fixed else ""
        what = f"{_count(len(findings), 'finding')}{left} ({', '.join(parts)})"
        of = f"{where} of {_count(files, 'file')}" if where <= files else _count(where, "file")
        lines.append(f"{what} in {of}.")
        lines += _fixable(findings, fixing, safe)
        lines += _marked(findings)
    elif files:
        lines.append(f"Nothing {'left' if fixed else 'else found' if partly else 'found'} in {_count(files, 'file')}.")
    else:
        lines.append("No Python files found.")
    return "\n".join(lines)


def would_fix(fixed: int) -> str:
    """The closing line of `--diff`."""
    return f"{_count(fixed, 'finding')} would be fixed." if fixed else "Nothing would be fixed."


def fixes(fixed: Mapping[str, Sequence[str]], rules: Rules) -> str:
    """`--show-fixes`: for each file the number of fixed findings by rule. `fixed` maps file names to codes."""
    lines: list[str] = []
    for filename, codes in fixed.items():
        lines.append(f"{visible(filename)}:")
        lines += (f"  {number} x {code} {rules[code].name}" for code, number in sorted(Counter(codes).items()))
    return "".join(f"{line}\n" for line in lines)


def _fixable(findings: Sequence[Finding], fixing: bool, safe: Collection[Applicability]) -> list[str]:
    fixes = [finding.fix for finding in findings if finding.fix]
    ready = sum(fix.applicability in safe for fix in fixes)
    more = len(fixes) - ready
    if fixing:
        parts = [f"{_count(ready, 'fix')} could not be applied"] if ready else []
        parts += [f"{more} fixable with --unsafe-fixes"] if more else []
    else:
        parts = [f"{ready} fixable with --fix"] if ready else []
        parts += [f"{more} {'more' if ready else 'fixable'} with --unsafe-fixes"] if more else []
    return [", ".join(parts) + "."] if parts else []


def _marked(findings: Sequence[Finding]) -> list[str]:
    """The trace's verdicts, empty without a trace."""
    if not any(finding.mark for finding in findings):
        return []
    counts = [f"{count} {verdict}" for verdict, count in verdicts(findings).items() if count]
    return [f"By the trace: {', '.join(counts)}."]


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("x") else "s")
    return f"{number} {noun if number == 1 else plural}"
