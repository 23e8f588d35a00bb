"""Bindings by imports, `def` and `class`."""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.modules import class_or_function, imported
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.state import MODULE_FRAME, State
from amplint.semantics.values.values import Class, Const, Function, Ref
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.constants import CONSTANTS
from amplint.torchlib.names import NEVER_RENAMED


def bind_import(machine: Machine, state: State, node: cst.Import | cst.ImportFrom) -> None:
    """Bind the names of an import statement to qualified names."""
    if isinstance(node, cst.Import):
        for alias in node.names:
            name = dotted(alias.name) or ""
            _use(machine, state, alias, name)
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                state.bind(state.frame, alias.asname.name.value, imported(machine, state, name, "") or Ref(name))
            else:
                root = name.partition(".")[0]
                state.bind(state.frame, root, imported(machine, state, root, "") or Ref(root))
        return
    module = ("." * len(node.relative)) + (dotted(node.module) or "" if node.module else "")
    if isinstance(node.names, cst.ImportStar):
        for name in NEVER_RENAMED:
            if machine.lookup(state, name) is None:
                state.bind(state.frame, name, Ref(name))
        return
    for alias in node.names:
        if not isinstance(alias.name, cst.Name):
            continue
        name = alias.name.value
        bound = alias.asname.name.value if alias.asname and isinstance(alias.asname.name, cst.Name) else name
        qualified = f"{module}.{name}"
        found = imported(machine, state, module, name)
        if found is not None:
            state.bind(state.frame, bound, found)
            continue
        state.bind(state.frame, bound, Const(CONSTANTS[qualified]) if qualified in CONSTANTS else Ref(qualified))
        _use(machine, state, alias, qualified)


def _use(machine: Machine, state: State, node: cst.CSTNode, name: str) -> None:
    for library_name in machine.hooks.library_name:
        library_name(state, node, name)


def bind_function(machine: Machine, state: State, node: cst.FunctionDef) -> None:
    """Bind the name of a nested function."""
    assert machine.chunk is not None
    _bind(machine, state, node.name.value, Function(machine.chunk, node, state.frame))


def bind_class(machine: Machine, state: State, node: cst.ClassDef) -> None:
    """Bind the name of a nested class."""
    assert machine.chunk is not None
    _bind(machine, state, node.name.value, Class(machine.chunk, node, state.frame))


def _bind(machine: Machine, state: State, name: str, value: Function | Class) -> None:
    machine.captured.add(state.frame)
    state.bind(state.frame, name, value)
    if state.frame == MODULE_FRAME:
        machine.defined_in_blocks[node_of(value)] = value


def bind_chunks(machine: Machine, state: State) -> None:
    """Bind every top-level function and class in advance, so that code may use later definitions."""
    for chunk in machine.program.main.chunks:
        if chunk.name is not None:
            state.bind(state.frame, chunk.name, class_or_function(machine, chunk))


def rebind_chunk(machine: Machine, state: State, chunk: Chunk) -> None:
    """Bind a top-level function or class again where it is defined, if code above it has bound its name."""
    assert chunk.name is not None
    bound = state.frames[state.frame].get(chunk.name)
    if not isinstance(bound, (Function, Class)) or bound.chunk is not chunk:
        state.bind(state.frame, chunk.name, class_or_function(machine, chunk))


def node_of(value: Function | Class) -> cst.FunctionDef | cst.Lambda | cst.ClassDef:
    """The definition of a value, its chunk's tree built if needed. Raises SourceError."""
    if value.node is not None:
        return value.node
    for statement in value.chunk.module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            return statement
    raise LookupError(value.chunk.name)
