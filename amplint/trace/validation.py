"""Validation by JSON Schema, for the part of the language that the schema of traces uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]

_LARGEST = 2**63
"""No number of a trace is as large, and no integer that is divided or shown has more digits."""
_KINDS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST,
    "number": lambda value: isinstance(value, float) or _KINDS["integer"](value),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def problem(value: Any, schema: Schema, definitions: Mapping[str, Schema], place: str = "") -> str | None:
    """The place at which `value` violates `schema`, as a path like `operations[3].row`; None if it is valid."""
    if "$ref" in schema:
        return problem(value, definitions[schema["$ref"].rpartition("/")[2]], definitions, place)
    if "anyOf" in schema:
        ways = [problem(value, way, definitions, place) for way in schema["anyOf"]]
        return None if None in ways else max(map(str, ways), key=len)
    if not _is_right(value, schema):
        return place or "the whole"
    if isinstance(value, dict):
        return _in_object(value, schema, definitions, place)
    if isinstance(value, list) and "items" in schema:
        inner = (problem(item, schema["items"], definitions, f"{place}[{i}]") for i, item in enumerate(value))
        return next(filter(None, inner), None)
    return None


def _is_right(value: Any, schema: Schema) -> bool:
    """Whether `value` satisfies the type, the enumeration and the minimum."""
    kinds = schema.get("type", [])
    if kinds and not any(_KINDS[kind](value) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if "const" in schema and (type(value) is not type(schema["const"]) or value != schema["const"]):
        return False
    if "enum" in schema and not (isinstance(value, str) and value in schema["enum"]):
        return False
    return "minimum" not in schema or value is None or value >= schema["minimum"]


def _in_object(value: dict[str, Any], schema: Schema, definitions: Mapping[str, Schema], place: str) -> str | None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    more = schema.get("additionalProperties", {})
    missing = next((name for name in schema.get("required", ()) if name not in value), None)
    if missing is not None:
        return f"{place}.{missing}".lstrip(".")
    names = schema.get("propertyNames", {}).get("pattern")
    for name, inner in value.items():
        here = f"{place}.{name}".lstrip(".")
        if name not in known and (more is False or (names is not None and re.search(names, name) is None)):
            return here
        wrong = problem(inner, known.get(name, more), definitions, here)
        if wrong is not None:
            return wrong
    return None
