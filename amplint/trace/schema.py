"""The JSON Schema of a trace, derived from its classes; input is validated by it."""

from __future__ import annotations

import functools
import inspect
import types
from collections import Counter
from dataclasses import fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from amplint.trace.data import NUMERICS, OBSERVATIONS, PHASES, SCHEMA, SERIES, Operation, RunData

Schema = dict[str, Any]

_PLAIN: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("Operation", "phase"): PHASES,
    ("NonFinite", "phase"): PHASES,
    ("HalfLoss", "phase"): PHASES,
    ("LineDrift", "phase"): ("forward", "backward"),
    ("LineDrift", "kind"): ("", "inf", "nan"),
    ("TensorDrift", "what"): ("output", "gradient"),
    ("RunData", "numerics"): NUMERICS,
    ("NonFinite", "kind"): ("inf", "nan"),
    ("Observation", "kind"): OBSERVATIONS,
    ("Histogram", "what"): ("activation", "weight", "gradient"),
    ("Series", "what"): SERIES,
    ("Float8", "phase"): PHASES,
    ("Float8", "operand"): ("left", "right"),
    ("Divergence", "kind"): ("dtype", "count", "backward", "nonfinite", "skipped"),
}
"""Class and field -> the words that it is one of."""
_LEAST = {
    "row": 0,
    "library_row": 0,
    "ranks": 1,
    "lines": 1,
    "every": 1,
    **dict.fromkeys(("steps", "taken", "skip", "backwards", "started"), 0),
}
"""Field -> the smallest number in it."""
_NUMBER_KEYS = {"pattern": "^-?[0-9]{1,6}$"}


@functools.cache
def schema() -> Schema:
    """The schema of `Record.to_json`, draft 2020-12."""
    definitions: dict[str, Schema] = {}
    record = _described(RunData, definitions)
    del record["properties"]["seconds"]  # part of the operations
    definitions["Operation"]["properties"]["seconds"] = {"type": ["number", "null"], "minimum": 0}
    record["properties"] = {"schema": {"const": SCHEMA}, **record["properties"]}
    for each in (record, *definitions.values()):
        each["required"] = list(each["properties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trace of a run, as amplint writes it",
        **record,
        "$defs": dict(sorted(definitions.items())),
    }


def _described(kind: type, definitions: dict[str, Schema]) -> Schema:
    """An object schema with the fields of the dataclass `kind`."""
    hints = get_type_hints(kind)
    properties = {}
    for each in fields(kind):
        words = _WORDS.get((kind.__name__, each.name))
        found = {"enum": list(words)} if words else _type(hints[each.name], definitions)
        least = {"minimum": _LEAST[each.name]} if each.name in _LEAST and hints[each.name] is int else {}
        properties[each.name] = {**found, **least}
    return {
        "description": inspect.getdoc(kind),
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _type(hint: Any, definitions: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if origin in (Union, types.UnionType):
        if any(argument not in _PLAIN for argument in arguments):
            return {"anyOf": [_type(argument, definitions) for argument in arguments]}
        return {"type": [_PLAIN[argument] for argument in arguments]}
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is Counter:
        items = _type(arguments[0], definitions)
        definitions[arguments[0].__name__]["properties"]["count"] = {"type": "integer", "minimum": 1}
        return {"type": "array", "items": items}
    if origin is tuple:
        pair = get_args(arguments[0]) if get_origin(arguments[0]) is tuple else ()
        return _mapping(*pair) if pair else {"type": "array", "items": _type(arguments[0], definitions)}
    if origin is dict:
        return {} if arguments[0] is Operation else _mapping(*arguments)
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = _described(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _mapping(key: type, value: type) -> Schema:
    names = {"propertyNames": _NUMBER_KEYS} if key is int else {}
    return {"type": "object", **names, "additionalProperties": {"type": _PLAIN[value]}}
