"""Elements of containers: loops over equal layers as one model, and unrolled loops."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial

from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.choices import alternatives
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    NONE,
    Const,
    Function,
    Instance,
    Items,
    Method,
    Module,
    Tensor,
    Unknown,
    Value,
    settings,
)

MOST_UNROLLED = 4
"""Maximum length of a list over which a loop is unrolled."""
_EACH = "<each>"
_BOTH = 2
_PERHAPS = "perhaps"


def record_element(state: State, container: Value, element: Value) -> None:
    """Record that the elements of `container` are like `element`, if that is a model or a tuple with one."""
    if isinstance(container, (Unknown, Module)) and isinstance(element, (Instance, Module, Items)):
        state.set_attribute(container.symbol, _EACH, element)


def record_each(state: State, container: int, element: Value) -> None:
    """Record that all elements of the container with this symbol are like `element`."""
    state.set_attribute(container, _EACH, element)


def comprehended(machine: Machine, state: State, sources: Sequence[int], element: Value) -> Value:
    """The result of a comprehension over `sources` whose elements are like `element`."""
    for comprehension_value in machine.hooks.comprehension_value:
        whole: Value | None = comprehension_value(element)
        if whole is not None:
            return whole
    made = machine.unknown("comprehension", parts=(*sources, symbol_of(machine, element)))
    record_element(state, made, element)
    return made


def each(state: State, container: Value) -> Value | None:
    """The representative element of `container`, None if unknown."""
    if isinstance(container, (Unknown, Module)):
        held = state.heap.get(container.symbol, {}).get(_EACH)
        if held is not None:
            return held
    return container.each if isinstance(container, (Tensor, Module, Items)) else None


def view(machine: Machine, state: State, owner: Items, name: str) -> Items | None:
    """What `values()` or `items()` of a dictionary goes over, as far as it is known."""
    if owner.keys is None or not owner.values or name not in ("values", "items"):
        return None
    put = {key: value for key, value in state.heap.get(symbol_of(machine, owner), {}).items() if key.startswith("[")}
    values = tuple(
        put.pop(f"[{key.value!r}]", value) if isinstance(key, Const) else value
        for key, value in zip(owner.keys, owner.values, strict=True)
    )
    if name == "values":
        return Items((*values, *put.values()))
    return None if put else Items(tuple(map(Items, zip(owner.keys, values, strict=True))))


def get_result(machine: Machine, state: State, owner: Items, arguments: Arguments) -> Value | None:
    """The result of `get` on a dictionary, None if it is unknown."""
    if owner.keys is None or not arguments.given:
        return None
    key, default = arguments.values[0], arguments.value("default", 1) or NONE
    stored = state.heap.get(symbol_of(machine, owner), {})
    if not stored.keys().isdisjoint(_stored_names(owner, key)):
        return None
    if isinstance(key, Const):
        return owner.values[owner.keys.index(key)] if key in owner.keys else None if stored else default
    values = owner.values if default == NONE else (*owner.values, default)
    position = machine.supposed(values)
    return values[position] if position is not None else alternatives(values)


def item_at(machine: Machine, state: State, owner: Value, key: Value) -> Value | None:
    """What was set at `key` of `owner`, None if nothing is known to be."""
    if not isinstance(key, Const):
        return None
    return state.heap.get(symbol_of(machine, owner), {}).get(f"[{key.value!r}]")


def stored(state: State, owner: Items, symbol: int) -> Items:
    """A dictionary with the values that were set at its keys since it was made, by any of its names."""
    put = state.heap.get(symbol)
    if put is None:
        return owner
    pairs = zip(owner.keys or (), owner.values, strict=True)
    return Items(
        tuple(put.get(f"[{key.value!r}]", value) if isinstance(key, Const) else value for key, value in pairs),
        owner.keys,
    )


def passed(machine: Machine, state: State, value: Value) -> Value:
    """A dictionary of arguments with the values that were set in it, on either path for a join of dictionaries."""
    if isinstance(value, Items):
        return stored(state, value, symbol_of(machine, value)) if value.keys is not None else value
    kind, *sides = machine.symbols.key(value.symbol) if isinstance(value, Unknown) else ("",)
    joined = [side for side in sides if isinstance(side, (Items, Unknown))] if kind == "either" else []
    known = [side for one in joined if isinstance(side := passed(machine, state, one), Items)]
    if len(known) != _BOTH or any(side.keys is None for side in known):
        return value
    one, other = known
    pairs, theirs = (dict(zip(each.keys or (), each.values, strict=True)) for each in (one, other))
    for key, given in theirs.items():
        before = pairs.get(key)
        if before != given:
            pairs[key] = machine.joined_value(before, given) if before is not None else _perhaps(machine, given)
    values = (given if key in theirs else _perhaps(machine, given) for key, given in pairs.items())
    return Items(tuple(values), tuple(pairs))


def _perhaps(machine: Machine, value: Value) -> Value:
    return machine.unknown(_PERHAPS, parts=(symbol_of(machine, value),))


def is_perhaps(machine: Machine, value: Value) -> bool:
    """Whether a dictionary has this value on one of two paths alone."""
    return isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == _PERHAPS


def modified(machine: Machine, owner: Items, name: str, arguments: Arguments) -> tuple[Items, Value] | None:
    """A dictionary after a call of its method `name`, and the result; None if it is unknown or the same."""
    values, keys = arguments.values, owner.keys or ()
    if name == "update":
        given = [Items((a.value,), (Const(a.keyword),)) if a.keyword else a.value for a in arguments.given]
        changed = functools.reduce(partial(_updated, machine), given, owner)
        return (changed, NONE) if changed != owner else None
    key = values[0] if values else None
    if not isinstance(key, Const):
        return None
    if name == "setdefault" and key not in keys and len(values) > 1:
        return owner.with_item(key, values[1]), values[1]
    if name == "pop" and key in keys:
        return owner.without(key), owner.values[keys.index(key)]
    return None


def _updated(machine: Machine, owner: Items, given: Value) -> Items:
    """A dictionary of settings with the items of another; an unseen one may hold each of its keys."""
    known = settings(given)
    if known is not None:
        return owner.merged(known)
    keys = owner.keys or ()
    symbol = symbol_of(machine, given)
    theirs = [machine.unknown("index", parts=(symbol, symbol_of(machine, key))) for key in keys]
    return Items(tuple(map(machine.joined_value, owner.values, theirs)), keys)


def _stored_names(owner: Items, key: Value) -> list[str]:
    """The attribute names that hold the values stored at `key` of a dictionary, or at any of its keys."""
    keys = [key] if isinstance(key, Const) else owner.keys or ()
    return [f"[{one.value!r}]" for one in keys if isinstance(one, Const)]


def zip_rows(machine: Machine, name: str, values: Sequence[Value]) -> Items | None:
    """The rows of `enumerate` or `zip` over known values, if a loop over them is unrolled."""
    if not all(isinstance(value, Items) and value.keys is None for value in values):
        return None
    columns = [value.values for value in values if isinstance(value, Items)]
    if name == "builtins.enumerate":
        columns = [tuple(map(Const, range(len(columns[0])))), *columns[:1]]
    if len({len(column) for column in columns}) != 1:
        return None
    rows = Items(tuple(map(Items, zip(*columns, strict=True))))
    return rows if unrolled_elements(machine, rows) else None


def unrolled_elements(machine: Machine, iterable: Value) -> tuple[Value, ...]:
    """The elements of `iterable` if a loop over them is unrolled.

    They are few, and one has a value that a tracker unrolls, or they are instances of different classes, or functions
    of which one is relevant.
    """
    if not isinstance(iterable, Items) or iterable.keys is not None or len(iterable.values) > MOST_UNROLLED:
        return ()
    classes = {value.cls for value in iterable.values if isinstance(value, Instance)}
    if len(classes) > 1 and all(isinstance(value, Instance) for value in iterable.values):
        return iterable.values
    functions = [value.function if isinstance(value, Method) else value for value in iterable.values]
    if all(isinstance(one, Function) for one in functions) and any(_is_relevant(machine, one) for one in functions):
        return iterable.values
    rows = [value.values if isinstance(value, Items) else (value,) for value in iterable.values]
    unrolls = machine.hooks.unrolls
    known = any(is_one(value) for row in rows for value in row for is_one in unrolls)
    return iterable.values if known else ()


def _is_relevant(machine: Machine, function: Value | None) -> bool:
    return isinstance(function, Function) and machine.slice.is_relevant_function(node_of(function))
