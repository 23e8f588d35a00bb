"""Findings as a JSON array in the shape of ruff's, with steps, reason and advice added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amplint.engine.fingerprints import fingerprints
from amplint.engine.records import to_record
from amplint.findings import Finding
from amplint.reports.context import Context
from amplint.reports.text import json_text


def as_json(findings: Sequence[Finding], context: Context) -> str:
    """An array with one object per finding; positions count from 1, `url` is the rule's page.

    `trace` has the `verdict` of a run and the measurement as `text`; null without a trace. `fingerprint` is stable
    while lines move.
    """
    return json_text(objects(findings, context), indent=2) + "\n"


def objects(findings: Sequence[Finding], context: Context) -> list[dict[str, Any]]:
    """One JSON object per finding."""
    marks = fingerprints(findings, context.sources.line)
    return [_object(finding, mark, context) for finding, mark in zip(findings, marks, strict=True)]


def _object(finding: Finding, fingerprint: str, context: Context) -> dict[str, Any]:
    shown = {key: value for key, value in to_record(finding).items() if key not in ("claims", "shown")}
    mark = finding.mark
    trace = {"verdict": mark.verdict.value, "text": mark.text} if mark is not None else None
    return {**shown, "url": _url(finding, context), "fingerprint": fingerprint, "trace": trace}


def _url(finding: Finding, context: Context) -> str | None:
    rule = context.rules.get(finding.code)
    return rule.url() if rule else None
