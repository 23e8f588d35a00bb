"""Defaults of settings: texts, and switches that are off, unless a caller, a command line or a file says otherwise."""

from __future__ import annotations

from amplint.semantics.python.attributes import members
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.options import options
from amplint.semantics.values.values import FALSE, Class, Const, OneOf, Unknown, Value
from amplint.source import syntax as cst


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
                option = options(machine.program.main).get(str(key[1]))
                default = _of_field(machine, parts[0], str(key[1])) or (option.default if option is not None else None)
                found.update(() if default is None else (default,))
    return frozenset(found)


def is_off_by_default(machine: Machine, value: Unknown) -> bool:
    """Whether a switch is off unless a caller or a command line turns it on, or on some path of the script."""
    key, parts = machine.symbols.key(value.symbol), machine.symbols.parts(value.symbol)
    if key[0] == "either":
        return FALSE in key[1:]
    if machine.defaults.get(value.symbol) == FALSE:
        return True
    option = options(machine.program.main).get(str(key[1])) if key[0] == "attribute" and parts else None
    return option is not None and option.turns_on


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
