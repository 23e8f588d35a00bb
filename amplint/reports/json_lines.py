"""Findings as JSON, one object in each line."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.findings import Finding
from amplint.reports.as_json import objects
from amplint.reports.context import Context
from amplint.reports.text import json_text


def json_lines(findings: Sequence[Finding], context: Context) -> str:
    """The objects of the JSON format, one per line."""
    return "".join(json_text(each) + "\n" for each in objects(findings, context))
