"""Losses that are 0 by their form, which start the autograd engine or reach unused parameters."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.values import Const, Value

_SUMS = frozenset({"Add", "Subtract", "sum", "mean"})


def is_zero(machine: Machine, loss: Value) -> bool:
    """Whether `loss` is computed from products with a literal 0 by sums and means alone."""
    symbols = machine.symbols

    def below(symbol: int) -> tuple[int, ...]:
        return symbols.parts(symbol) if symbols.key(symbol)[0] in _SUMS else ()

    def is_literal(symbol: int) -> bool:
        key = symbols.key(symbol)
        return key[0] == "value" and isinstance(key[1], Const) and key[1].value == 0

    def is_product(symbol: int) -> bool:
        return symbols.key(symbol)[0] == "Multiply" and any(map(is_literal, symbols.parts(symbol)))

    inside = symbols.closure(symbol_of(machine, loss), below)
    return all(bool(below(symbol)) or is_product(symbol) or is_literal(symbol) for symbol in inside)
