"""Dead loop items: optimizers bound by a loop and referenced no more, merged if their state is equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from amplint.semantics.memory.gradients import gradients_key
from amplint.semantics.memory.progress import ANY_OPTIMIZER, Progress
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State, rounds_since
from amplint.semantics.values.values import Function, Items, Method, Partial, Tensor, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import children, target_names, walk

DEAD = "dead"
KEPT = 2
"""How many items of equal state are kept: one is distinguished from several, several are not from many."""


def join(machine: Machine, state: State) -> None:
    """Replace unreachable loop items with equal state by a few representatives.

    Otherwise each iteration would leave its own, and paths with different numbers of iterations could not join.
    """
    items = {key for key in state[Progress].gradients if key != ANY_OPTIMIZER and machine.symbols.key(key)[0] == "item"}
    fresh = [machine.symbols.time(key) for key in items if machine.symbols.key(key)[2] != DEAD]
    if not fresh:
        return
    items -= _held(machine, state, min(fresh))
    stages: dict[int, list[tuple[object, ...]]] = {}
    for (scaler, optimizer), stage in state[Progress].pairs.items():
        if optimizer in items:
            stood = (scaler, stage.state, stage.unchecked, rounds_since(stage.iteration, state.iteration))
            stages.setdefault(optimizer, []).append(stood)
    alike: Counter[tuple[object, ...]] = Counter()
    names: dict[int, int | None] = {}
    for symbol in [key for key in state[Progress].gradients if key in items]:
        loop = machine.symbols.key(symbol)[1]
        fate = (loop, gradients_key(state[Progress].gradients[symbol]), frozenset(stages.get(symbol, ())))
        alike[fate] += 1
        kept = alike[fate] <= KEPT
        names[symbol] = machine.symbols.intern("item", loop, DEAD, fate, alike[fate]) if kept else None
    state.change(Progress).gradients = {
        name: known for key, known in state[Progress].gradients.items() if (name := names.get(key, key)) is not None
    }
    state.change(Progress).pairs = {
        (scaler, name): stage
        for (scaler, key), stage in state[Progress].pairs.items()
        if (name := names.get(key, key)) is not None
    }


def ended(machine: Machine, states: Iterable[State], loop: cst.For | cst.While) -> None:
    """A loop ended: the items of its last iteration are dead if no later code can name them."""
    around = machine.calls[-1] if machine.calls else machine.chunk.module if machine.chunk else None
    if isinstance(loop, cst.For) and around is not None:
        for state in states:
            if any(_iterates_over(machine, key, loop) for key in state[Progress].gradients):
                _forget(state, _loop_only_variables(loop, around))
                join(machine, state)


def _iterates_over(machine: Machine, symbol: int, loop: cst.For) -> bool:
    return symbol != ANY_OPTIMIZER and machine.symbols.key(symbol)[:2] == ("item", id(loop))


def _forget(state: State, names: Set[str]) -> None:
    table = state.frames.get(state.frame, {})
    state.frames[state.frame] = {name: value for name, value in table.items() if name not in names}


@cached_per_file
def _loop_only_variables(loop: cst.For, around: cst.CSTNode) -> frozenset[str]:
    """The variables that only `loop`, and others that bind them, mention in the code `around` it."""
    inner = walk(loop.body)
    if any(isinstance(node, (cst.FunctionDef, cst.Lambda)) for node in inner):
        return frozenset()
    return frozenset(name for name in target_names(loop.target) if not _mentions(around, name))


def _mentions(node: cst.CSTNode, name: str) -> bool:
    """Whether `name` occurs outside of loops and comprehensions that bind it."""
    if isinstance(node, cst.Name):
        return node.value == name
    if isinstance(node, cst.Attribute):
        return _mentions(node.value, name)
    if isinstance(node, cst.For) and name in target_names(node.target):
        return _mentions(node.iter, name) or (node.orelse is not None and _mentions(node.orelse, name))
    if isinstance(node, cst.BaseComp) and name in target_names(node.for_in.target):
        return _mentions(node.for_in.iter, name)
    return any(_mentions(child, name) for child in children(node))


def _held(machine: Machine, state: State, since: int) -> set[int]:
    """The symbols created `since` then that variables and attributes hold, with everything they were made from."""
    todo: list[int] = []
    for table in (*state.frames.values(), *state.heap.values()):
        for value in table.values():
            todo += _symbols(value)
    found: set[int] = set()
    while todo:
        symbol = todo.pop()
        if symbol >= 0 and symbol not in found and machine.symbols.time(symbol) >= since:
            found.add(symbol)
            todo += machine.symbols.parts(symbol)
    return found


def _symbols(value: Value) -> Iterator[int]:
    if isinstance(value, Items):
        for part in (*value.values, *(value.keys or ())):
            yield from _symbols(part)
    elif isinstance(value, Method):
        yield from _symbols(value.owner)
    elif isinstance(value, Partial):
        for part in (value.callee, *(given[1] for given in value.given)):
            yield from _symbols(part)
    elif isinstance(value, Tensor):
        yield from (value.symbol, *([] if value.scaled is None else [value.scaled.symbol]))
    elif not isinstance(value, Function) and isinstance(symbol := getattr(value, "symbol", None), int):
        yield symbol


class DeadItems(Tracker):
    """Merges the protocol's state of unreachable optimizers."""

    def iteration_path_ends(self, state: State) -> None:
        """An iteration's items may be dead."""
        join(self.machine, state)

    def function_ends(self, state: State) -> None:
        """A function's items may be dead."""
        join(self.machine, state)

    def next_iteration(self, state: State, loop: cst.For | cst.While) -> None:
        """The next iteration rebinds its items."""
        if isinstance(loop, cst.For):
            _forget(state, frozenset(target_names(loop.target)))
        join(self.machine, state)

    def loop_ends(self, state: State, loop: cst.For | cst.While) -> None:
        """A loop's items may be dead."""
        ended(self.machine, [state], loop)
