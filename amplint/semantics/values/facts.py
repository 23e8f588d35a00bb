"""Inference from a path's assumptions, for conditions composed by `not`, `and`, `or`, `==` and `in`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from amplint.semantics.values.symbols import Symbols
from amplint.semantics.values.values import FALSE, TRUE, Among, Const, Items, Ref, Unknown, Value

Fact: TypeAlias = "int | tuple[str, int]"
"""What an assumption is about: a symbol's truth, or ("is none", symbol), ("value of", symbol), ("among", symbol),
("member", symbol), or, of one of several objects, ("taken", symbol).
"""
Facts: TypeAlias = "dict[Fact, Const]"
NOTHING: Facts = {}
MOST_OPTIONS = 8
"""The largest number of constants among which a value is remembered to be."""
DEPTH = 8
"""The depth to which nested conditions are evaluated, since each is evaluated again for each one around it."""


class Known(Protocol):
    """Assumptions that can be queried."""

    def get(self, key: Fact, /) -> Const | None:
        """The fact assumed under `key`, None without one."""


def compatible(one: Mapping[Fact, Const], other: Mapping[Fact, Const]) -> bool:
    """Whether both sets of facts can hold at once."""
    return all((found := other.get(key, fact)) == fact or _overlap(found, fact) for key, fact in one.items())


def _overlap(one: Const, other: Const) -> bool:
    return isinstance(one, Among) and isinstance(other, Among) and not set(one.options).isdisjoint(other.options)


_OF_VALUES = ("value of", "among")


def joined_options(left: Facts, right: Facts, alone: Facts) -> Facts:
    """The facts ("among", symbol) of a join of two paths, of which the left one has the facts `alone` to itself."""
    found: Facts = {}
    for key in alone:
        if type(key) is tuple and key[0] in _OF_VALUES:
            ours, theirs = (_options(facts, key[1]) for facts in (left, right))
            options = tuple(dict.fromkeys((*ours, *theirs)))
            if ours and theirs and len(options) <= MOST_OPTIONS:
                found["among", key[1]] = Among(None, options=options)
    return found


def _options(facts: Known, symbol: int) -> tuple[Const, ...]:
    """The constants that the value of a symbol is among, none if these are not known."""
    value, among = facts.get(("value of", symbol)), facts.get(("among", symbol))
    return (value,) if value is not None else among.options if isinstance(among, Among) else ()


_CONDITIONS = frozenset({"not", "and", "or", "==", "in", "same", "value", "Modulo"})
"""Operations whose truth value follows from their operands'."""


def symbol_truth(symbols: Symbols, facts: Known, symbol: int, depth: int = DEPTH) -> bool | None:
    """Whether `symbol` is true under `facts`, None if it can be either.

    Nested conditions are considered up to `depth` levels.
    """
    fact = facts.get(symbol) or facts.get(("value of", symbol))
    if fact is not None:
        return bool(fact.value)
    kind = symbols.key(symbol)[0]
    if kind not in _CONDITIONS:
        return None
    parts = symbols.parts(symbol)
    if kind == "not":
        inner = symbol_truth(symbols, facts, parts[0], depth)
        return None if inner is None else not inner
    if kind in ("and", "or"):
        if not depth:
            return None
        sides = [symbol_truth(symbols, facts, part, depth - 1) for part in parts]
        decides = kind == "or"
        return decides if decides in sides else None if None in sides else not decides
    if kind in ("==", "in"):
        value = facts.get(("value of", parts[0]))
        if value is not None:
            return _compared(symbols, symbol, value)
        among = facts.get(("among", parts[0]))
        if isinstance(among, Among):
            outcomes = {_compared(symbols, symbol, one) for one in among.options}
            return outcomes.pop() if len(outcomes) == 1 else None
        return _remainder_truth(symbols, facts, symbol)
    if kind == "Modulo":
        return _remainder_truth(symbols, facts, symbol)
    if kind == "same":
        known = _same_member(symbols, facts, *parts)
        return known if known is not None else _remainder_truth(symbols, facts, symbol)
    if kind == "value":
        constant = symbols.key(symbol)[1]
        return bool(constant.value) if isinstance(constant, Const) else None
    return None


def _infer_last_part(symbols: Symbols, facts: Facts) -> None:
    """Infer the last open part of each `and` that is false, and of each `or` that is true."""
    for key, fact in [item for item in facts.items() if item[0] in symbols.compound]:
        assert isinstance(key, int)
        holds = bool(fact.value)
        if holds is (symbols.key(key)[0] == "or"):
            part = _last_open(symbols, facts, symbols.parts(key), holds)
            if part is not None:
                record_fact(symbols, facts, part, holds)


def _last_open(symbols: Symbols, facts: Facts, parts: tuple[int, ...], decides: bool) -> int | None:
    """The only unknown one of `parts`, None if one of the others `decides`."""
    last = None
    for part in parts:
        side = symbol_truth(symbols, facts, part)
        if side is decides or (side is None and last not in (None, part)):
            return None
        if side is None:
            last = part
    return last


def _compared(symbols: Symbols, symbol: int, value: Const) -> bool | None:
    other = symbols.key(symbol)[1]
    if symbols.key(symbol)[0] == "==":
        return value == other
    options = symbols.key(symbols.parts(symbol)[1])[1]
    if not isinstance(options, Items) or not all(isinstance(option, Const) for option in options.values):
        return None
    return value in (options.keys or options.values)


def _member(symbols: Symbols, symbol: int) -> tuple[str, str] | None:
    """Class and name if `symbol` is a member of an enumeration in another file, such as `Mode.TRAIN`."""
    value = symbols.key(symbol)[1] if symbols.key(symbol)[0] == "value" else None
    if not isinstance(value, Ref):
        return None
    owner, _, name = value.name.rpartition(".")
    return (owner, name) if owner.rpartition(".")[2][:1].isupper() else None


def _same_member(symbols: Symbols, facts: Known, left: int, right: int) -> bool | None:
    for this, other in ((left, right), (right, left)):
        fact, member = facts.get(("member", other)), _member(symbols, this)
        taken = _member(symbols, fact.value) if fact is not None and isinstance(fact.value, int) else None
        if member is not None and taken is not None and member[0] == taken[0]:
            return member == taken
    return None


def _at_one(symbols: Symbols, symbol: int) -> tuple[int, bool] | None:
    """`n` of the condition `x % n`, `x % n == c` or `x % n == n - c`, and whether it holds where `n` is 1.

    None for any other value.
    """
    key, parts = symbols.key(symbol), symbols.parts(symbol)
    for left, right in (parts, parts[::-1]) if key[0] == "same" else ((parts[0] if key[0] == "==" else symbol, None),):
        if symbols.key(left)[0] != "Modulo":
            continue
        divisor = symbols.parts(left)[1]
        if left == symbol:
            return divisor, False
        if right is None:
            return divisor, key[1] == Const(0)
        if symbols.key(right)[0] == "Subtract" and symbols.parts(right)[0] == divisor:
            return divisor, symbols.key(symbols.parts(right)[1]) == ("value", Const(1))
    return None


def _remainder_truth(symbols: Symbols, facts: Known, symbol: int) -> bool | None:
    """Whether a condition on `x % n` holds where `n` is 1, so that the remainder is 0; None for any other."""
    found = _at_one(symbols, symbol)
    return found[1] if found is not None and _is_one(symbols, facts, found[0]) else None


def _is_one(symbols: Symbols, facts: Known, divisor: int) -> bool:
    """Whether a divisor of counters is 1: it is known to be, or not to be more."""
    known = facts.get(("value of", divisor))
    one = Const(1)
    if known is not None or symbols.key(divisor)[0] == "value":
        return known == one or symbols.key(divisor) == ("value", one)
    return facts.get(_exceeds_one(symbols, divisor)) == FALSE


def _exceeds_one(symbols: Symbols, symbol: int) -> int:
    """The condition `symbol > 1`."""
    return symbols.intern("GreaterThan", parts=(symbol, symbols.intern("value", Const(1))))


def is_on(symbols: Symbols, facts: Known, enabled: Value) -> bool | None:
    """Whether a flag is true under `facts`, None if it can be either."""
    if isinstance(enabled, Const):
        return bool(enabled.value)
    return symbol_truth(symbols, facts, enabled.symbol) if isinstance(enabled, Unknown) else None


def record_fact(symbols: Symbols, facts: Facts, symbol: int, holds: bool) -> None:
    """Add to `facts` that `symbol` is true (or false), and the consequences for its parts."""
    facts[symbol] = TRUE if holds else FALSE
    _infer_last_part(symbols, facts)
    kind, parts = symbols.key(symbol)[0], symbols.parts(symbol)
    if kind in ("==", "in", "or") and parts:
        subject = symbols.parts(parts[0])[0] if kind == "or" and symbols.key(parts[0])[0] == "==" else parts[0]
        if ("among", subject) in facts:
            _narrow(symbols, facts, subject, symbol, holds)
    counted = _at_one(symbols, symbol)
    if counted is not None and counted[1] is not holds and symbols.key(counted[0])[0] != "value":
        facts[symbols.intern("==", Const(1), parts=(counted[0],))] = FALSE
        facts[_exceeds_one(symbols, counted[0])] = TRUE
    if kind == "not":
        record_fact(symbols, facts, parts[0], not holds)
    elif (kind == "and" and holds) or (kind == "or" and not holds):
        for part in parts:
            record_fact(symbols, facts, part, holds)
    elif kind == "==" and holds and isinstance(constant := symbols.key(symbol)[1], Const):
        facts["value of", parts[0]] = constant
    elif kind == "same" and holds:
        for this, other in (parts, parts[::-1]):
            if _member(symbols, this) is not None:
                facts["member", other] = Const(this)
    elif kind == "is none":
        facts["is none", parts[0]] = TRUE if holds else FALSE
        if holds:
            facts[parts[0]] = FALSE


def _narrow(symbols: Symbols, facts: Facts, subject: int, condition: int, holds: bool) -> None:
    """Leave out the constants among which a value is that contradict a condition on it."""
    among = facts["among", subject]
    assert isinstance(among, Among)
    kept = [
        one
        for one in among.options
        if symbol_truth(symbols, {("value of", subject): one}, condition) is not (not holds)
    ]
    if len(kept) == 1:
        facts["value of", subject] = kept[0]
    if kept:
        facts["among", subject] = Among(None, options=tuple(kept))
