"""`x.data = y`: a tensor gets another content, and with it another dtype, under all its names."""

from __future__ import annotations

from dataclasses import replace

from amplint.semantics.machine import Machine
from amplint.semantics.state import State
from amplint.semantics.values import Items, Tensor, Value

_PERHAPS_ITSELF = ("cast", "to", "cpu", "cuda", "contiguous")
"""Operations that return the tensor they are given where there is nothing to do."""


def exchange(machine: Machine, state: State, owner: Tensor, content: Value) -> None:
    """The content of `owner` becomes `content`; which of the values that can be the same tensor is not known."""
    root = _root(machine, owner.symbol)
    for tables in (state.frames, state.heap):
        for key, table in list(tables.items()):
            changed = {name: _exchanged(machine, value, root, content) for name, value in table.items()}
            if changed != table:
                tables[key] = changed


def _root(machine: Machine, symbol: int) -> int:
    while machine.symbols.key(symbol)[0] in _PERHAPS_ITSELF and machine.symbols.parts(symbol):
        symbol = machine.symbols.parts(symbol)[0]
    return symbol


def _exchanged(machine: Machine, value: Value, root: int, content: Value) -> Value:
    if isinstance(value, Items):
        inside = tuple(_exchanged(machine, item, root, content) for item in value.values)
        return replace(value, values=inside) if inside != value.values else value
    if not isinstance(value, Tensor) or _root(machine, value.symbol) != root:
        return value
    either = value.joined(content if isinstance(content, Tensor) else Tensor(value.symbol), value.symbol)
    return replace(
        value,
        dtype=either.dtype,
        among=either.among,
        why_half=either.why_half,
        supposed=either.supposed,
        rank=either.rank,
    )
