"""Calls that need no inspection: Python's built-in functions, and functions of their arguments."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amplint.semantics.python import attributes
from amplint.semantics.python.containers import each, record_element, zip_rows
from amplint.semantics.python.instances import is_instance
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.operators import operate
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.choices import alternatives
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import TRUE, Const, Items, Method, OneOf, Ref, Unknown, Value
from amplint.semantics.values.values import number as number_of
from amplint.source import syntax as cst
from amplint.torchlib.constants import FUNCTIONS, computed

MOST_SUMMED = 8
"""The largest number of known values that a `sum` adds."""
_TIMELESS = frozenset({"builtins.str", "builtins.int"})
_TIMELESS_METHODS = frozenset({"lower", "upper", "strip", "casefold"})
"""Functions, and methods of strings, whose results are equal in all iterations for equal arguments."""


def unseen_result(
    machine: Machine,
    state: State,
    name: str | Callee,
    arguments: Arguments,
    node: cst.Call | None = None,
    callee: tuple[int, ...] = (),
) -> Unknown:
    """The result of an unseen call: equal for equal arguments within one iteration, unless it instantiates a class.

    What a dictionary holds at a key is equal in all iterations, as is what is computed from it alone.
    """
    function = getattr(node, "func", None)
    called = function.attr if isinstance(function, cst.Attribute) else function
    parts = (*callee, *(symbol_of(machine, value) for value in arguments.values))
    if node is not None and isinstance(called, cst.Name) and (called.value[:1].isupper() or _is_constructor(function)):
        return Unknown(machine.symbols.intern("call", name, parts=(machine.identity(state, node), *parts)))
    method = function.attr.value if isinstance(function, cst.Attribute) else ""
    timeless = name in _TIMELESS or _is_timeless(method, arguments)
    now = state.iteration[-1] if state.iteration and not timeless else 0
    made = Unknown(machine.symbols.intern("call", name, now, parts=parts, time=now))
    for unknown_result in machine.hooks.unknown_result:
        unknown_result(made)
    return made


def _is_timeless(method: str, arguments: Arguments) -> bool:
    """Whether a method of equal objects returns equal results in all iterations: of a string, or `get` of a key."""
    if method != "get":
        return method in _TIMELESS_METHODS and not arguments.given
    key = arguments.values[0] if arguments.given else None
    return isinstance(key, Const) and isinstance(key.value, str)


def _is_constructor(function: object) -> bool:
    """Whether this is an alternative constructor of a class, as in `Class.from_file`."""
    if not isinstance(function, cst.Attribute) or not function.attr.value.startswith("from_"):
        return False
    cls = function.value.attr if isinstance(function.value, cst.Attribute) else function.value
    return isinstance(cls, cst.Name) and cls.value[:1].isupper()


def builtin(machine: Machine, state: State, node: cst.Call, name: str, arguments: Arguments) -> Value:
    """The call of a built-in function."""
    values = arguments.values
    if name == "builtins.float" and len(values) == 1 and isinstance(values[0], Const):
        try:
            return Const(float(values[0].value))  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            return Const(math.nan)
    if name == "builtins.dict" and all(argument.keyword for argument in arguments.given):
        return Items(values, tuple(Const(argument.keyword) for argument in arguments.given))
    if name == "builtins.float" and len(values) == 1:
        number = unseen_result(machine, state, name, arguments)
        for number_read in machine.hooks.number_read:
            number_read(values[0], number)
        return number
    if name == "builtins.bool" and len(values) == 1 and isinstance(values[0], (Unknown, Const)):
        return values[0]
    if name == "builtins.isinstance" and len(values) == 2:
        return is_instance(machine, state, *values)
    if name == "builtins.getattr" and len(values) >= 2 and (found := _getattr(machine, state, node, arguments)):
        return found
    for text_value in machine.hooks.text_value if name == "builtins.str" and len(values) == 1 else ():
        text: Value | None = text_value(values[0])
        if text is not None:
            return text
    if name in ("builtins.tuple", "builtins.list", "builtins.iter", "builtins.reversed") and len(values) == 1:
        return values[0]
    if name in ("builtins.enumerate", "builtins.zip"):
        return _rows(machine, state, name, arguments)
    if name == "builtins.sum" and (added := _sum(machine, state, node, values)) is not None:
        return added
    if name in ("builtins.sum", "builtins.max", "builtins.min"):
        return unseen_result(machine, state, name, arguments)
    _run_unseen(machine, state, name, values)
    return unseen_result(machine, state, name, arguments)


def _run_unseen(machine: Machine, state: State, name: str, values: Sequence[Value]) -> None:
    """Let values escape to a built-in function that runs code, or calls the methods it is passed."""
    if name == "builtins.setattr" and len(values) == 3:
        attributes.set_by_name(machine, state, *values)
    unseen = name in ("builtins.setattr", "builtins.exec", "builtins.eval")
    escaping = values if unseen else [value for value in values if isinstance(value, Method)]
    for escape in machine.hooks.escape:
        escape(state, escaping)


def computed_number(name: str, arguments: Arguments) -> Value | None:
    """The number that a function returns for numbers; None for any other call."""
    values = arguments.values
    if name not in FUNCTIONS or any(argument.keyword or argument.star for argument in arguments.given):
        return None
    numbers = [number for value in values if (number := number_of(value)) is not None]
    result = computed(name, numbers) if len(numbers) == len(values) else None
    return Const(result) if result is not None else None


def _getattr(machine: Machine, state: State, node: cst.Call, arguments: Arguments) -> Value | None:
    """The result of `getattr` with a name that is known, one of several, or supposed by a tracker.

    `getattr(x, "module", x)` unwraps: it is `x` itself where nothing is known of the attribute.
    """
    owner, key = arguments.values[:2]
    if isinstance(key, Const):
        found = attributes.get(machine, state, node, owner, str(key.value))
        unwraps = arguments.values[2:] == (owner,) and isinstance(found, Method) and found.function is None
        return owner if unwraps else found
    if not isinstance(owner, Ref) or len(arguments.values) > 2:
        return None
    if names := _options(machine, state, [key]):
        return _one_of(machine, state, node, arguments, names)
    answers = (supposed(state, node, owner, key) for supposed in machine.hooks.supposed_attribute)
    return next((answer for answer in answers if answer is not None), None)


def _rows(machine: Machine, state: State, name: str, arguments: Arguments) -> Value:
    """What `enumerate` or `zip` returns."""
    values = arguments.values
    if values and (rows := zip_rows(machine, name, values)) is not None:
        return rows
    pairs = unseen_result(machine, state, name, arguments)
    known = [each(state, value) for value in values]
    if any(known):
        parts = [value or Unknown(machine.fresh()) for value in known]
        record_element(
            state, pairs, Items(tuple(parts if name.endswith("zip") else [Unknown(machine.fresh()), *parts[:1]]))
        )
    return pairs


def _sum(machine: Machine, state: State, node: cst.Call, given: Sequence[Value]) -> Value | None:
    """The sum of what `sum` gets, None if that is not known one by one."""
    values = given[0].values if len(given) == 1 and isinstance(given[0], Items) and given[0].keys is None else ()
    if not 0 < len(values) <= MOST_SUMMED:
        return None
    place, total = node.args[0].value, values[0]
    for value in values[1:]:
        total = operate(machine, state, node, cst.Add, (place, total), (place, value))
    return total


def _one_of(machine: Machine, state: State, node: cst.Call, arguments: Arguments, names: tuple[str, ...]) -> Value:
    """The value of `getattr` for one of `names`; a choice if the difference matters."""
    owner, key = arguments.values
    found = alternatives(tuple(attributes.get(machine, state, node, owner, each) for each in names))
    if found is None:
        return unseen_result(machine, state, "builtins.getattr", arguments)
    position = machine.supposed([attributes.get(machine, state, node, owner, each) for each in names])
    if position is not None:
        if isinstance(key, Unknown):
            state.facts["value of", key.symbol] = Const(names[position])
        return attributes.get(machine, state, node, owner, names[position])
    if isinstance(key, Unknown) and machine.slice.is_relevant_choice(found.options) and machine.is_assigned(node):
        taken = names[machine.choices.pick(len(names))]
        state.facts["value of", key.symbol] = Const(taken)
        return attributes.get(machine, state, node, owner, taken)
    return found


def _options(machine: Machine, state: State, values: Sequence[Value]) -> tuple[str, ...]:
    """The strings that the only one of `values` can be, as one of several or as a member of a tested collection."""
    if len(values) != 1 or not isinstance(values[0], (OneOf, Unknown)):
        return ()
    if isinstance(values[0], OneOf):
        return tuple(sorted(values[0].options))
    for fact, holds in state.facts.items():
        if holds == TRUE and isinstance(fact, int) and machine.symbols.key(fact)[0] == "in":
            left, right = machine.symbols.parts(fact)
            options = machine.symbols.key(right)[1]
            if left == values[0].symbol and isinstance(options, Items):
                texts = [one.value if isinstance(one, Const) else None for one in options.keys or options.values]
                return tuple(one for one in texts if isinstance(one, str)) if None not in texts else ()
    return ()
