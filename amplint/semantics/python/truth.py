"""Conditions: what is known to hold on a path, and what taking a branch teaches."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.values import facts
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    TRUE,
    Class,
    Const,
    Device,
    Function,
    Instance,
    Items,
    Method,
    Module,
    Namespace,
    OneOf,
    Ref,
    Tensor,
    Unknown,
    Value,
)
from amplint.torchlib.names import DTYPES


def symbol_of(machine: Machine, value: Value) -> int:
    """A symbol that stands for `value` inside others."""
    symbol: int | None = getattr(value, "symbol", None)
    return machine.symbols.intern("value", value) if symbol is None else symbol


def truth(machine: Machine, state: State, value: Value) -> bool | None:
    """Whether `value` is true on this path, None if it can be either."""
    if isinstance(value, Const):
        return bool(value.value)
    if isinstance(value, Items):
        return bool(value.values)
    if isinstance(value, Ref) and value.name in DTYPES:
        return True
    if isinstance(value, Ref):
        return facts.symbol_truth(machine.symbols, machine.assumed(state), symbol_of(machine, value))
    if isinstance(value, (Unknown, Tensor)) or _may_be_none(value):
        return facts.symbol_truth(machine.symbols, machine.assumed(state), value.symbol)  # type: ignore[union-attr]
    return True


def is_none(machine: Machine, state: State, value: Value) -> bool | None:
    """Whether `value` is None on this path, None if it can be either."""
    if isinstance(value, Const):
        return value.value is None
    if isinstance(value, Unknown) or _may_be_none(value):
        symbol = value.symbol  # type: ignore[union-attr]
        if machine.assumed(state).get(symbol) == TRUE:
            return False
        fact = machine.assumed(state).get(("is none", symbol))
        return bool(fact.value) if fact is not None else None
    return False


def may_be_none(machine: Machine, value: Value) -> bool:
    """Whether `value` is None, or what an unseen caller gives, which may be."""
    return value == NONE or (isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] == "parameter")


def equal(machine: Machine, state: State, left: Value, right: Value) -> Value:
    """`left == right` as a constant or a remembered condition."""
    if isinstance(left, Const) and isinstance(right, Const):
        return Const(left.value == right.value)
    if isinstance(left, Const):
        left, right = right, left
    if isinstance(right, Const) and isinstance(left, Unknown):
        known = machine.assumed(state).get(("value of", left.symbol))
        if known is not None:
            return Const(known.value == right.value)
        return Unknown(machine.symbols.intern("==", right, parts=(left.symbol,)))
    if left == right and not isinstance(left, (Unknown, OneOf, Device)):
        return TRUE
    kinds = _kind(left), _kind(right)
    if None not in kinds and kinds[0] != kinds[1]:
        return FALSE
    return Unknown(machine.symbols.intern("same", parts=(symbol_of(machine, left), symbol_of(machine, right))))


def contained(machine: Machine, state: State, left: Value, right: Items) -> Value:
    """`left in right` as a constant or a remembered condition."""
    members = right.values if right.keys is None else right.keys
    if isinstance(left, Const) and all(isinstance(member, Const) for member in members):
        return Const(left in members)
    if _kind(left) is not None:
        answers = [equal(machine, state, member, left) for member in members]
        if TRUE in answers or all(answer == FALSE for answer in answers):
            return Const(TRUE in answers)
    if isinstance(left, Unknown) and len(members) == 2 and all(isinstance(member, Const) for member in members):
        sides = [equal(machine, state, left, member) for member in members]
        if all(isinstance(side, Unknown) for side in sides):
            return machine.unknown("or", parts=tuple(symbol_of(machine, side) for side in sides))
    return machine.unknown("in", parts=(symbol_of(machine, left), symbol_of(machine, right)))


def _kind(value: Value) -> type | str | None:
    """The type of a value that equals no value of another kind, None if it is unknown or has such equals.

    `torch.dtype` and `torch.device` do not compare with strings or numbers. A device without known types may be known
    only by an annotation, which a string can contradict.
    """
    if isinstance(value, Const):
        return str if isinstance(value.value, str) else float if value.value is not None else None
    if isinstance(value, Device):
        return "torch.device" if value.types is not None else None
    if isinstance(value, Method):
        return "torch.dtype" if value.name == "dtype" and isinstance(value.owner, Tensor) else None
    options = value.options if isinstance(value, OneOf) else (value.name,) if isinstance(value, Ref) else ()
    if options and all(option in DTYPES for option in options):
        return "torch.dtype"
    return str if isinstance(value, OneOf) and not any(option in DTYPES for option in options) else None


_CONDITIONS = frozenset({"==", "same", "is none", "not", "and", "or", "in"})


def is_condition(machine: Machine, value: Value) -> bool:
    """Whether `value` is the unknown result of a comparison, or a combination of conditions."""
    return isinstance(value, Unknown) and machine.symbols.key(value.symbol)[0] in _CONDITIONS


def negate(machine: Machine, value: Value) -> Value:
    """`not value`."""
    if isinstance(value, Const):
        return Const(not value.value)
    if isinstance(value, Unknown):
        key = machine.symbols.key(value.symbol)
        if key[0] == "not":
            return Unknown(machine.symbols.parts(value.symbol)[0])
        return Unknown(machine.symbols.intern("not", parts=(value.symbol,)))
    if isinstance(value, (Tensor, Ref)) or _may_be_none(value):
        return Unknown(machine.symbols.intern("not", parts=(symbol_of(machine, value),)))
    return Const(isinstance(value, Items) and not value.values)


def assume(machine: Machine, state: State, value: Value, holds: bool) -> None:
    """Continue `state` where `value` is true (or false)."""
    facts.record_fact(machine.symbols, state.facts, symbol_of(machine, value), holds)


def decide_value(machine: Machine, state: State, value: Value) -> bool:
    """Whether `value` is true, choosing where it can be either."""
    known = truth(machine, state, value)
    if known is None:
        known = machine.choices.pick(2) == 0
        assume(machine, state, value, known)
    return known


SETTLED = frozenset({Const, Ref, Namespace, Function, Class, Instance, Method, Tensor, Items, Module})
"""Kinds of values of which neither their use nor the assumptions of a path tell more."""


def refined(machine: Machine, state: State, value: Value) -> Value:
    """`value` with what the path knows of it: None, or the constant it was compared with."""
    facts = state.facts
    if not facts or not (isinstance(value, Unknown) or _may_be_none(value)):
        return value
    symbol = value.symbol  # type: ignore[union-attr]
    if ("is none", symbol) in facts and machine.assumed(state).get(("is none", symbol)) == TRUE:
        return NONE
    if ("value of", symbol) not in facts:
        return value
    return machine.assumed(state).get(("value of", symbol)) or value


def _may_be_none(value: Value) -> bool:
    known: bool = getattr(value, "may_be_none", False)
    return known
