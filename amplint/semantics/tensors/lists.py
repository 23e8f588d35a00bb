"""Python lists of unknown elements, which index a tensor as another tensor does."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.values import Items

_MADE = frozenset({"builtins.list", "builtins.sorted", "builtins.range"})


def is_list(machine: Machine, symbol: int) -> bool:
    """Whether this is a list, by a comprehension, a call of `list` or `sorted`, or as a sum with a list in it."""
    todo, seen = [symbol], {symbol}
    while todo:
        key = machine.symbols.key(current := todo.pop())
        if key[0] == "comprehension" or (key[0] == "call" and key[1] in _MADE):
            return True
        if key[0] == "value" and isinstance(key[1], Items):
            return key[1].keys is None
        if key[0] == "Add":
            todo += [part for part in machine.symbols.parts(current) if part not in seen]
            seen.update(todo)
    return False
