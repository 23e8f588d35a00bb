"""The JSON Schemas of findings and rules, derived from the classes that hold them."""

from __future__ import annotations

import enum
import inspect
import types
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from amplint.api import RuleDescription
from amplint.claims import Claim, Mark, Verdict
from amplint.findings import Finding, Severity, Span

Schema = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
_LEFT_OUT = {Claim, Mark}
"""What of a finding is for the tracer alone; what a run showed is told as `trace`."""
_RENAMED = {(RuleDescription, "fixable"): "fix", (RuleDescription, "documentation"): "page"}
_ENDS = {"start": "location", "end": "end_location"}
_POSITION: Schema = {
    "description": "A place in the decoded text; columns count code points.",
    "type": "object",
    "properties": {"row": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
    "required": ["row", "column"],
    "additionalProperties": False,
}
_TRACE: Schema = {
    "description": "What a run showed, null without `--trace`.",
    "type": ["object", "null"],
    "properties": {"verdict": {"enum": [verdict.value for verdict in Verdict]}, "text": {"type": "string"}},
    "required": ["verdict", "text"],
    "additionalProperties": False,
}


def findings_schema() -> Schema:
    """What `--output-format json` writes; each line of `json-lines` is a `Finding` of it."""
    definitions: dict[str, Schema] = {"Position": _POSITION}
    finding = _described(Finding, definitions)
    finding["properties"] |= {
        "url": {"description": "The page of the rule.", "type": ["string", "null"]},
        "fingerprint": {"description": "The same while lines move.", "type": "string", "pattern": "^[0-9a-f]{32}$"},
        "trace": _TRACE,
    }
    definitions["Finding"] = finding
    definitions["Note"]["properties"]["filename"] = {
        "description": "Null where it is the finding's own file.",
        "type": ["string", "null"],
    }
    guessed = definitions["Guessed"]["properties"]
    definitions["Guessed"]["properties"] = {
        **{name: guessed[name] for name in ("name", "meaning")},
        "message": {"type": "string"},
        "url": {"type": "string"},
    }
    for each in definitions.values():
        each["required"] = list(each["properties"])
    return {
        "$schema": DRAFT,
        "title": "Findings, as amplint writes them",
        "type": "array",
        "items": {"$ref": "#/$defs/Finding"},
        "$defs": dict(sorted(definitions.items())),
    }


def rules_schema() -> Schema:
    """What `amplint rule --all --output-format json` writes; for one rule it is an item of it."""
    rule = _described(RuleDescription, {})
    rule["required"] = list(rule["properties"])
    return {
        "$schema": DRAFT,
        "title": "Rules, as amplint writes them",
        "type": "array",
        "items": {"$ref": "#/$defs/Rule"},
        "$defs": {"Rule": rule},
    }


def _described(kind: type, definitions: dict[str, Schema]) -> Schema:
    """An object with the fields of the dataclass `kind`."""
    hints = get_type_hints(kind)
    properties: dict[str, Schema] = {}
    for each in fields(kind):
        hint = hints[each.name]
        if _LEFT_OUT.intersection([hint, *get_args(hint)]) or (kind, each.name) == (Finding, "shown"):
            continue
        if hint is Span:
            properties |= _span(definitions)
        else:
            properties[_RENAMED.get((kind, each.name), each.name)] = _type(hint, definitions)
    return {
        "description": inspect.getdoc(kind),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _span(definitions: dict[str, Schema]) -> dict[str, Schema]:
    """What a span is told as, beside what has it."""
    hints = get_type_hints(Span)
    others = {name: _type(hint, definitions) for name, hint in hints.items() if name not in _ENDS}
    return {**others, **{name: {"$ref": "#/$defs/Position"} for name in _ENDS.values()}}


def _type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if hint is Severity:
        return {"enum": [level.label for level in Severity]}
    if issubclass(hint, enum.Enum):
        return {"enum": [word.value for word in hint]}
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = _described(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}
