"""`isinstance`: the outcome for values of known classes, and a condition that a path remembers for others."""

from __future__ import annotations

from collections.abc import Iterator, Set

from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.state import State
from amplint.semantics.values.values import FALSE, TRUE, Class, Const, Instance, Items, Ref, Value

_TEST = "isinstance"
_PLAIN: dict[str, type] = {
    f"builtins.{kind.__name__}": kind for kind in (list, tuple, dict, set, str, int, float, bool)
}
_SEQUENCES = frozenset({"builtins.list", "builtins.tuple"})


def is_instance(machine: Machine, state: State, value: Value, cls: Value) -> Value:
    """`isinstance(value, cls)` as a constant or a remembered condition."""
    classes = cls.values if isinstance(cls, Items) and cls.keys is None else (cls,)
    names = frozenset(one.name if isinstance(one, Ref) else symbol_of(machine, one) for one in classes)
    answers = [_is_of(machine, state, value, one) for one in classes]
    if True in answers or (isinstance(value, Items) and value.keys is None and names >= _SEQUENCES):
        return TRUE
    if None not in answers:
        return FALSE
    return machine.unknown(_TEST, names, parts=(symbol_of(machine, value),))


def tests(machine: Machine, state: State, symbol: int) -> Iterator[tuple[Set[str | int], bool]]:
    """The outcomes of `isinstance` that the path assumes of a value, each with the names or symbols of the classes."""
    key, parts = machine.symbols.key, machine.symbols.parts
    for fact, outcome in state.facts.items():
        if isinstance(fact, int) and parts(fact) == (symbol,) and key(fact)[0] == _TEST:
            yield key(fact)[1], bool(outcome.value)  # type: ignore[misc]


def _is_of(machine: Machine, state: State, value: Value, cls: Value) -> bool | None:
    if isinstance(value, Instance) and isinstance(cls, Class):
        if cls in attributes.lineage(machine, state, value.cls):
            return True
        return False if attributes.is_whole(machine, state, value.cls) else None
    if not isinstance(cls, Ref):
        return None
    plain = _PLAIN.get(cls.name)
    if isinstance(value, Const) and plain is not None:
        return isinstance(value.value, plain)
    if isinstance(value, Items) and plain is not None:
        if value.keys is not None:
            return plain is dict
        return None if cls.name in _SEQUENCES or plain is set else False
    answers = (instance_of(value, cls.name) for instance_of in machine.hooks.instance_of)
    return next((answer for answer in answers if answer is not None), None)
