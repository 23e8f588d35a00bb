"""The devices to which functions move models."""

from __future__ import annotations

from collections.abc import Iterable

from amplint.semantics.models.origins import root
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.tensors.devices import moved_to
from amplint.semantics.tensors.tensors import CONVERSIONS
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Unknown, Value
from amplint.source import syntax as cst

_PLACE, _MOVER = "place of", "moved by"


class Placements(Tracker):
    """Tracks the device types to which functions move models, None for those that are not certain."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.moves: dict[int, dict[cst.CSTNode | None, set[str | None]]] = {}


def move(machine: Machine, state: State, owner: Value, name: str, arguments: Arguments) -> None:
    """Record the device to which `model.cuda()` or `model.to(device)` moves a model, None if that is not certain."""
    if name not in ("cuda", "cpu", "to"):
        return
    moved = None if _may_be_set_elsewhere(machine, state, arguments) else moved_to(name, arguments)
    function = machine.calls[-1] if machine.calls else None
    symbol = root(machine, symbol_of(machine, owner))
    while (method := machine.symbols.method(symbol)) is not None and method[0] in CONVERSIONS and method[1]:
        symbol = root(machine, method[1][0])
    machine[Placements].moves.setdefault(symbol, {}).setdefault(function, set()).add(moved)
    state.facts[_PLACE, symbol], state.facts[_MOVER, symbol] = Const(moved), Const(id(function))


def _may_be_set_elsewhere(machine: Machine, state: State, arguments: Arguments) -> bool:
    """Whether the device is an attribute of an unseen object, which may have it from elsewhere on another path."""
    given = arguments.get("device", 0)
    asked = given.node.value if given is not None else None
    return isinstance(asked, cst.Attribute) and isinstance(machine.evaluate(state, asked.value), Unknown)


def place(machine: Machine, state: State, model: Value) -> str | None:
    """The device type of a model; None if that is not certain.

    What a function that has ended moved counts only if no other function moves the model to another device.
    """
    symbol = root(machine, symbol_of(machine, model))
    known, mover = state.facts.get((_PLACE, symbol)), state.facts.get((_MOVER, symbol))
    if known is None or mover is None or known.value is None:
        return None
    moves = set[str | None]().union(*machine[Placements].moves.get(symbol, {}).values())
    running = any(mover.value == id(function) for function in (None, *machine.calls))
    return str(known.value) if running or moves == {known.value} else None


def forget_devices(machine: Machine, state: State, values: Iterable[Value] | None) -> None:
    """Forget the devices of these models, or of any, after they escaped to unseen code."""
    places = [key for key in state.facts if isinstance(key, tuple) and key[0] == _PLACE]
    if places:
        roots = None if values is None else {root(machine, symbol_of(machine, value)) for value in values}
        for key in places:
            if roots is None or key[1] in roots:
                del state.facts[key]
