"""Names of other files of the tree: modules, their definitions, and their variables."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.program import Target
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Class, Const, Function, Namespace, Ref, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import walk

_CONDITIONS = cst.Comparison, cst.BooleanOperation, cst.UnaryOperation
"""What can be true or false: such variables are evaluated in irrelevant code, too, with all that they are made of."""


def global_value(machine: Machine, state: State, name: str) -> Value | None:
    """A global of the current module; of the main file only names imported by `*`."""
    source = machine.module(state)
    if source is machine.program.main and not source.star_imports:
        return None
    return _value(machine, state, machine.program.resolve(source, name), name)


def imported(machine: Machine, state: State, module: str, name: str) -> Value | None:
    """The value of importing `name` from `module` (the module itself if `name` is empty), None outside of the tree."""
    target = machine.program.imported(machine.module(state), module, name)
    return None if isinstance(target, str) else _value(machine, state, target, name or module)


def member(machine: Machine, state: State, owner: Namespace, name: str) -> Value:
    """The value of `module.name`."""
    inner = f"{owner.name}.{name}"
    if inner in machine.module(state).imports:
        found = imported(machine, state, inner, "")
        if found is not None:
            return found
    target = machine.program.resolve(owner.source, name)
    return _value(machine, state, target, inner) or machine.unknown("name", id(owner.source), name)


def class_or_function(machine: Machine, chunk: Chunk) -> Function | Class:
    """The value of a top-level definition."""
    frame = machine.frame_of(chunk.source)
    return Class(chunk, None, frame) if chunk.is_class else Function(chunk, None, frame)


def _value(machine: Machine, state: State, target: Target, name: str) -> Value | None:
    if isinstance(target, Source):
        return Namespace(target, name)
    if isinstance(target, str):
        return Ref(target)
    if target is None:
        return None
    if target.name is not None:
        return class_or_function(machine, target)
    frame, last = machine.frame_of(target.source), name.rpartition(".")[2]
    if frame == MODULE_FRAME:
        machine.read_globals.add(last)
    stored = state.frames.get(frame, {}).get(last)
    if stored is None and (frame, last) not in machine.variables:
        machine.variables[frame, last] = machine.unknown("variable", frame, last)
        machine.variables[frame, last] = _assigned(machine, state, target, last, frame)
    return stored or machine.variables[frame, last]


def _assigned(machine: Machine, state: State, chunk: Chunk, name: str, frame: int) -> Value:
    values = [value for node in walk(chunk.module) if (value := _value_for(node, name)) is not None]
    decides = machine.muted or (bool(values) and isinstance(values[0], _CONDITIONS))
    if len(values) != 1 or not (chunk in machine.relevant or decides):
        return machine.unknown("variable", frame, name)
    outer = machine.chunk
    machine.chunk = chunk
    try:
        return evaluate_silently(machine, state, frame, values[0], {})
    finally:
        machine.chunk = outer


def _value_for(node: cst.CSTNode, name: str) -> cst.BaseExpression | None:
    if isinstance(node, cst.Assign):
        targets: list[cst.BaseExpression] = [target.target for target in node.targets]
    elif isinstance(node, cst.AnnAssign):
        targets = [node.target]
    else:
        return None
    return node.value if any(isinstance(target, cst.Name) and target.value == name for target in targets) else None


def evaluate_silently(
    machine: Machine, state: State, frame: int, node: cst.BaseExpression, names: dict[str, Value]
) -> Value:
    """Evaluate out of order, with `names` in a frame below `frame`: no events, no effect on the path."""
    if len(machine.calls) > 40:
        return Unknown(machine.fresh())
    muted, calls, choices = machine.muted, machine.calls, machine.choices
    machine.muted, machine.calls = True, (*machine.calls, node)
    try:
        twin = state.copy()
        number = len(machine.parents)
        machine.parents[number] = frame
        twin.frames[number] = dict(names)
        twin.frame = number
        results = machine.outcomes(twin, lambda s: machine.evaluate(s, node)) if node not in calls else []
    finally:
        machine.muted, machine.calls, machine.choices = muted, calls, choices
    values = {value for value, _ in results} - {Const(None)}
    return values.pop() if len(values) == 1 else Unknown(machine.fresh())
