"""Garbage collection of objects created by a call and unreachable after it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from amplint.records import fields
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Symbols
from amplint.semantics.values.values import Class, Const, Function, Value

_HOLDING = frozenset({"symbol", "owner", "plain"})
"""The fields of values that hold symbols."""


def collect(symbols: Symbols, before: State, end: State, result: Value, began: int) -> None:
    """Drop the attributes of objects created since `began` that are not reachable from `result` or older values.

    Otherwise paths that created different temporary objects would not join, and each object would be copied and
    compared with the rest of the state from there on.
    """
    young = {symbol for symbol in end.heap if symbol >= 0 and symbols.time(symbol) >= began}
    if young:
        for symbol in young - _reached(symbols, end, _roots(before, end, result, young), began, young):
            del end.heap[symbol]


def _roots(before: State, end: State, result: Value, young: set[int]) -> Iterator[int]:
    """The symbols from which a path can reach objects of the call."""
    yield from _symbols_in(result)
    for part in end.parts.values():
        yield from part.symbols()
    for region in end.regions:
        yield from _symbols_in(region.context)
    for tables, older in ((end.frames, before.frames), (end.heap, before.heap)):
        for key, table in tables.items():
            if older.get(key) is not table and key not in young:
                for value in table.values():
                    yield from _symbols_in(value)


def _reached(symbols: Symbols, end: State, roots: Iterable[int], began: int, young: set[int]) -> set[int]:
    """The objects created since `began` that are reachable, directly or as parts."""
    made_of: dict[int, list[int]] = {}
    for one in young:
        for part in symbols.parts(one):
            made_of.setdefault(part, []).append(one)
    reached: set[int] = set()
    todo = [*roots]
    while todo:
        symbol = todo.pop()
        if symbol >= 0 and symbol not in reached and symbols.time(symbol) >= began:
            reached.add(symbol)
            todo += symbols.parts(symbol)
            todo += made_of.get(symbol, ())
            todo += [inner for value in end.heap.get(symbol, {}).values() for inner in _symbols_in(value)]
    return reached


def _symbols_in(value: object) -> list[int]:
    """The symbols in a value."""
    found: list[int] = []
    todo = [value]
    while todo:
        one = todo.pop()
        if type(one) is tuple:
            todo += one
            continue
        for name in _names(type(one)):  # type: ignore[arg-type]
            inner = getattr(one, name)
            if type(inner) is not int:
                todo.append(inner)
            elif name in _HOLDING:
                found.append(inner)
    return found


@functools.cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a class of values that can contain symbols."""
    if kind.__module__ != Const.__module__ or kind in (Const, Function, Class):
        return ()
    return tuple(field.name for field in fields(kind))
