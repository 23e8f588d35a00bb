"""The formats by name; a format's module is imported on use."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from amplint.findings import Finding
from amplint.reports.context import Context, Report


def _of(module: str) -> Report:
    """The function of the same name in the module `module`."""

    def report(findings: Sequence[Finding], context: Context) -> str:
        text: str = getattr(import_module(f"amplint.reports.{module}"), module)(findings, context)
        return text

    return report


FORMATS: dict[str, Report] = {
    "full": _of("full"),
    "concise": _of("concise"),
    "grouped": _of("grouped"),
    "agent": _of("agent"),
    "json": _of("as_json"),
    "json-lines": _of("json_lines"),
    "sarif": _of("sarif"),
    "github": _of("github"),
    "gitlab": _of("gitlab"),
    "azure": _of("azure"),
    "junit": _of("junit"),
    "rdjson": _of("rdjson"),
    "markdown": _of("markdown"),
}
