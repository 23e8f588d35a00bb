"""`x.data = y`: a tensor gets another content, and with it another dtype, under all its names."""

from __future__ import annotations

from dataclasses import replace

from amplint.semantics.state import State
from amplint.semantics.values import Items, Tensor, Value


def exchange(state: State, owner: Tensor, content: Value) -> None:
    """The content of `owner` becomes `content`; which of the values that are the same tensor is not known."""
    for tables in (state.frames, state.heap):
        for key, table in list(tables.items()):
            changed = {name: _exchanged(value, owner.symbol, content) for name, value in table.items()}
            if changed != table:
                tables[key] = changed


def _exchanged(value: Value, symbol: int, content: Value) -> Value:
    if isinstance(value, Items):
        inside = tuple(_exchanged(item, symbol, content) for item in value.values)
        return replace(value, values=inside) if inside != value.values else value
    if not isinstance(value, Tensor) or value.symbol != symbol:
        return value
    either = value.joined(content if isinstance(content, Tensor) else Tensor(symbol), symbol)
    return replace(
        value,
        dtype=either.dtype,
        among=either.among,
        why_half=either.why_half,
        supposed=either.supposed,
        rank=either.rank,
    )
