"""What an exception leaves behind: the block it came out of has run to somewhere, nobody knows how far."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.python.machine import Machine
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Unknown, Value


def interrupted(machine: Machine, entry: Sequence[State], ways_out: Sequence[State]) -> list[State]:
    """The states a handler can begin in, for a block that begins in `entry` and that `ways_out` leave otherwise.

    What the block changes on any of these is unknown.
    """
    before = {state.progress() for state in entry}
    advances = any(state.progress() not in before for state in ways_out)
    paths = []
    for state in entry:
        path = state.copy()
        if advances:
            machine.forget(path)
        for end in ways_out:
            if _contradict(state, end):
                continue
            path.frames = _blurred(machine, path.frames, end.frames)
            path.heap = _blurred(machine, path.heap, end.heap)
        paths.append(path)
    return paths


def _contradict(entry: State, end: State) -> bool:
    """Whether `end` cannot come of `entry`: it assumes something else."""
    return any(end.facts.get(key, fact) != fact for key, fact in entry.facts.items())


Tables = dict[int, dict[str, Value]]


def _blurred(machine: Machine, tables: Tables, changed: Tables) -> Tables:
    """`tables` with what has another value in `changed` perhaps having that."""
    blurred = dict(tables)
    for key, ours in tables.items():
        theirs = changed.get(key, ours)
        if theirs is not ours:
            other = {name: theirs.get(name, value) for name, value in ours.items()}
            blurred[key] = {name: _perhaps(machine, value, other[name]) for name, value in ours.items()}
    return blurred


def _perhaps(machine: Machine, value: Value, other: Value) -> Value:
    if value == other:
        return value
    flags = isinstance(value, Const) or isinstance(other, Const)
    return Unknown(machine.fresh()) if flags else machine.either(value, other)
