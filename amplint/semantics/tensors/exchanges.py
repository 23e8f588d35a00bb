"""Updates of a tensor under all its aliases: `x.data = y` exchanges its storage, `out=` its shape.

Which values alias is not known exactly. Values with a common origin may: an operation may return its operand, in place
or where there is nothing to do, and a container its elements.
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
"""The kinds of symbols of unknown values that containers and unseen functions can return."""
_UNSEEN = frozenset({"fresh", "display"})
"""The kinds of symbols of values about whose origin nothing is known, and of lists that were empty once."""
_KEPT = ("parameters", "state of")
"""The kinds of symbols of values that models hold."""
_FAR = 500
"""The limit of symbols visited in the search for an origin."""


def exchange(machine: Machine, state: State, owner: Value, content: Value) -> None:
    """Give `owner` and its aliases the dtype and rank of `content`."""
    given = content if isinstance(content, Tensor) else None
    if not isinstance(owner, Tensor) and not _is_found(machine, owner):
        return

    def exchanged(value: Tensor) -> Tensor:
        return _either(value, given or Tensor(value.symbol))

    _change(machine, state, owner, exchanged)


def resize(machine: Machine, state: State, owner: Value | None, rank: int | None) -> None:
    """Give `owner`, the target of `out=`, the rank of the result."""
    if isinstance(owner, Tensor) and owner.rank != rank:
        _change(machine, state, owner, lambda value: _either(value, replace(value, rank=rank)))


def meet(state: State, sides: tuple[State, ...]) -> None:
    """Join what tensors became on one of the `sides` of a choice into `state`."""
    for side in sides:
        for tables, others in ((state.frames, side.frames), (state.heap, side.heap)):
            for key, table in list(tables.items()):
                if (other := others.get(key)) is not None and other is not table:
                    exchanged = {
                        name: _either(value, beside)
                        for name, value in table.items()
                        if isinstance(value, Tensor)
                        and isinstance(beside := other.get(name), Tensor)
                        and value.symbol == beside.symbol
                        and value != beside
                    }
                    if exchanged:
                        tables[key] = {**table, **exchanged}


def _is_found(machine: Machine, owner: Value) -> bool:
    """Whether `owner` may be a tensor read from a container or an unseen call, and no parameter of a model."""
    if not isinstance(owner, Unknown) or machine.symbols.key(owner.symbol)[0] not in _FOUND:
        return False
    return not any(machine.symbols.involves(owner.symbol, kind) for kind in _KEPT)


def _change(machine: Machine, state: State, owner: Value, change: Callable[[Tensor], Tensor]) -> None:
    """Apply `change` to all tensors that may alias `owner`."""
    family = _leaf_symbols(machine, symbol_of(machine, owner))
    kinds = {machine.symbols.key(one)[0] for one in (symbol_of(machine, owner), *family)}
    lost = not isinstance(owner, Tensor) and not _UNSEEN.isdisjoint(kinds)

    def changed(value: Value) -> Value:
        if isinstance(value, Items):
            inside = tuple(changed(item) for item in value.values)
            return replace(value, values=inside) if inside != value.values else value
        value = used_as_tensor(machine, value)
        if not isinstance(value, Tensor):
            return value
        return change(value) if lost or family & _leaf_symbols(machine, value.symbol) else value

    for tables in (state.frames, state.heap):
        for key, table in list(tables.items()):
            new = {name: changed(value) for name, value in table.items()}
            if new != table:
                tables[key] = new


def _leaf_symbols(machine: Machine, symbol: int) -> set[int]:
    """The symbols at the origin of `symbol`: those it is computed from that have no operands themselves."""
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


class Exchanges(Tracker):
    """Tracks tensors whose storage is exchanged."""

    def attribute_set(self, state: State, target: cst.Attribute, owner: Value, value: Value) -> Value | None:
        """Handle `tensor.data = value`."""
        if target.attr.value == "data" and not target.value.deep_equals(cst.Name("self")):
            exchange(self.machine, state, owner, value)
        return None

    def conditional_evaluated(self, state: State, sides: tuple[State, State]) -> None:
        """Join exchanges on one side of a conditional expression."""
        meet(state, sides)
