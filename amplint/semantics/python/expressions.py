"""Expressions: their values, and the choices they introduce."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence

from amplint.semantics.python import attributes, calls, functions, modules, operators
from amplint.semantics.python.containers import (
    MOST_UNROLLED,
    comprehended,
    each,
    item_at,
    passed,
    unrolled_elements,
)
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import SETTLED, assume, decide_value, refined, symbol_of, truth
from amplint.semantics.reading.scopes import passed_on
from amplint.semantics.values.choices import alternatives, choice_of
from amplint.semantics.values.facts import NOTHING, Facts
from amplint.semantics.values.state import State, gives_region
from amplint.semantics.values.values import (
    FALSE,
    TRUE,
    Const,
    Function,
    Instance,
    Items,
    Module,
    OneOf,
    Ref,
    Unknown,
    Value,
    settings,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import children, walk

MOST_CONTEXTS = 4
"""Maximum size of a dictionary of contexts whose values are kept apart."""
_READS = frozenset({"getattr", "hasattr", "isinstance"})
LONG_CHAIN = 8
"""Of a condition with more parts only these are remembered, and not what the whole came to."""


def evaluate(machine: Machine, state: State, node: cst.CSTNode) -> Value:
    """The value of an expression; `state` is advanced past its effects. Raises PathEnds if it cannot complete."""
    handler = _HANDLERS.get(type(node))
    if handler is not None:
        return handler(machine, state, node)
    for child in children(node):
        evaluate(machine, state, child)
    return Unknown(machine.fresh())


def test(machine: Machine, state: State, node: cst.BaseExpression) -> list[tuple[tuple[bool, tuple[int, ...]], State]]:
    """The possible outcomes of a condition, each with the unknown values that decided it and its path."""

    def run(twin: State) -> tuple[bool, tuple[int, ...]]:
        machine.tested = ()
        return decide(machine, twin, node), machine.tested

    return machine.outcomes(state, run)


def decide(machine: Machine, state: State, node: cst.BaseExpression) -> bool:
    """Whether a condition holds; if both are possible, both are explored and the choice is recorded."""
    if isinstance(node, cst.BooleanOperation):
        both = isinstance(node.operator, cst.And)
        apart = _is_long(node) or _may_have_effects(node)
        whole = None if apart else _whole(machine, state, node, both)
        known = None if whole is None else truth(machine, state, evaluate(machine, state, node))
        if known is not None and whole is not None:
            machine.tested = (*machine.tested, whole.symbol)
        if known is None:
            left = decide(machine, state, node.left)
            known = decide(machine, state, node.right) if left is both else left
        if whole is not None:
            assume(machine, state, whole, known)
        return known
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return not decide(machine, state, node.expression)
    before = machine.tested
    value = evaluate(machine, state, node)
    machine.tested = before if isinstance(value, Const) else (*before, symbol_of(machine, value))
    for condition in machine.hooks.condition:
        condition(node, value)
    holds = decide_value(machine, state, value)
    for condition_assumed in machine.hooks.condition_assumed:
        condition_assumed(state, value, holds)
    return holds


def _whole(machine: Machine, state: State, node: cst.BooleanOperation, both: bool) -> Unknown:
    """`a and b` evaluated on both sides, even if one decides: joined paths may know different ones."""
    sides = [symbol_of(machine, evaluate(machine, state, side)) for side in (node.left, node.right)]
    return machine.unknown("and" if both else "or", parts=tuple(sides))


def _is_long(node: cst.BaseExpression) -> bool:
    """Whether a condition is a chain so long that recording each prefix would be quadratic."""
    length = 0
    while isinstance(node, cst.BooleanOperation) and length < LONG_CHAIN:
        node = node.left
        length += 1
    return length == LONG_CHAIN


@cached_per_file
def _may_have_effects(node: cst.BaseExpression) -> bool:
    """Whether a condition does more than compare names and attributes, and ask an object for what it is."""
    return any(
        isinstance(inner, (cst.NamedExpr, cst.Await, cst.Yield)) or (isinstance(inner, cst.Call) and not _asks(inner))
        for inner in walk(node)
    )


def _asks(call: cst.Call) -> bool:
    """Whether a call reads an attribute, or is one of a method such as `is_enabled()`, by its name."""
    if isinstance(call.func, cst.Call):
        return not call.args and _asks(call.func)
    if isinstance(call.func, cst.Attribute):
        return not call.args and call.func.attr.value.startswith("is_")
    return isinstance(call.func, cst.Name) and call.func.value in _READS


def assign(machine: Machine, state: State, target: cst.BaseExpression, value: Value) -> None:
    """Bind `value` to an assignment target."""
    if isinstance(target, cst.Name):
        state.bind(_home(machine, state, target.value), target.value, value)
    elif isinstance(target, cst.Attribute):
        owner = evaluate(machine, state, target.value)
        setter = None
        if isinstance(owner, Instance):
            setter = attributes.find_setter(machine, state, owner, target.attr.value)
        if setter is not None:
            functions.call_function(machine, state, setter, [owner, value], {}, None, read=target)
            return
        kept = value
        for attribute_set in machine.hooks.attribute_set:
            kept = attribute_set(state, target, owner, value) or kept
        if not any(owns_attribute(target) for owns_attribute in machine.hooks.owns_attribute):
            state.set_attribute(symbol_of(machine, owner), target.attr.value, kept)
    elif isinstance(target, cst.Subscript):
        _assign_item(machine, state, target, value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        known = isinstance(value, Items) and value.keys is None and len(value.values) == len(target.elements)
        starred = any(isinstance(element, cst.StarredElement) for element in target.elements)
        for index, element in enumerate(target.elements):
            part: Value = machine.unknown("part", index, parts=(symbol_of(machine, value),))
            for unpacked_value in machine.hooks.unpacked_value if not starred else ():
                part = unpacked_value(value, index) or part
            if known and not starred:
                part = value.values[index]  # type: ignore[union-attr]
            assign(machine, state, element.value, part)


def _assign_item(machine: Machine, state: State, target: cst.Subscript, value: Value) -> None:
    """Bind `value` to an item; the name of a dictionary of settings then holds one with it."""
    owner = evaluate(machine, state, target.value)
    for item_set in machine.hooks.item_set:
        item_set(state, target, owner, value)
    key = single(indices(machine, state, target))
    if not isinstance(key, Const):
        return
    state.set_attribute(symbol_of(machine, owner), f"[{key.value!r}]", value)
    name = target.value.value if isinstance(target.value, cst.Name) else ""
    passes = name != "" and machine.chunk is not None and name in passed_on(machine.chunk)
    changed = settings(passed(machine, state, owner) if passes else owner) if name else None
    if changed is None or settings(changed.with_item(key, value)) is None:
        return
    keys = changed.keys or ()
    known = changed.values[keys.index(key)] if key in keys else None if passes else value
    if not isinstance(value, Unknown) or not isinstance(known, Unknown):
        assign(machine, state, target.value, changed.with_item(key, value))


def _home(machine: Machine, state: State, name: str) -> int:
    """The frame of an assignment to `name`: the current one, or that of `global` / `nonlocal`."""
    owner: Value | None = state.frames[state.frame].get("<outer names>")
    if isinstance(owner, OneOf) and name in owner.options:
        frame = machine.parents[state.frame]
        while machine.parents[frame] != frame and name not in state.frames.get(frame, {}):
            frame = machine.parents[frame]
        return frame
    return state.frame


def _name(machine: Machine, state: State, node: cst.Name) -> Value:
    name = node.value
    found = machine.lookup(state, name)
    if found is None:
        if name in _LITERALS:
            return _LITERALS[name]
        found = modules.global_value(machine, state, name)
    if found is None:
        if name in _BUILTINS:
            return _BUILTINS[name]
        found = machine.unknown("name", name)
    if type(found) in SETTLED:
        return found
    return refined(machine, state, attributes.with_kind(machine, found, node))


def _attribute(machine: Machine, state: State, node: cst.Attribute) -> Value:
    owner = evaluate(machine, state, node.value)
    for attribute_read in machine.hooks.attribute_read:
        attribute_read(state, owner, node.attr.value)
    found = attributes.get(machine, state, node, owner, node.attr.value)
    if type(found) in SETTLED:
        return found
    return refined(machine, state, attributes.with_kind(machine, found, node))


def _number(machine: Machine, state: State, node: cst.Integer | cst.Float) -> Value:
    return Const(node.evaluated_value)


def _string(machine: Machine, state: State, node: cst.SimpleString) -> Value:
    value = node.evaluated_value
    return Const(value) if isinstance(value, str) else Unknown(machine.fresh())


def _formatted(machine: Machine, state: State, node: cst.FormattedString) -> Value:
    shown = [part.expression for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
    values = [evaluate(machine, state, expression) for expression in shown]
    for formatted in machine.hooks.formatted:
        formatted(state, node, values)
    first = node.parts[0] if node.parts else None
    return machine.unknown("text", first.value if isinstance(first, cst.FormattedStringText) else "", id(node))


def _display(machine: Machine, state: State, node: cst.Tuple | cst.List | cst.Set) -> Value:
    values = tuple(evaluate(machine, state, element.value) for element in node.elements)
    if any(isinstance(element, cst.StarredElement) for element in node.elements):
        return machine.unknown("display", parts=tuple(symbol_of(machine, value) for value in values))
    if not values and isinstance(node, cst.List):  # to be filled
        return Unknown(machine.identity(state, node, "display"))
    return Items(values)


def _dict(machine: Machine, state: State, node: cst.Dict) -> Value:
    keys: list[Value] = []
    values: list[Value] = []
    for element in node.elements:
        if isinstance(element, cst.DictElement):
            keys.append(evaluate(machine, state, element.key))
        value = evaluate(machine, state, element.value)
        spread = settings(value) if not isinstance(element, cst.DictElement) else None
        keys += (spread.keys or ()) if spread is not None else ()
        values += spread.values if spread is not None else (value,)
    if len(keys) == len(values) and len(set(keys)) < len(keys):
        pairs = dict(zip(keys, values, strict=True))
        keys, values = list(pairs), list(pairs.values())
    if len(keys) == len(values):
        made = Items(tuple(values), tuple(keys))
        changed = symbol_of(machine, made) in state.heap  # an item of an equal dict was set before
        return Unknown(machine.fresh()) if changed else made
    return machine.unknown("display", parts=tuple(symbol_of(machine, value) for value in values))


def indices(machine: Machine, state: State, node: cst.Subscript) -> list[Value | tuple[Value | None, ...]]:
    """The value of each index, and of each slice its bounds; `...` has none."""
    found: list[Value | tuple[Value | None, ...]] = []
    for element in node.slice:
        if isinstance(element.slice, cst.Index):
            index = element.slice.value
            found.append(evaluate(machine, state, index) if not isinstance(index, cst.Ellipsis) else ())
        else:
            assert isinstance(element.slice, cst.Slice)
            bounds = (element.slice.lower, element.slice.upper, element.slice.step)
            found.append(tuple(evaluate(machine, state, one) if one is not None else None for one in bounds))
    return found


def single(found: Sequence[Value | tuple[Value | None, ...]]) -> Value | None:
    """The only index, None for several or a slice."""
    return found[0] if len(found) == 1 and not isinstance(found[0], tuple) else None


def index_key(machine: Machine, found: Sequence[Value | tuple[Value | None, ...]]) -> tuple[Hashable, ...]:
    """A key that distinguishes the parts selected by indices: the symbols of indices and bounds."""
    return tuple(
        tuple(symbol_of(machine, bound) if bound is not None else None for bound in each)
        if isinstance(each, tuple)
        else symbol_of(machine, each)
        for each in found
    )


def _subscript(machine: Machine, state: State, node: cst.Subscript) -> Value:
    owner = evaluate(machine, state, node.value)
    for subscript_value in machine.hooks.subscript_value:
        item: Value | None = subscript_value(state, node, owner)
        if item is not None:
            return item
    found = indices(machine, state, node)
    key = single(found)
    put = item_at(machine, state, owner, key) if key is not None else None
    if put is not None:
        return put
    if isinstance(owner, Items):
        return _item(machine, state, node, owner, key)
    if isinstance(owner, Module):
        numbered = key.value if isinstance(key, Const) and type(key.value) is int else len(owner.parts)
        if -len(owner.parts) <= numbered < len(owner.parts):
            return owner.parts[numbered]
        if (part := each(state, owner)) is not None:
            return part
    if key is None:
        made = machine.unknown("index", index_key(machine, found), parts=(symbol_of(machine, owner),))
    else:
        made = machine.unknown("index", parts=(symbol_of(machine, owner), symbol_of(machine, key)))
    return refined(machine, state, attributes.with_kind(machine, made, node))


def _item(machine: Machine, state: State, node: cst.Subscript, owner: Items, key: Value | None) -> Value:
    if isinstance(key, Const):
        if owner.keys is not None and key in owner.keys:
            return owner.values[owner.keys.index(key)]
        if owner.keys is None and isinstance(key.value, int) and -len(owner.values) <= key.value < len(owner.values):
            return owner.values[key.value]
    elif owner.keys is not None and (joined := alternatives(owner.values)) is not None:
        position = machine.supposed(owner.values)
        if position is not None and isinstance(key, Unknown):
            only = owner.values.count(owner.values[position]) == 1
            return _chosen(state, key, owner.keys[position] if only else key, owner.values[position])
        if isinstance(key, OneOf):
            pairs = zip(owner.keys, owner.values, strict=True)
            wanted = [value for one, value in pairs if isinstance(one, Const) and one.value in key.options]
            return alternatives(tuple(wanted)) or joined
        if isinstance(key, Unknown) and machine.slice.is_relevant_choice(joined.options) and machine.is_assigned(node):
            position = machine.choices.pick(len(owner.keys))
            return _chosen(state, key, owner.keys[position], owner.values[position])
        return joined
    if owner.keys is not None and isinstance(key, Unknown) and len(owner.keys) <= MOST_CONTEXTS:
        apart = any(map(gives_region, owner.values)) and machine.is_assigned(node)
        if apart:
            position = machine.choices.pick(len(owner.keys))
            return _chosen(state, key, owner.keys[position], owner.values[position])
    if owner.keys and all(isinstance(value, Ref) for value in owner.values):
        return functools.reduce(machine.joined_value, owner.values)
    if owner.keys is not None:
        taken = [_where_key_is(key, one) for one in owner.keys]
        return choice_of(machine.fresh(), owner.values, taken) or Unknown(machine.fresh())
    if isinstance(key, Unknown):
        element = machine.unknown("index", parts=(symbol_of(machine, owner), key.symbol))
        return attributes.with_kind(machine, element, node)
    return Unknown(machine.fresh())


def _where_key_is(key: Value | None, taken: Value) -> Facts:
    """What holds on a path where an unknown key is `taken`."""
    if isinstance(key, Unknown) and isinstance(taken, Const):
        return {("value of", key.symbol): taken}
    return NOTHING


def _chosen(state: State, key: Unknown, taken: Value, value: Value) -> Value:
    """`value`, on the path where `key` is `taken`."""
    if isinstance(taken, Const):
        state.facts["value of", key.symbol] = taken
    return value


def _lambda(machine: Machine, state: State, node: cst.Lambda) -> Value:
    assert machine.chunk is not None
    machine.captured.add(state.frame)
    return Function(machine.chunk, node, state.frame)


def _walrus(machine: Machine, state: State, node: cst.NamedExpr) -> Value:
    value = evaluate(machine, state, node.value)
    assign(machine, state, node.target, value)
    return value


def _comprehension(machine: Machine, state: State, node: cst.BaseSimpleComp | cst.DictComp) -> Value:
    loop: cst.CompFor | None = node.for_in
    parts: list[int] = []
    before = state.frames[state.frame]
    while loop is not None:
        source = evaluate(machine, state, loop.iter)
        if not parts and _differ(machine, source) and (known := _one_by_one(machine, state, node, source)) is not None:
            return known
        parts.append(symbol_of(machine, source))
        like = each(state, source) or machine.unknown("each", id(loop), parts=(parts[-1],))
        assign(machine, state, loop.target, like)
        for condition in loop.ifs:
            evaluate(machine, state, condition.test)
        loop = loop.inner_for_in
    if isinstance(node, cst.DictComp):
        evaluate(machine, state, node.key)
        element = evaluate(machine, state, node.value)
    else:
        element = evaluate(machine, state, node.elt)
    state.frames[state.frame] = before
    if any(unrolls(element) for unrolls in machine.hooks.unrolls):
        known = _one_by_one(machine, state, node, evaluate(machine, state, node.for_in.iter))
        if known is not None:
            return known
    return comprehended(machine, state, parts, element)


def _differ(machine: Machine, source: Value) -> bool:
    """Whether elements made of those of `source` may differ by more than a number or a name."""
    objects = isinstance(source, Items) and not all(isinstance(one, Const) for one in source.values)
    return objects or bool(unrolled_elements(machine, source))


def _one_by_one(machine: Machine, state: State, node: cst.BaseSimpleComp | cst.DictComp, source: Value) -> Items | None:
    """The result of a comprehension over a few known values, with the element evaluated for each."""
    loop, around = node.for_in, state.iteration
    given = (source.keys or source.values) if isinstance(source, Items) else ()
    if loop.ifs or loop.inner_for_in is not None or not 0 < len(given) <= MOST_UNROLLED:
        return None
    before, keys, values = state.frames[state.frame], list[Value](), list[Value]()
    for one in given:
        assign(machine, state, loop.target, one)
        state.iteration = (*around, machine.symbols.tick())
        if isinstance(node, cst.DictComp):
            keys.append(evaluate(machine, state, node.key))
        values.append(evaluate(machine, state, node.value if isinstance(node, cst.DictComp) else node.elt))
        state.iteration = around
    state.frames[state.frame] = before
    return Items(tuple(values), tuple(keys) if isinstance(node, cst.DictComp) else None)


def _inner(machine: Machine, state: State, node: cst.Await | cst.StarredElement | cst.Arg) -> Value:
    return evaluate(machine, state, node.expression if isinstance(node, cst.Await) else node.value)


def _yield(machine: Machine, state: State, node: cst.Yield) -> Value:
    if node.value is not None:
        evaluate(machine, state, node.value.item if isinstance(node.value, cst.From) else node.value)
    functions.remember_yield(machine, state)
    if functions.MANAGER not in state.frames[state.frame]:  # what runs at the yield of a manager is the caller's block
        machine.forget(state)
    return Unknown(machine.fresh())


_LITERALS: dict[str, Value] = {"True": TRUE, "False": FALSE, "None": Const(None)}
_BUILTINS = {
    name: Ref(f"builtins.{name}")
    for name in [
        "print",
        "len",
        "float",
        "int",
        "str",
        "bool",
        "range",
        "enumerate",
        "zip",
        "map",
        "filter",
        "sorted",
        "reversed",
        "sum",
        "min",
        "max",
        "abs",
        "round",
        "any",
        "all",
        "isinstance",
        "hasattr",
        "getattr",
        "setattr",
        "list",
        "dict",
        "tuple",
        "set",
        "type",
        "id",
        "iter",
        "next",
        "open",
        "super",
        "repr",
        "format",
        "vars",
        "dir",
        "callable",
        "divmod",
        "pow",
        "property",
        "staticmethod",
        "classmethod",
        "object",
        "Exception",
        "ValueError",
        "RuntimeError",
        "input",
        "exit",
        "quit",
        "hash",
        "slice",
    ]
}
_HANDLERS: dict[type[cst.CSTNode], Callable[..., Value]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Call: calls.call,
    cst.Integer: _number,
    cst.Float: _number,
    cst.SimpleString: _string,
    cst.ConcatenatedString: lambda machine, state, node: machine.unknown("text", id(node)),
    cst.FormattedString: _formatted,
    cst.BinaryOperation: operators.binary,
    cst.UnaryOperation: operators.unary,
    cst.BooleanOperation: operators.boolean,
    cst.Comparison: operators.comparison,
    cst.IfExp: operators.conditional,
    cst.Tuple: _display,
    cst.List: _display,
    cst.Set: _display,
    cst.Dict: _dict,
    cst.Subscript: _subscript,
    cst.Lambda: _lambda,
    cst.NamedExpr: _walrus,
    cst.ListComp: _comprehension,
    cst.SetComp: _comprehension,
    cst.GeneratorExp: _comprehension,
    cst.DictComp: _comprehension,
    cst.Await: _inner,
    cst.StarredElement: _inner,
    cst.Arg: _inner,
    cst.Yield: _yield,
}
