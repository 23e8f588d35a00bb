"""Findings as a JSON array in the shape of ruff's, with the steps, the reason and the advice besides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from amplint.engine.records import to_record
from amplint.findings import Finding
from amplint.reports.context import Context


def as_json(findings: Sequence[Finding], context: Context) -> str:
    """An array with one object per finding; positions count from 1, `url` is the rule's page.

    `trace` has the `verdict` of a run and what was measured as `text`, and is null where there is none.
    """
    return json.dumps([_object(finding, context) for finding in findings], indent=2) + "\n"


def _object(finding: Finding, context: Context) -> dict[str, Any]:
    shown = {key: value for key, value in to_record(finding).items() if key not in ("claims", "shown")}
    mark = finding.mark
    trace = {"verdict": mark.verdict.value, "text": mark.text} if mark is not None else None
    return {**shown, "url": _url(finding, context), "trace": trace}


def _url(finding: Finding, context: Context) -> str | None:
    rule = context.rules.get(finding.code)
    return rule.url() if rule else None
