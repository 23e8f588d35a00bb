"""Variables that a loop increments: their value in one iteration says nothing about the next."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.accumulation.boundaries import COUNTER, found_in
from amplint.semantics.memory.rhythm import Rhythm
from amplint.semantics.python import attributes
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, is_short_function
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Instance, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk, cached_per_file
from amplint.source.source import Chunk
from amplint.source.tree import every

_MAX_LINES = 60
"""Maximum number of lines of a class that may be a counter."""


def counters(machine: Machine, loop: cst.For | cst.While) -> frozenset[str]:
    """The access paths that `loop` increments or advances, and that a modulo or a comparison in it tests.

    A modulo may stand in a condition behind the loop as well, which asks whether a window is left.
    """
    found = machine[Rhythm].counted.get(loop)
    if found is None:
        raised: set[str] = set()
        looked_at: set[str] = set()
        moved: set[str] = set()
        marks: set[str] = set()
        for node in every(loop, cst.AugAssign, cst.Assign, cst.BinaryOperation, cst.Comparison):
            if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
                raised |= {path for path in [dotted(node.target)] if path and isinstance(node.value, cst.Integer)}
            elif isinstance(node, cst.Assign) and isinstance(node.value, cst.Name):
                moved |= {path for path in [dotted(node.targets[0].target)] if path}
            elif isinstance(node, cst.Assign) and isinstance(node.value, cst.BinaryOperation):
                raised |= _one_more(node.targets[0].target, node.value)
            elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
                marks |= {path for path in [dotted(node.right)] if path}
            elif isinstance(node, cst.Comparison) or (
                isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)
            ):
                looked_at |= set(_paths(node))
        if not raised <= looked_at:
            looked_at |= _asked_behind(machine, loop)
        found = machine[Rhythm].counted[loop] = frozenset((raised | (moved & marks)) & looked_at)
    return found


def _one_more(target: cst.BaseExpression, value: cst.BinaryOperation) -> set[str]:
    """The access path of a `target` that is assigned itself plus a number."""
    path = dotted(target)
    added = isinstance(value.operator, cst.Add) and isinstance(value.right, cst.Integer)
    return {path} if path and added and dotted(value.left) == path else set()


def _asked_behind(machine: Machine, loop: cst.CSTNode) -> set[str]:
    """The access paths in remainders that conditions take right behind `loop`, in its block."""
    source = machine.program.source_of(loop)
    block = (
        next((one for one in source.ancestors(loop) if isinstance(one, cst.IndentedBlock)), None) if source else None
    )
    body = list(block.body) if block is not None else []
    behind = body[body.index(loop) + 1 :] if loop in body else []
    tests = (one.test for one in behind if isinstance(one, cst.If))
    remainders = (one for test in tests for one in every(test, cst.BinaryOperation))
    return {path for one in remainders if isinstance(one.operator, cst.Modulo) for path in _paths(one)}


def value_at(machine: Machine, state: State, path: str) -> Value | None:
    """The value at an access path: of a variable or an assigned attribute; None for any other."""
    first, *names = path.split(".")
    value = machine.lookup(state, first)
    for name in names:
        value = state.heap.get(symbol_of(machine, value), {}).get(name) if value is not None else None
    return value


def _method_counters(machine: Machine, state: State, loop: cst.For | cst.While) -> frozenset[str]:
    """The access paths of counters that methods called in `loop` increment and test, for objects of visible classes."""
    found: set[str] = set()
    for path, method in _called_methods(loop):
        owner = value_at(machine, state, path)
        if isinstance(owner, Instance):
            function = attributes.find_method(machine, state, owner.cls, method)
            found |= (
                {f"{path}.{name}" for name in _counted_attributes(function.node)} if function is not None else set()
            )
    return frozenset(found)


@cached_per_chunk
def window_methods(chunk: Chunk) -> frozenset[str]:
    """The methods of a short class that increment a counter and return a value, perhaps whether a window ends."""
    text = chunk.text
    if not chunk.is_class or "+= 1" not in text or "return" not in text or text.count("\n") > _MAX_LINES:
        return frozenset()
    methods = (node for cls in chunk.module.body if isinstance(cls, cst.ClassDef) for node in cls.body.body)
    counting = (node for node in methods if isinstance(node, cst.FunctionDef) and _counted_attributes(node))
    return frozenset(node.name.value for node in counting if any(one.value for one in every(node, cst.Return)))


@cached_per_chunk
def window_tests(chunk: Chunk) -> frozenset[str]:
    """The name of a short function that returns a remainder or compares one, perhaps to tell whether a window ends."""
    if not is_short_function(chunk) or "%" not in chunk.text or "return" not in chunk.text:
        return frozenset()
    remainders = (node for node in every(chunk.module, cst.BinaryOperation) if isinstance(node.operator, cst.Modulo))
    taken = any(isinstance(node.left, (cst.Name, cst.Attribute, cst.BinaryOperation)) for node in remainders)
    return frozenset({chunk.name}) if taken and chunk.name is not None else frozenset()


@cached_per_file
def _called_methods(loop: cst.For | cst.While) -> frozenset[tuple[str, str]]:
    """The methods called in a loop, each with the path of its receiver."""
    methods = (call.func for call in every(loop, cst.Call) if isinstance(call.func, cst.Attribute))
    return frozenset((path, one.attr.value) for one in methods if (path := dotted(one.value)) is not None)


@cached_per_file
def _counted_attributes(method: cst.CSTNode | None) -> frozenset[str]:
    """The attributes of `self` that a method both increments and tests."""
    if not isinstance(method, cst.FunctionDef) or not method.params.params:
        return frozenset()
    me = f"{method.params.params[0].name.value}."
    added = (one for one in every(method, cst.AugAssign) if isinstance(one.operator, cst.AddAssign))
    raised = {dotted(one.target) for one in added if isinstance(one.value, cst.Integer)}
    tested = {path for one in every(method, cst.Comparison, cst.BinaryOperation) for path in _paths(one)}
    return frozenset(path.removeprefix(me) for path in tested & raised if path is not None and path.startswith(me))


def _paths(node: cst.CSTNode) -> Iterator[str]:
    for inner in every(node, cst.Name, cst.Attribute):
        path = dotted(inner)
        if path:
            yield path


def _start(machine: Machine, before: Value | None) -> int | None:
    """The number at which a counter starts, on one of the paths that lead to the loop: the other ones resume."""
    if isinstance(before, Unknown) and machine.symbols.key(before.symbol)[0] == "either":
        options = [one for one in machine.symbols.key(before.symbol)[1:] if isinstance(one, Const)]
        before = options[0] if len(options) == 1 and found_in(machine, [before.symbol], COUNTER) is None else None
    return before.value if isinstance(before, Const) and type(before.value) is int else None


def begin_iteration(machine: Machine, state: State, loop: cst.For | cst.While, first: bool) -> None:
    """Forget the counters of `loop` as an iteration begins; the `first` one records their initial values."""
    for path in counters(machine, loop) | _method_counters(machine, state, loop):
        owner, _, name = path.rpartition(".")
        symbol = -1
        if owner:
            value = value_at(machine, state, owner)
            symbol = symbol_of(machine, value) if value is not None else -1
            before = state.heap.get(symbol, {}).get(name)
        else:
            before = state.frames[state.frame].get(name)
        number = _start(machine, before)
        key = (id(loop), path)
        if first:
            machine[Rhythm].starts[key] = number
        counter = Unknown(
            machine.symbols.intern(COUNTER, id(loop), path, state.iteration[-1], time=state.iteration[-1])
        )
        if owner:
            state.set_attribute(symbol, name, counter)
        else:
            state.bind(state.frame, name, counter)
