"""Attribute access: members of modules, objects of the file, and attributes of PyTorch's own objects."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.records import dataclass
from amplint.semantics.python.constants import held
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.functions import annotated, call_function
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import evaluate_silently, imported
from amplint.semantics.python.modules import member as module_member
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.bodies import getter, is_property
from amplint.semantics.reading.scopes import access_path, dotted
from amplint.semantics.values.state import State
from amplint.semantics.values.values import (
    FALSE,
    NONE,
    Class,
    Const,
    Device,
    Function,
    Instance,
    Items,
    Manager,
    Method,
    Module,
    Namespace,
    Ref,
    Unknown,
    Value,
)
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.constants import CONSTANTS

CONSTRUCTORS = ("__init__", "__post_init__", "__attrs_post_init__")
"""The methods that make an object: `__init__`, and what runs behind those that dataclasses and attrs write."""
_WRITE_CONSTRUCTORS = frozenset({"dataclass", "define", "mutable", "frozen", "attrs", "s"})
"""Decorators of `dataclasses` and attrs that write `__init__`."""
_NUMBERS = (cst.Integer, cst.Float, cst.SimpleString)
_PLACES = ("values", "indices")
"""The names of what operations along a dimension return."""
_AUTO = Ref("enum.auto")
_PLAIN_BASES = frozenset({"builtins.object", "abc.ABC", "torch.nn.Module", "torch.nn.modules.module.Module"})


def get(machine: Machine, state: State, node: cst.CSTNode, owner: Value, name: str) -> Value:
    """The value of `owner.name`."""
    if isinstance(owner, Ref):
        qualified = f"{owner.name}.{name}"
        if qualified in CONSTANTS:
            return Const(CONSTANTS[qualified])
        inner = imported(machine, state, qualified, "") if qualified in machine.module(state).imports else None
        if inner is not None:
            return inner
        for library_name in machine.hooks.library_name:
            library_name(state, node, qualified)
        return Ref(qualified)
    if isinstance(owner, Namespace):
        return module_member(machine, state, owner, name)
    if isinstance(owner, (Instance, Class)):
        return member(machine, state, owner, name, node)
    if isinstance(owner, Items) and owner.keys is not None:
        put = state.heap.get(symbol_of(machine, owner), {}).get(name)
        if put is not None:
            return put
    for attribute_value in machine.hooks.attribute_value:
        found: Value | None = attribute_value(state, owner, name)
        if found is not None:
            return found
    if isinstance(owner, Items) and owner.keys is None and name in _PLACES[: len(owner.values)]:
        return owner.values[_PLACES.index(name)]
    symbol = getattr(owner, "symbol", None)
    if symbol is None:
        return Method(owner, name)
    stored = state.heap.get(symbol, {}).get(name)
    if stored is not None:
        return stored
    return _declared(machine, state, symbol, name) if isinstance(owner, (Unknown, Manager)) else Method(owner, name)


def with_kind(machine: Machine, value: Value, node: cst.Name | cst.Attribute | cst.Subscript) -> Value:
    """`value`, or, if it is unknown, the kind that other uses of this access path imply."""
    if isinstance(value, Unknown) and (kinds := machine.kinds()):
        path = access_path(node) or ""
        kind = kinds.get(path)
        for kind_of in machine.hooks.kind_of if kind is not None else ():
            known: Value | None = kind_of(value, path, kind)
            if known is not None:
                return known
    return value


def _declared(machine: Machine, state: State, owner: int, name: str) -> Value:
    """The value of an attribute never assigned, by its annotation in the class of the object `owner`.

    A device annotation implies the attribute's type where the annotation cannot be resolved.
    """
    value = machine.unknown("attribute", name, parts=(owner,))
    cls = machine.classes.get(owner)
    if cls is None:
        return value
    known = _by_annotation(machine, state, cls, name, value)
    if isinstance(known, Unknown) and isinstance(_class_attribute(machine, state, cls, name), Device):
        return Device(None)
    return known


def _by_annotation(machine: Machine, state: State, cls: Class, name: str, value: Unknown) -> Value:
    """The attribute `name` of an object, by its annotation in the body of the object's class."""
    for candidate in lineage(machine, state, cls):
        annotation = declared(candidate).get(name)
        if annotation is not None:
            twin = state.copy()
            twin.frame = candidate.frame
            return annotated(machine, twin, annotation, value)
    return value


def member(
    machine: Machine, state: State, owner: Instance | Class, name: str, node: cst.CSTNode | None = None
) -> Value:
    """The value of `owner.name` for an object or class of the file, read by the expression `node`."""
    if isinstance(owner, Instance):
        stored = state.heap.get(owner.symbol, {}).get(name)
        if stored is not None:
            return stored
    cls = owner.cls if isinstance(owner, Instance) else owner
    function = find_method(machine, state, cls, name)
    if function is not None:
        if isinstance(owner, Instance) and is_property(function.node):
            read = getter(function.node)
            if read is not None:
                return _read_property(machine, state, owner, function, name, *read)
            return call_function(machine, state, function, [owner], {}, None, read=node)
        return Method(owner, name, function)
    value = _class_attribute(machine, state, cls, name)
    if value is None and isinstance(owner, Instance):
        value = _set_elsewhere(machine, state, owner, name)
    if value is None:
        unknown = machine.unknown("attribute", name, parts=(symbol_of(machine, owner),))
        return _by_annotation(machine, state, cls, name, unknown) if isinstance(owner, Instance) else unknown
    return value


def _read_property(
    machine: Machine,
    state: State,
    owner: Instance,
    function: Function,
    name: str,
    parameter: str,
    returned: cst.BaseExpression,
) -> Value:
    """The value of a property that returns the expression `returned`, unknown within that expression itself."""
    reading = owner.symbol, returned
    if reading in machine.properties_read:
        return machine.unknown("attribute", name, parts=(owner.symbol,))
    twin = state.copy()
    twin.frame = machine.new_frame(function)
    twin.frames[twin.frame] = {parameter: owner}
    machine.properties_read.add(reading)
    try:
        return machine.evaluate(twin, returned)
    finally:
        machine.properties_read.remove(reading)


def find_method(machine: Machine, state: State, cls: Class, name: str) -> Function | None:
    """The method `name` of a class of the file, or of its bases in the file."""
    for candidate in lineage(machine, state, cls):
        found = members(candidate).get(name)
        if isinstance(found, cst.FunctionDef):
            return Function(candidate.chunk, found, candidate.frame, candidate)
    return None


def lineage(machine: Machine, state: State, cls: Class) -> list[Class]:
    """A class and its bases in the file, in method resolution order for simple inheritance."""
    known = machine.lineages.get(cls)
    if known is None:
        known = machine.lineages[cls] = [cls]
        for base in bases(machine, state, cls):
            if isinstance(base, Class) and base not in known:
                known += [above for above in lineage(machine, state, base) if above not in known]
    return known


def is_whole(machine: Machine, state: State, cls: Class) -> bool:
    """Whether every base of a class is known: in the tree, or a plain one of PyTorch or Python."""
    above = [base for one in lineage(machine, state, cls) for base in bases(machine, state, one)]
    return all(isinstance(base, Class) or (isinstance(base, Ref) and base.name in _PLAIN_BASES) for base in above)


def bases(machine: Machine, state: State, cls: Class) -> list[Value]:
    """The bases of a class."""
    node = node_of(cls)
    assert isinstance(node, cst.ClassDef)
    twin = state.copy()
    twin.frame = cls.frame
    return [machine.evaluate(twin, argument.value) for argument in node.bases]


def is_enumeration(machine: Machine, state: State, cls: Class) -> bool:
    """Whether a class is an enumeration: calling it looks up a member and creates nothing."""
    every = (base for above in lineage(machine, state, cls) for base in bases(machine, state, above))
    return any(isinstance(base, Ref) and base.name.startswith("enum.") for base in every)


@cached_per_file
def members(cls: Class) -> dict[str, cst.CSTNode]:
    """Name -> method definition or assigned expression, for the body of a class; `size.setter` of a property."""
    node = node_of(cls)
    assert isinstance(node, cst.ClassDef)
    found: dict[str, cst.CSTNode] = {}
    for statement in node.body.body:
        if isinstance(statement, cst.FunctionDef):
            found[_accessor(statement) or statement.name.value] = statement
        elif isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
                    found[small.targets[0].target.value] = small.value
                elif isinstance(small, cst.AnnAssign) and small.value and isinstance(small.target, cst.Name):
                    found[small.target.value] = small.value
    return found


def _accessor(method: cst.FunctionDef) -> str | None:
    """`size.setter` or `size.deleter` for such a part of the property `size`; None for any other method."""
    for one in method.decorators:
        path = dotted(one.decorator)
        if path in (f"{method.name.value}.setter", f"{method.name.value}.deleter"):
            return path
    return None


def find_setter(machine: Machine, state: State, owner: Instance, name: str) -> Function | None:
    """The setter of the property `name` of an object of the file, where one is defined and followed."""
    if not _has_setters(owner.cls.chunk.source) or owner.cls.chunk not in machine.relevant:
        return None
    return find_method(machine, state, owner.cls, f"{name}.setter")


@cached_per_file
def _has_setters(source: Source) -> bool:
    return ".setter" in source.text


@cached_per_file
def declared(cls: Class) -> dict[str, cst.Annotation]:
    """Name -> annotation, for the annotated variables in the body of a class."""
    node = node_of(cls)
    assert isinstance(node, cst.ClassDef)
    lines = [line for line in node.body.body if isinstance(line, cst.SimpleStatementLine)]
    declared = [small for line in lines for small in line.body if isinstance(small, cst.AnnAssign)]
    return {one.target.value: one.annotation for one in declared if isinstance(one.target, cst.Name)}


def is_field(machine: Machine, state: State, cls: Class, name: str) -> bool:
    """Whether callers may pass `name` to the constructor that a decorator writes, instead of a constant default."""
    for candidate in lineage(machine, state, cls):
        if name in declared(candidate):
            default = members(candidate).get(name)
            constant = isinstance(default, _NUMBERS) or (isinstance(default, cst.Name) and default.value != "None")
            return constant and _has_written_constructor(candidate)
    return False


def _has_written_constructor(cls: Class) -> bool:
    node = node_of(cls)
    assert isinstance(node, cst.ClassDef)
    uses = [decorator.decorator for decorator in node.decorators]
    names = [dotted(use.func if isinstance(use, cst.Call) else use) or "" for use in uses]
    return any(name.rpartition(".")[2] in _WRITE_CONSTRUCTORS for name in names)


def _class_attribute(machine: Machine, state: State, cls: Class, name: str) -> Value | None:
    """The value that the body of a class assigns to `name`; a None there is a placeholder, hence unknown."""
    for candidate in lineage(machine, state, cls):
        found = members(candidate).get(name)
        if isinstance(found, cst.Call) and evaluate_silently(machine, state, candidate.frame, found.func, {}) == _AUTO:
            node = node_of(candidate)
            assert isinstance(node, cst.ClassDef)
            return Ref(f"{node.name.value}.{name}")
        if isinstance(found, cst.Name) and found.value == "None":
            return None
        if isinstance(found, cst.BaseExpression):
            value = evaluate_silently(machine, state, candidate.frame, found, {})
            return held(machine, candidate.chunk.source, value, found)
    return None


def _set_elsewhere(machine: Machine, state: State, owner: Instance, name: str) -> Value | None:
    """The value that other methods assign to `self.name`, if all agree on its kind."""
    if (owner.cls, name) in machine.never_set:
        return None
    value = _assigned_value(machine, state, owner, lineage(machine, state, owner.cls), name)
    if value is None and not is_assigned(machine, state, owner.cls, name):
        value = _assigned_value(machine, state, owner, _below(machine, state, owner.cls), name)
    if value is None:
        machine.never_set.add((owner.cls, name))
        return None
    for set_elsewhere in machine.hooks.set_elsewhere:
        value = set_elsewhere(value) or value
    state.set_attribute(owner.symbol, name, value)
    return value


def _below(machine: Machine, state: State, cls: Class) -> list[Class]:
    """The classes of the file that derive from a class, by their names."""
    source, own = cls.chunk.source, cls.chunk.name
    below: list[Class] = []
    for chunk in source.chunks if own is not None else ():
        if chunk.is_class and chunk is not cls.chunk and own in chunk.words and chunk.name is not None:
            value = evaluate_silently(machine, state, cls.frame, cst.Name(chunk.name), {})
            if isinstance(value, Class) and cls in lineage(machine, state, value):
                below.append(value)
    return below


def _assigned_value(
    machine: Machine, state: State, owner: Instance, classes: Sequence[Class], name: str
) -> Value | None:
    """The one value that methods of `classes` assign to the attribute `name` of `owner`."""
    found: list[Value] = []
    for cls in classes:
        for assignment in _self_assignments(cls).get(name, ()):
            if assignment.value is None:
                return None
            found.append(evaluate_silently(machine, state, cls.frame, assignment.value, {assignment.me: owner}))
    known = [value for value in found if value != Const(None)]
    return None if len(known) != 1 or isinstance(known[0], (Unknown, Const)) else known[0]


def is_assigned(machine: Machine, state: State, cls: Class, name: str) -> bool:
    """Whether a method of the class assigns `self.name`."""
    return any(name in _self_assignments(candidate) for candidate in lineage(machine, state, cls))


@dataclass(frozen=True, slots=True)
class SelfAssignment:
    """`self.name = value` in a method; `value` is None for unpacking."""

    method: str
    me: str
    value: cst.BaseExpression | None


@cached_per_file
def _self_assignments(cls: Class) -> dict[str, list[SelfAssignment]]:
    found: dict[str, list[SelfAssignment]] = {}
    for name, method in members(cls).items():
        if not isinstance(method, cst.FunctionDef) or not method.params.params:
            continue
        me = method.params.params[0].name.value
        for node in every(method, cst.Assign, cst.AnnAssign, cst.AugAssign):
            if isinstance(node, cst.Assign):
                targets = [target.target for target in node.targets]
            else:
                assert isinstance(node, (cst.AnnAssign, cst.AugAssign))
                targets = [node.target]
            for target in targets:
                for inner in every(target, cst.Attribute) if not isinstance(target, cst.Name) else ():
                    if dotted(inner.value) == me:
                        whole = inner is target and not isinstance(node, cst.AugAssign)
                        value = node.value if whole else None
                        found.setdefault(inner.attr.value, []).append(SelfAssignment(name, me, value))
    return found


def set_by_name(machine: Machine, state: State, owner: Value, name: Value, value: Value) -> None:
    """Set an attribute as `setattr` does; a None is a placeholder, hence unknown."""
    if value == NONE:
        return
    if isinstance(name, Const):
        state.set_attribute(symbol_of(machine, owner), str(name.value), value)
    else:
        fill(machine, state, owner)


def fill(machine: Machine, state: State, owner: Value) -> None:
    """Forget constant attributes of an object, each of which a computed name may have set."""
    if not isinstance(owner, Instance):
        return
    names = {name for cls in lineage(machine, state, owner.cls) for name in members(cls)}
    names |= set(filter(str.isidentifier, state.heap.get(owner.symbol, {})))
    for name in names:
        if isinstance(get(machine, state, node_of(owner.cls), owner, name), Const):
            state.set_attribute(owner.symbol, name, machine.unknown("attribute", name, parts=(owner.symbol,)))


def reopen(machine: Machine, state: State, me: Instance) -> None:
    """Forget attributes set by constructors that others may have set since, for `me` and its parts.

    Other methods may, and users of the object a public flag that the constructor switches off. One that an unseen base
    class reads is a setting of that class.
    """
    todo: list[Value] = [me]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, Items):
            todo += value.values
        elif isinstance(value, Module):
            todo += value.parts
        elif isinstance(value, Instance) and value.symbol not in seen:
            seen.add(value.symbol)
            _reopen(machine, state, value)
            todo += state.heap.get(value.symbol, {}).values()


def _reopen(machine: Machine, state: State, one: Instance) -> None:
    table = dict(state.heap.get(one.symbol, {}))
    for cls in lineage(machine, state, one.cls):
        for name, assignments in _self_assignments(cls).items():
            value = table.get(name)
            if not isinstance(value, Const):
                continue
            others = any(assignment.method not in CONSTRUCTORS for assignment in assignments)
            switch = value == FALSE and not name.startswith("_")
            if others or (switch and is_whole(machine, state, one.cls)):
                del table[name]
    state.heap[one.symbol] = table
