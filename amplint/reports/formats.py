"""The formats by name."""

from __future__ import annotations

from amplint.reports.as_json import as_json
from amplint.reports.concise import concise
from amplint.reports.context import Report
from amplint.reports.full import full
from amplint.reports.github import github

FORMATS: dict[str, Report] = {"full": full, "concise": concise, "json": as_json, "github": github}
