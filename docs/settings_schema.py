"""The JSON Schema of amplint.toml, and of `[tool.amplint]` in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from amplint.findings import Severity
from amplint.rule import Rule
from amplint.torchlib.changes import CHANGING
from amplint.torchlib.tables import versions
from docs.report_schema import DRAFT

Schema = dict[str, Any]

_SELECTORS: Schema = {"type": "array", "items": {"$ref": "#/$defs/Selector"}}
_PATTERNS: Schema = {"type": "array", "items": {"type": "string"}}


def settings_schema(rules: Iterable[type[Rule]]) -> Schema:
    """The schema; it offers what `rules` are called, and takes any other word, for plug-ins bring rules."""
    known = [word for rule in rules for word in (rule.code, rule.name)]
    properties = {
        "extend": {
            "description": "A file, from this one's folder on, whose settings hold where this one says nothing.",
            "type": "string",
            "minLength": 1,
        },
        "select": {"description": "The rules that are on, instead of those on by default.", **_SELECTORS},
        "extend-select": {"description": "Rules that are on besides the selected ones.", **_SELECTORS},
        "ignore": {
            "description": "Rules that are off; of select and ignore the more specific word wins.",
            **_SELECTORS,
        },
        "per-file-ignores": {
            "description": "Patterns like those of .gitignore, and the rules that are off in files that match.",
            "type": "object",
            "additionalProperties": _SELECTORS,
        },
        "exclude": {"description": "Files and folders that are left out, as patterns like .gitignore's.", **_PATTERNS},
        "min-severity": {
            "description": "Only rules that are at least this severe.",
            "enum": [level.label for level in Severity],
        },
        "unsafe-fixes": {"description": "Whether --fix uses fixes that may change results.", "type": "boolean"},
        "max-file-size": {
            "description": "Bytes above which a file is not read.",
            "type": "integer",
            "exclusiveMinimum": 0,
        },
        "max-seconds": {
            "description": "Processor seconds after which the analysis of a file is cut short.",
            "type": "number",
            "exclusiveMinimum": 0,
        },
        "torch-version": {"description": "The PyTorch whose autocast policy counts.", "enum": list(versions())},
        "library-versions": {
            "description": "Versions or specifiers of libraries, instead of what the project's files ask for.",
            "type": "object",
            "properties": {name: {"type": "string", "pattern": r"^[=~<>^ v]*[0-9]"} for name in CHANGING},
            "additionalProperties": False,
        },
    }
    return {
        "$schema": DRAFT,
        "title": "Settings of amplint",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": {
            "Selector": {
                "description": "The code of a rule, the beginning of codes, a name, or ALL.",
                "anyOf": [{"enum": ["ALL", *known]}, {"type": "string"}],
            }
        },
    }
