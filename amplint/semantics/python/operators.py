"""Operators: arithmetic, comparisons and conditional expressions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Operands
from amplint.semantics.python.truth import (
    assume,
    contained,
    decide_value,
    equal,
    is_condition,
    is_none,
    negate,
    symbol_of,
    truth,
)
from amplint.semantics.values.choices import alternatives
from amplint.semantics.values.state import State, gives_region
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Class,
    Const,
    Function,
    Instance,
    Items,
    Module,
    Partial,
    Tensor,
    Unknown,
    Value,
    settings,
)
from amplint.source import syntax as cst

_ARITHMETIC: dict[type[cst.CSTNode], Callable[[float, float], float]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
    cst.LeftShift: operator.lshift,
    cst.RightShift: operator.rshift,
}
_LARGEST = 1024
"""Maximum bit length of a computed number."""


def binary(machine: Machine, state: State, node: cst.BinaryOperation) -> Value:
    """The value of `a + b` and other binary operations."""
    left = machine.evaluate(state, node.left)
    right = machine.evaluate(state, node.right)
    value = operate(machine, state, node, type(node.operator), (node.left, left), (node.right, right))
    for arithmetic in machine.hooks.arithmetic:
        arithmetic(node, value)
    return value


def operate(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    kind: type[cst.CSTNode],
    left: tuple[cst.BaseExpression, Value],
    right: tuple[cst.BaseExpression, Value],
    *,
    in_place: bool = False,
) -> Value:
    """The value of `left kind right`, or `left kind= right`, with its events at `node`."""
    a, b = left[1], right[1]
    if kind is cst.BitOr and (one := settings(a)) is not None and (other := settings(b)) is not None:
        return one.merged(other)
    if isinstance(a, Const) and isinstance(b, Const):
        folded = _fold(kind, a.value, b.value)
        if folded is not None:
            return Const(folded)
    operands = Operands(node, kind.__name__, left, right, in_place)
    answers: Iterator[Value | None] = (binary(state, operands) for binary in machine.hooks.binary)
    result = next((answer for answer in answers if answer is not None), None)
    if result is None:
        result = machine.unknown(kind.__name__, parts=(symbol_of(machine, a), symbol_of(machine, b)))
    for binary_result in machine.hooks.binary_result:
        result = binary_result(state, operands, result) or result
    return result


def _fold(kind: type[cst.CSTNode], a: object, b: object) -> float | str | None:
    if isinstance(a, str) and isinstance(b, str) and kind is cst.Add:
        return a + b
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)) or kind not in _ARITHMETIC:
        return None
    if kind is cst.Power and abs(b) * math.log2(abs(a) + 2) > _LARGEST:
        return None
    if kind is cst.LeftShift and b > _LARGEST:
        return None
    try:
        result = _ARITHMETIC[kind](a, b)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return result if isinstance(result, (int, float)) else None


def unary(machine: Machine, state: State, node: cst.UnaryOperation) -> Value:
    """The value of `-a`, `not a`."""
    if isinstance(node.operator, cst.Not):
        return negate(machine, machine.evaluate(state, node.expression))
    value = machine.evaluate(state, node.expression)
    if isinstance(node.operator, cst.Minus) and isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(-value.value, value.written)
    for answer in machine.hooks.unary:
        found: Value | None = answer(node, value)
        if found is not None:
            return found
    return machine.unknown(type(node.operator).__name__, parts=(symbol_of(machine, value),))


def boolean(machine: Machine, state: State, node: cst.BooleanOperation) -> Value:
    """The value of `a and b`, `a or b`."""
    left = machine.evaluate(state, node.left)
    known = truth(machine, state, left)
    both = isinstance(node.operator, cst.And)
    if known is not None:
        return machine.evaluate(state, node.right) if known is both else left
    right = machine.evaluate(state, node.right)
    name = "and" if both else "or"
    if isinstance(right, Const) and both and not right.value:
        return right
    return machine.unknown(name, parts=(symbol_of(machine, left), symbol_of(machine, right)))


def comparison(machine: Machine, state: State, node: cst.Comparison) -> Value:
    """The value of `a < b`, `a is None`, `a in b`."""
    left = machine.evaluate(state, node.left)
    if len(node.comparisons) != 1:
        parts = [symbol_of(machine, left)]
        for other in node.comparisons:
            parts.append(symbol_of(machine, machine.evaluate(state, other.comparator)))
        return machine.unknown("compare", parts=tuple(parts))
    kind = node.comparisons[0].operator
    right = machine.evaluate(state, node.comparisons[0].comparator)
    if isinstance(kind, (cst.Is, cst.IsNot)) and right == Const(None):
        known = is_none(machine, state, left)
        value: Value = Const(known) if known is not None else machine.unknown("is none", parts=(left.symbol,))  # type: ignore[union-attr]
        return value if isinstance(kind, cst.Is) else negate(machine, value)
    for compared in machine.hooks.compared:
        answer: Value | None = compared(state, node, left, right)
        if answer is not None:
            return answer
    if isinstance(kind, (cst.Equal, cst.Is)):
        return equal(machine, state, left, right)
    if isinstance(kind, (cst.NotEqual, cst.IsNot)):
        return negate(machine, equal(machine, state, left, right))
    if isinstance(kind, (cst.In, cst.NotIn)) and isinstance(right, Items):
        found = contained(machine, state, left, right)
        return found if isinstance(kind, cst.In) else negate(machine, found)
    if isinstance(left, Const) and isinstance(right, Const):
        folded = _compare(kind, left.value, right.value)
        if folded is not None:
            return Const(folded)
    name, flipped = _OPPOSITES.get(type(kind), (type(kind).__name__, False))
    value = machine.unknown(name, parts=(symbol_of(machine, left), symbol_of(machine, right)))
    return negate(machine, value) if flipped else value


_OPPOSITES: dict[type[cst.CSTNode], tuple[str, bool]] = {
    cst.NotIn: ("In", True),
    cst.LessThanEqual: ("GreaterThan", True),
    cst.GreaterThanEqual: ("LessThan", True),
}


def _compare(kind: cst.BaseCompOp, a: object, b: object) -> bool | None:
    if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
        return None
    if isinstance(kind, cst.LessThan):
        return a < b
    if isinstance(kind, cst.LessThanEqual):
        return a <= b
    if isinstance(kind, cst.GreaterThan):
        return a > b
    return a >= b if isinstance(kind, cst.GreaterThanEqual) else None


_ANSWERS = ((TRUE, FALSE), (FALSE, TRUE))


def conditional(machine: Machine, state: State, node: cst.IfExp) -> Value:
    """The value of `a if c else b`: the join if both are alike, else a choice."""
    condition = machine.evaluate(state, node.test)
    known = truth(machine, state, condition)
    if known is not None:
        return machine.evaluate(state, node.body if known else node.orelse)
    sides = _where(machine, state, condition, holds=True), _where(machine, state, condition, holds=False)
    body, orelse = machine.evaluate(sides[0], node.body), machine.evaluate(sides[1], node.orelse)
    for conditional_evaluated in machine.hooks.conditional_evaluated:
        conditional_evaluated(state, sides)
    if (body, orelse) in _ANSWERS and is_condition(machine, condition):
        return condition if body == TRUE else negate(machine, condition)
    joined = alternatives((body, orelse))
    taken = machine.supposed((body, orelse)) if joined is not None else None
    if taken is not None:
        assume(machine, state, condition, taken == 0)
        return machine.evaluate(state, node.orelse if taken else node.body)
    if joined is not None and not (machine.slice.is_relevant_choice(joined.options) and machine.is_assigned(node)):
        return joined
    alike = isinstance(body, Tensor) and isinstance(orelse, (Tensor, Unknown))
    if alike and not any(differ_in_kind(body, orelse) for differ_in_kind in machine.hooks.differ_in_kind):
        return machine.joined_value(body, orelse)
    if not (_must_explore_both(machine, node, body, orelse) or (body == orelse and _have_different_effects(*sides))):
        parts = tuple(symbol_of(machine, value) for value in (condition, body, orelse))
        return machine.unknown("if", parts=parts)
    return machine.evaluate(state, node.body if decide_value(machine, state, condition) else node.orelse)


def _have_different_effects(one: State, other: State) -> bool:
    """Whether the tracker states after the evaluation of the two sides differ."""
    now = one.iteration
    return any(
        part is not other.parts[kind] and part.key(now) != other.parts[kind].key(now)
        for kind, part in one.parts.items()
    )


def _where(machine: Machine, state: State, condition: Value, *, holds: bool) -> State:
    twin = state.copy()
    assume(machine, twin, condition, holds)
    return twin


def _must_explore_both(machine: Machine, node: cst.IfExp, body: Value, orelse: Value) -> bool:
    """Whether exploring both sides matters: one is a context or has a state of its own, or a flag is being set."""
    apart = (Partial, Module, Instance, Class)
    if any(gives_region(value) or isinstance(value, apart) for value in (body, orelse)):
        return True
    if any(isinstance(value, Function) and value.chunk in machine.relevant for value in (body, orelse)):
        return True
    if any(explores(value) for explores in machine.hooks.explores for value in (body, orelse)):
        return True
    precisions = alternatives((body, orelse)) is not None
    flags = any(isinstance(v, Const) and isinstance(v.value, (bool, type(None))) for v in (body, orelse))
    return (flags or precisions) and machine.is_assigned(node)
