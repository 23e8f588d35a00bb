"""The effect of an exception: its block ran up to an unknown statement."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.facts import compatible
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Unknown, Value


def interrupted(machine: Machine, entry: Sequence[State], ways_out: Sequence[State]) -> list[State]:
    """The initial states of a handler for a block that begins in `entry` and is left in the states `ways_out`.

    Everything that the block changes on any of these paths is unknown.
    """
    before = {state.progress() for state in entry}
    advances = any(state.progress() not in before for state in ways_out)
    paths = []
    for state in entry:
        path = state.copy()
        if advances:
            machine.forget(path)
        ends = [end for end in ways_out if compatible(state.facts, end.facts)]
        path.frames = _joined_parts(machine, state.frames, [end.frames for end in ends])
        path.heap = _joined_parts(machine, state.heap, [end.heap for end in ends])
        paths.append(path)
    return paths


Tables = dict[int, dict[str, Value]]


def _joined_parts(machine: Machine, tables: Tables, changed: Sequence[Tables]) -> Tables:
    """`tables` with each value that differs in some of `changed` replaced by the join."""
    blurred = dict(tables)
    for key, ours in tables.items():
        others = {id(theirs): theirs for end in changed if (theirs := end.get(key, ours)) is not ours}
        for theirs in others.values():
            blurred[key] = {
                name: value if (other := theirs.get(name, value)) is value else _perhaps(machine, value, other)
                for name, value in blurred[key].items()
            }
    return blurred


def _perhaps(machine: Machine, value: Value, other: Value) -> Value:
    if value == other:
        return value
    flags = isinstance(value, Const) or isinstance(other, Const)
    return Unknown(machine.fresh()) if flags else machine.joined_value(value, other)
