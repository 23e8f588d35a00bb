"""Findings as a JSON array in the shape of ruff's, with the steps, the reason and the advice besides."""

from __future__ import annotations

import json
from collections.abc import Sequence

from amplint.engine.records import to_record
from amplint.findings import Finding
from amplint.reports.context import Context


def as_json(findings: Sequence[Finding], context: Context) -> str:
    """An array with one object per finding; positions count from 1, `url` is the rule's page."""
    records = [{**to_record(finding), "url": _url(finding, context)} for finding in findings]
    return json.dumps(records, indent=2) + "\n"


def _url(finding: Finding, context: Context) -> str | None:
    rule = context.rules.get(finding.code)
    return rule.url() if rule else None
