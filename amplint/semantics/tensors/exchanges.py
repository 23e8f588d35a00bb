"""What tensors become under all their names: `x.data = y` gives one another content, `out=` other dimensions.

Which values can be the same tensor is not known. Those that come from the same ones can: an operation may return what
it is given, in place or where there is nothing to do, and a container what was put into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.tensors import used_as_tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Items, Method, Tensor, Unknown, Value
from amplint.source import syntax as cst

_FOUND = frozenset({"call", "comprehension", "converted", "each", "fresh", "index", "item", "part"})
"""How the symbols of unknown values begin that containers and unseen functions can return."""
_KEPT = ("parameters", "state of")
"""How those of what models keep begin."""
_FAR = 500
"""How many values are looked at in search of what one comes from."""


def exchange(machine: Machine, state: State, owner: Value, content: Value) -> None:
    """The content of `owner` becomes `content`, so that its dtype and rank do."""
    given = content if isinstance(content, Tensor) else None
    if not isinstance(owner, Tensor) and not _is_found(machine, owner):
        return

    def exchanged(value: Tensor) -> Tensor:
        return _either(value, given or Tensor(value.symbol))

    _change(machine, state, owner, exchanged)


def resize(machine: Machine, state: State, owner: Value | None, rank: int | None) -> None:
    """A result of `rank` dimensions is written into `owner`."""
    if isinstance(owner, Tensor) and owner.rank != rank:
        _change(machine, state, owner, lambda value: _either(value, replace(value, rank=rank)))


def meet(state: State, sides: tuple[State, ...]) -> None:
    """What tensors became on one of the `sides` of a choice, they can be after it."""
    for side in sides:
        for tables, others in ((state.frames, side.frames), (state.heap, side.heap)):
            for key, table in list(tables.items()):
                if (other := others.get(key)) is not None and other is not table:
                    tables[key] = {name: _met(value, other.get(name)) for name, value in table.items()}


def _is_found(machine: Machine, owner: Value) -> bool:
    """Whether `owner` may be a tensor that was put somewhere, and is no parameter."""
    if not isinstance(owner, Unknown) or machine.symbols.key(owner.symbol)[0] not in _FOUND:
        return False
    return not any(machine.symbols.involves(owner.symbol, kind) for kind in _KEPT)


def _change(machine: Machine, state: State, owner: Value, change: Callable[[Tensor], Tensor]) -> None:
    """Change all tensors that can be `owner`."""
    family = _family(machine, symbol_of(machine, owner))
    lost = not isinstance(owner, Tensor) and machine.symbols.key(symbol_of(machine, owner))[0] == "fresh"

    def changed(value: Value) -> Value:
        if isinstance(value, Items):
            inside = tuple(changed(item) for item in value.values)
            return replace(value, values=inside) if inside != value.values else value
        value = used_as_tensor(machine, value)
        if not isinstance(value, Tensor):
            return value
        return change(value) if lost or family & _family(machine, value.symbol) else value

    for tables in (state.frames, state.heap):
        for key, table in list(tables.items()):
            new = {name: changed(value) for name, value in table.items()}
            if new != table:
                tables[key] = new


def _family(machine: Machine, symbol: int) -> set[int]:
    """The symbols that `symbol` comes from and that come from no others."""
    todo, seen, found = [symbol], {symbol}, set[int]()
    while todo and len(seen) < _FAR:
        current = todo.pop()
        key = machine.symbols.key(current)
        parts = [*machine.symbols.parts(current), *(_inside(machine, key[1]) if key[0] == "value" else ())]
        if not parts and key[0] != "value":
            found.add(current)
        todo += [part for part in parts if part not in seen]
        seen.update(parts)
    return found


def _inside(machine: Machine, value: object) -> Iterator[int]:
    if isinstance(value, Items):
        for item in value.values:
            if not isinstance(item, Const):
                yield symbol_of(machine, item)
    elif isinstance(value, Method) and not isinstance(value.owner, Const):
        yield symbol_of(machine, value.owner)


def _either(value: Tensor, other: Tensor) -> Tensor:
    either = value.joined(other, value.symbol)
    return replace(
        value,
        dtype=either.dtype,
        among=either.among,
        why_half=either.why_half,
        supposed=either.supposed,
        rank=either.rank,
    )


def _met(value: Value, other: Value | None) -> Value:
    if isinstance(value, Tensor) and isinstance(other, Tensor) and value.symbol == other.symbol and value != other:
        return _either(value, other)
    return value


class Exchanges(Tracker):
    """Follows tensors whose storage is exchanged."""

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """`tensor.data = value`."""
        if target.attr.value == "data" and not target.value.deep_equals(cst.Name("self")):
            exchange(self.machine, state, owner, value)
        return None

    def chosen_apart(self, state: State, sides: tuple[State, State]) -> None:
        """One side of a conditional expression may have exchanged a tensor."""
        meet(state, sides)
