"""Python lists that index tensors, and choices between Python numbers."""

from __future__ import annotations

from amplint.regex import regex
from amplint.semantics.python.machine import Machine
from amplint.semantics.values.values import Items, Unknown
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk

CHOOSES_NUMBERS = regex(r"where\([^\n]{0,200},\s{0,40}-?[\d.]+,\s{0,40}-?[\d.]+\)")
"""A choice between two numbers."""
_LIST = regex(r"\b(\w+) = (?:list|sorted)\(")
_MAKERS = frozenset({"list", "sorted"})
_MADE = frozenset({"builtins.list", "builtins.sorted", "builtins.range"})


@cached_per_chunk
def stores_by_list(chunk: Chunk) -> bool:
    """Whether `chunk` makes a list and assigns elements by it."""
    makes = not chunk.words.isdisjoint(_MAKERS)
    return makes and any(f"[{name}] = " in chunk.text for name in _LIST.findall(chunk.text))


def holds_slice(machine: Machine, value: Items) -> bool:
    """Whether a slice is among the elements: then they are several indices, and not a list of places."""
    symbols = (one.symbol for one in value.values if isinstance(one, Unknown))
    return any(machine.symbols.key(symbol)[:2] == ("call", "builtins.slice") for symbol in symbols)


def is_list(machine: Machine, symbol: int) -> bool:
    """Whether this is a list, on one path at least: a comprehension, a call of `list` or `sorted`, a sum with one."""
    todo, seen = [symbol], {symbol}
    while todo:
        key = machine.symbols.key(current := todo.pop())
        if key[0] == "comprehension" or (key[0] == "call" and key[1] in _MADE):
            return True
        if key[0] == "value" and isinstance(key[1], Items):
            return key[1].keys is None and not holds_slice(machine, key[1])
        if key[0] in ("Add", "either"):
            todo += [part for part in machine.symbols.parts(current) if part not in seen]
            seen.update(todo)
    return False
