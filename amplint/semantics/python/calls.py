"""Calls: resolution of the callee, and its effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from amplint.semantics.python import attributes, constants
from amplint.semantics.python.containers import (
    MOST_UNROLLED,
    comprehended,
    get_result,
    item_at,
    modified,
    passed,
    view,
)
from amplint.semantics.python.functions import call_function
from amplint.semantics.python.machine import Machine, PathEnds
from amplint.semantics.python.plain_calls import builtin, computed_number, unseen_result
from amplint.semantics.python.tracker import Call
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.choices import OBJECTS
from amplint.semantics.values.state import State
from amplint.semantics.values.symbols import Callee
from amplint.semantics.values.values import (
    Class,
    Const,
    Function,
    Instance,
    Items,
    Method,
    Module,
    Partial,
    Ref,
    Several,
    Unknown,
    Value,
    settings,
)
from amplint.source import syntax as cst

_FORWARD = "forward"
_UNSEEN = frozenset({None, "object"})
ENDS = frozenset({"builtins.exit", "builtins.quit", "sys.exit", "os._exit", "os.abort"})
_MODIFIES = frozenset({"update", "setdefault", "pop"})
"""Methods that modify a dictionary."""


def call(machine: Machine, state: State, node: cst.Call) -> Value:
    """The value of a call."""
    owner: Value | None = None
    name = ""
    if isinstance(node.func, cst.Attribute):
        name = node.func.attr.value
        if type(node.func.value) is cst.Call and _is_super(node.func.value):
            return _super_call(machine, state, node, name)
        owner = machine.evaluate(state, node.func.value)
        if type(owner) is Several and _has_method(machine, state, owner, name):
            owner = _taken(machine, state, owner)
        callee = attributes.get(machine, state, node.func, owner, name)
    else:
        callee = machine.evaluate(state, node.func)
    if type(callee) is Several:
        callee = _taken(machine, state, callee)
    arguments = _arguments(machine, state, node)
    if isinstance(callee, Method) and owner is None:
        owner, name = callee.owner, callee.name
    made = Call(node, callee, owner, name, arguments)
    for begins in machine.hooks.call_begins:
        begins(state, made)
    if isinstance(callee, Partial):
        bound = [*(Argument(*given) for given in callee.given), *arguments.given]
        made.arguments = Arguments(tuple(sorted(bound, key=lambda argument: argument.keyword is not None)))
        made.callee = _taken(machine, state, callee.callee) if type(callee.callee) is Several else callee.callee
    for resolved in machine.hooks.call_resolved:
        resolved(state, made)
    return _returned(machine, state, made, _run(machine, state, made))


def _has_method(machine: Machine, state: State, owner: Several, name: str) -> bool:
    """Whether several objects have different methods of this name in sight, and something is relevant in one."""
    options = (one.value.cls if isinstance(one.value, Instance) else one.value for one in owner.options)
    classes = (one for one in options if isinstance(one, Class))
    methods = {attributes.find_method(machine, state, cls, name) for cls in classes}
    return len(methods) > 1 and any(one and machine.slice.is_relevant_function(one.node) for one in methods)


def _taken(machine: Machine, state: State, several: Several) -> Value:
    """The one of several objects, classes or functions of the tree that a path takes, the same for all its calls.

    It is unknown if there may be another one. Several modules stay together.
    """
    if not any(isinstance(one.value, OBJECTS) for one in several.options):
        return several
    assumed = machine.assumed(state)
    known = assumed.get(("taken", several.symbol))
    if known is not None:
        taken = (one.value for one in several.options if symbol_of(machine, one.value) == known.value)
        return next(taken, Unknown(several.symbol))
    possible = [one for one in several.options if all(assumed.get(key) in (None, fact) for key, fact in one.facts)]
    others = several.open or not possible
    position = machine.choices.pick(len(possible) + others)
    if position == len(possible):
        state.facts["taken", several.symbol] = Const(several.symbol)
        return Unknown(several.symbol)
    one = possible[position]
    state.facts = {**state.facts, **dict(one.facts), ("taken", several.symbol): Const(symbol_of(machine, one.value))}
    return one.value


def _arguments(machine: Machine, state: State, node: cst.Call) -> Arguments:
    """The arguments of the call `node`, with starred ones unpacked if their members are known."""
    given = []
    for argument in node.args:
        value = machine.evaluate(state, argument.value)
        if type(value) is Const:
            value = constants.argument(machine, state, value, argument.value)
        keyword = argument.keyword.value if argument.keyword is not None else None
        if argument.star == "**":
            value = passed(machine, state, value)
        spread = _spread(argument, value) if argument.star else None
        given += [Argument(argument, value, keyword, argument.star)] if spread is None else spread
    return Arguments(tuple(given))


def _spread(argument: cst.Arg, value: Value) -> list[Argument] | None:
    """The arguments from `*value` or `**value`, None if its members are unknown."""
    if not isinstance(value, Items):
        return None
    if argument.star == "*" and value.keys is None:
        return [Argument(argument, item, None, "") for item in value.values]
    if argument.star == "**" and value.keys is not None:
        names = [key.value if isinstance(key, Const) else None for key in value.keys]
        pairs = zip(value.values, names, strict=True)
        return [Argument(argument, item, name, "") for item, name in pairs if isinstance(name, str)]
    return None


def _returned(machine: Machine, state: State, made: Call, result: Value) -> Value:
    hooks = machine.hooks
    for returns in hooks.unseen_returns if made.entered in _UNSEEN else hooks.entered_returns:
        returns(state, made, result)
    for call_returned in hooks.call_returned:
        result = call_returned(state, made, result) or result
    return result


def _run(machine: Machine, state: State, made: Call) -> Value:
    callee = made.callee
    if isinstance(callee, (Instance, Module)) and _FORWARD in state.heap.get(callee.symbol, ()):
        return _call_replaced(machine, state, made, callee)
    inside = _run_of_tree(machine, state, made)
    if inside is not None:
        return inside
    for begins in machine.hooks.unseen_begins if not isinstance(callee, Several) or callee.open else ():
        begins(state, made)
    handler = machine.hooks.callables.get(type(callee))
    if handler is not None:
        return handler(state, made)
    if isinstance(callee, Ref):
        return library(machine, state, made, callee.name)
    if isinstance(made.owner, Items) and (members := view(machine, state, made.owner, made.name)) is not None:
        return members
    if made.name in _MODIFIES and isinstance(made.owner, Items) and (changed := _modified(machine, state, made)):
        return changed
    if isinstance(made.owner, Items) and made.name == "get":
        held = get_result(machine, state, made.owner, made.arguments)
        if held is not None:
            return held
    if made.owner is not None:
        for method in machine.hooks.methods(made.name):
            found = method(state, made)
            if found is not None:
                return found
    return unseen(machine, state, made)


def _call_replaced(machine: Machine, state: State, made: Call, owner: Instance | Module) -> Value:
    """The call of an object whose `forward` an assignment has replaced."""
    made = replace(made, callee=state.heap[owner.symbol][_FORWARD])
    return _run(machine, state, made) if isinstance(made.callee, (Function, Method)) else unseen(machine, state, made)


def _modified(machine: Machine, state: State, made: Call) -> Value | None:
    """The result of a method that modifies a dictionary of settings, which its name then holds; None if unknown."""
    func, owner = made.node.func, settings(made.owner)
    if owner is None or not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
        return None
    if func.value.value not in state.frames[state.frame]:
        return None
    found = modified(machine, owner, made.name, made.arguments)
    if found is None:
        return None
    state.bind(state.frame, func.value.value, found[0])
    return found[1]


def _run_of_tree(machine: Machine, state: State, made: Call) -> Value | None:
    """The call of a function, method, class or object of the tree; `__new__` makes an object without a constructor."""
    callee = made.callee
    if isinstance(callee, Function):
        made.entered = "function"
        return _enter(machine, state, made, callee, [])
    if isinstance(callee, Method) and callee.function is not None:
        made.entered = "method"
        return _enter(machine, state, made, callee.function, receiver(callee))
    if isinstance(callee, Class):
        made.entered = "class"
        return _instantiate(machine, state, made, callee)
    if isinstance(callee, Instance):
        made.entered = "object"
        return call_instance(machine, state, made, callee)
    if isinstance(made.owner, Class) and made.name == "__new__" and made.arguments.values[:1] == (made.owner,):
        made.entered = "class"
        return Instance(machine.identity(state, made.node), made.owner)
    return None


def receiver(method: Method) -> list[Value]:
    """The first argument of a call of `method`: its owner, unless the method is static."""
    function = method.function.node if method.function else None
    decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
    names = {d.decorator.value for d in decorators if isinstance(d.decorator, cst.Name)}
    if "staticmethod" in names or (isinstance(method.owner, Class) and "classmethod" not in names):
        return []
    return [method.owner]


def _enter(machine: Machine, state: State, made: Call, function: Function, first: list[Value]) -> Value:
    positional = list(first)
    keywords: dict[str, Value] = {}
    for argument in made.arguments.given:
        if argument.star == "*":
            break
        if argument.star:
            continue
        if argument.keyword is None:
            positional.append(argument.value)
        else:
            keywords[argument.keyword] = argument.value
    return call_function(machine, state, function, positional, keywords, made.node)


def _is_super(node: cst.Call) -> bool:
    return isinstance(node.func, cst.Name) and node.func.value == "super"


def _super_call(machine: Machine, state: State, node: cst.Call, name: str) -> Value:
    me = state.frames[state.frame].get("self")
    owner = me if isinstance(me, Instance) else None
    made = Call(node, Unknown(machine.fresh()), owner, name, _arguments(machine, state, node), entered="super")
    for cls in attributes.lineage(machine, state, owner.cls)[1:] if owner is not None else ():
        function = attributes.find_method(machine, state, cls, name)
        if function is not None and function.node not in machine.calls:
            assert owner is not None
            return _returned(machine, state, made, _enter(machine, state, made, function, [owner]))
    for base in _library_bases(machine, state, owner.cls) if owner is not None else ():
        for inherited_call in machine.hooks.inherited_call:
            if (found := inherited_call(state, made, base)) is not None:
                return _returned(machine, state, made, found)
    for hook in machine.hooks.unseen:
        hook(state, made)
    return _returned(machine, state, made, Unknown(machine.fresh()))


def _library_bases(machine: Machine, state: State, cls: Class) -> Iterator[Ref]:
    above = (base for one in attributes.lineage(machine, state, cls) for base in attributes.bases(machine, state, one))
    return (base for base in above if isinstance(base, Ref))


def _instantiate(machine: Machine, state: State, made: Call, cls: Class) -> Value:
    for candidate in attributes.lineage(machine, state, cls):
        for base in attributes.bases(machine, state, candidate):
            for subclass_instance in machine.hooks.subclass_instance if isinstance(base, Ref) else ():
                found: Value | None = subclass_instance(state, made, cls, base)
                if found is not None:
                    return found
    if len(made.arguments.given) == 1 and attributes.is_enumeration(machine, state, cls):
        return made.arguments.values[0]
    instance = Instance(machine.identity(state, made.node), cls)
    initialise(machine, state, instance, made.arguments, made.node)
    return instance


def initialise(machine: Machine, state: State, made: Instance, arguments: Arguments, node: cst.Call | None) -> None:
    """Run the constructor of an object of the file."""
    function = attributes.find_method(machine, state, made.cls, "__init__")
    keywords = {argument.keyword: argument.value for argument in arguments.given if argument.keyword}
    positional = [argument.value for argument in arguments.given if not argument.keyword and not argument.star]
    if function is not None:
        call_function(machine, state, function, [made, *positional], keywords, node)
        return
    lineage = reversed(attributes.lineage(machine, state, made.cls))
    fields = dict.fromkeys(name for cls in lineage for name in attributes.declared(cls))
    given = {**dict(zip(fields, positional, strict=False)), **keywords}
    if node is None:
        given = {
            name: machine.unknown("attribute", name, parts=(made.symbol,))
            for name in fields
            if attributes.is_field(machine, state, made.cls, name)
        }
    for name, value in given.items():
        state.set_attribute(made.symbol, name, value)
    for name in attributes.CONSTRUCTORS[1:]:
        function = attributes.find_method(machine, state, made.cls, name)
        if function is not None:
            call_function(machine, state, function, [made], {}, node)


def call_instance(machine: Machine, state: State, made: Call, owner: Instance) -> Value:
    """The call of an object of the tree."""
    for name in ("__call__", _FORWARD):
        function = attributes.find_method(machine, state, owner.cls, name)
        if function is not None:
            return _enter(machine, state, made, function, [owner])
    hidden = replace(made, owner=owner, entered="object")
    for hook in machine.hooks.unseen:
        hook(state, hidden)
    return Unknown(machine.fresh())


def _mapped(machine: Machine, state: State, made: Call, function: Function, given: Value) -> Value:
    """The result of `map`: a list of the results for known elements, else like a comprehension over `given`."""
    if isinstance(given, Items) and given.keys is None and len(given.values) <= MOST_UNROLLED:
        return Items(tuple(call_function(machine, state, function, [one], {}, made.node) for one in given.values))
    source = symbol_of(machine, given)
    one = machine.unknown("each", id(made.node), parts=(source,))
    return comprehended(machine, state, [source], call_function(machine, state, function, [one], {}, made.node))


def library(machine: Machine, state: State, made: Call, name: str) -> Value:
    """The call of a library's function or class, by its qualified name. Raises PathEnds if it ends the process."""
    values = made.arguments.values
    if name == "functools.partial" and values:
        given = made.arguments.given[1:]
        return Partial(values[0], tuple((a.node, a.value, a.keyword, a.star) for a in given))
    if name in ENDS:
        raise PathEnds
    if name == "typing.cast" and len(values) == 2:
        return values[1]
    if name.startswith("builtins."):
        machine.idle.add(made.node)
    handler = machine.hooks.library.get(name)
    found: Value | None = handler(state, made) if handler is not None else None
    found = computed_number(name, made.arguments) if found is None else found
    if found is not None:
        return found
    if name == "builtins.map" and len(values) == 2 and isinstance(values[0], Function):
        return _mapped(machine, state, made, values[0], values[1])
    if name.startswith("builtins."):
        return builtin(machine, state, made.node, name, made.arguments)
    for answer in machine.hooks.library_calls(name):
        found = answer(state, made)
        if found is not None:
            return found
    for hook in machine.hooks.unseen:
        hook(state, made)
    if not name.startswith("."):
        machine.idle.add(made.node)
    return unseen_result(machine, state, name, made.arguments, made.node)


def unseen(machine: Machine, state: State, made: Call) -> Value:
    """The call of a callee whose code is not available."""
    if made.name == "get" and isinstance(made.owner, Unknown) and made.arguments.given:
        put = item_at(machine, state, made.owner, made.arguments.values[0])
        if put is not None:
            return put
    if isinstance(made.owner, Instance):
        known = made.name in state.heap.get(made.owner.symbol, {})
        made.inherited = not known and not attributes.is_assigned(machine, state, made.owner.cls, made.name)
    for hook in machine.hooks.unseen:
        hook(state, made)
    symbol = symbol_of(machine, made.callee)
    return unseen_result(machine, state, Callee(symbol), made.arguments, made.node, (symbol,))
