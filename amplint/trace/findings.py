"""Asking every check about a record."""

from __future__ import annotations

from amplint.engine.registry import load_registry
from amplint.findings import Finding
from amplint.trace.check import Check
from amplint.trace.record import Record


def findings(record: Record) -> list[Finding]:
    """What the checks among all rules find in `record`, worst first, those of one severity by place."""
    checks = [rule for rule in load_registry().rules.values() if issubclass(rule, Check)]
    found = [finding for check in checks for finding in check().findings(record)]
    return sorted(found, key=lambda finding: (-finding.severity, finding.filename, finding.span, finding.code))
