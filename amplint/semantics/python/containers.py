"""Elements of lists of layers: models are loops over `ModuleList`s and `Sequential`s of equal parts."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.values.state import State
from amplint.semantics.values.values import Instance, Items, Module, Tensor, Unknown, Value

_EACH = "<each>"


def hold(state: State, container: Value, element: Value) -> None:
    """Record that the elements of `container` are like `element`, if that is a model or a tuple with one."""
    if isinstance(container, (Unknown, Module)) and isinstance(element, (Instance, Module, Items)):
        state.set_attribute(container.symbol, _EACH, element)


def each(state: State, container: Value) -> Value | None:
    """The representative element of `container`, None if unknown."""
    if isinstance(container, (Unknown, Module)):
        held = state.heap.get(container.symbol, {}).get(_EACH)
        if held is not None or isinstance(container, Unknown):
            return held
    if isinstance(container, Tensor):
        return container if container.scaled is not None else None
    if isinstance(container, Module):
        return _alike(container.parts)
    return _alike(container.values) if isinstance(container, Items) and container.keys is None else None


def members(state: State, values: Sequence[Value]) -> tuple[Value, ...]:
    """The parts of a model constructed from `values`, each a part or a list of parts."""
    found: list[Value] = []
    for value in values:
        if isinstance(value, Items):
            found += value.values
        elif isinstance(value, Unknown):
            one = each(state, value)
            found += [one] if one is not None else [value]
        else:
            found.append(value)
    return tuple(found)


def _alike(values: Sequence[Value]) -> Value | None:
    if values and all(isinstance(value, Tensor) and value.scaled is not None for value in values):
        return values[0] if len({value.scaled for value in values if isinstance(value, Tensor)}) == 1 else None
    kinds = {value.cls if isinstance(value, (Instance, Module)) else None for value in values}
    return values[0] if len(kinds) == 1 and None not in kinds else None
