"""Defaults of settings: texts, and switches that are off, unless a caller, a command line or a file says otherwise."""

from __future__ import annotations

import re

from amplint.semantics.python.attributes import members
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.values import FALSE, Class, Const, OneOf, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source


def texts(machine: Machine, value: Value | None) -> frozenset[str]:
    """The texts among which the script chooses `value`, with the default of a setting that is among them."""
    todo, seen, found = [value], set[int](), set[str]()
    while todo:
        one = todo.pop()
        if isinstance(one, Const) and isinstance(one.value, str):
            found.add(one.value)
        elif isinstance(one, OneOf):
            found |= one.options
        elif isinstance(one, Unknown) and one.symbol not in seen:
            seen.add(one.symbol)
            key, parts = machine.symbols.key(one.symbol), machine.symbols.parts(one.symbol)
            if key[0] == "either":
                todo += [
                    *(other for other in key[1:] if isinstance(other, (Const, OneOf, Unknown))),
                    *map(Unknown, parts),
                ]
            else:
                todo.append(machine.defaults.get(one.symbol))
            if key[0] == "attribute" and parts:
                default = _of_field(machine, parts[0], str(key[1])) or _of_option(machine.program.main, str(key[1]))
                found.update(() if default is None else (default,))
    return frozenset(found)


def is_off_by_default(machine: Machine, value: Unknown) -> bool:
    """Whether a switch is off unless a caller or a command line turns it on, or on some path of the script."""
    key, parts = machine.symbols.key(value.symbol), machine.symbols.parts(value.symbol)
    if key[0] == "either":
        return FALSE in key[1:]
    if machine.defaults.get(value.symbol) == FALSE:
        return True
    return key[0] == "attribute" and bool(parts) and _is_stored_true(machine.program.main, str(key[1]))


@cached_per_file
def _is_stored_true(source: Source, name: str) -> bool:
    """Whether an option of a command line is a switch that turns on."""
    spelled = re.escape(name).replace("_", "[-_]")
    return re.search(rf"--{spelled}[\"'][^()]*?\bstore_true\b", source.text) is not None


def _of_field(machine: Machine, owner: int, name: str) -> str | None:
    """The text that a field of the class of `owner` has where nothing sets it."""
    key = machine.symbols.key(owner)
    cls = machine.classes.get(owner) or (key[1] if key[0] == "parsed" else None)
    given = members(cls).get(name) if isinstance(cls, Class) else None
    if isinstance(given, cst.Call):
        named = {argument.keyword.value: argument.value for argument in given.args if argument.keyword is not None}
        given = named.get("default")
    value = given.evaluated_value if isinstance(given, cst.SimpleString) else None
    return value if isinstance(value, str) else None


@cached_per_file
def _of_option(source: Source, name: str) -> str | None:
    """The text that an option of a command line has where it is not given."""
    spelled = re.escape(name).replace("_", "[-_]")
    found = re.search(rf"--{spelled}[\"'][^()]*?\bdefault\s*=\s*[\"']([^\"']+)[\"']", source.text)
    return found.group(1) if found is not None else None
