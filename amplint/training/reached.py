"""Code that regions reach by name, and kernels among it that take no half."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set

from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import bound_paths
from amplint.training.callables import is_of_data
from amplint.training.givers import modules_asked
from amplint.training.observed import AT_HOME

_DYNAMIC = frozenset({"import_module", "__import__", "globals", "eval", "vars"})
"""Ways to call what no name tells."""


def reached(program: Program, names: Set[str]) -> Iterator[Chunk]:
    """The chunks of these `names`, and those that they name, except for classes of data."""
    source = program.main
    every_name = not names.isdisjoint(_DYNAMIC)
    modules = modules_asked(program)
    mentioned = (one for chunk in source.chunks for one in program.mentions[chunk])
    named = (one for one in mentioned if every_name or one.name in names or one.source in modules)
    for chunk in made_of(program, dict.fromkeys(named)):
        if chunk.source is not source or every_name or chunk.name in names:
            yield chunk


def made_of(program: Program, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """`chunks` and all chunks reachable from them by name."""
    waiting, seen = deque(chunks), set[Chunk]()
    while waiting:
        chunk = waiting.popleft()
        if chunk not in seen and not any(map(is_of_data, chunk.module.body if chunk.is_class else ())):
            seen.add(chunk)
            waiting += (one for one in program.mentions.get(chunk, ()) if not _is_only_asked_for(one, chunk))
            yield chunk


def _is_only_asked_for(one: Chunk, chunk: Chunk) -> bool:
    """Whether `chunk` names another one, or what that assigns, in checks of types alone."""
    if "isinstance" not in chunk.words:
        return False
    assigned = (path for assign in every(one.module, cst.Assign) for path in bound_paths(assign))
    names = {*assigned} if one.name is None else {one.name}
    named = [node for node in every(chunk.module, cst.Name) if node.value in names]
    asked = {
        node
        for call in every(chunk.module, cst.Call)
        if dotted(call.func) == "isinstance"
        for argument in call.args[1:]
        for node in every(argument, cst.Name)
    }
    return bool(named) and all(node in asked for node in named)


def kernels(program: Program, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, cst.CSTNode]]:
    """Functions of other files with a backward pass of their own, each with what is out of sight in the forward one."""
    for chunk in chunks:
        home = chunk.source
        for node in every(chunk.module, cst.Name, cst.Attribute) if _is_elsewhere(chunk, program) else ():
            path = dotted(node) or ""
            one = home.imports.get(path.partition(".")[0])
            if one is None or one.module.partition(".")[0] in AT_HOME - {""} or not _is_in_forward(home, node):
                continue
            if not isinstance(program.resolve(home, path), (Chunk, Source)):
                yield chunk, node
                break


def _is_elsewhere(chunk: Chunk, program: Program) -> bool:
    """Whether a chunk of another file may define a function with a backward pass."""
    return chunk.source is not program.main and bool(chunk.source.path) and "Function" in chunk.words


def _is_in_forward(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is in the forward pass of a class that defines the backward pass as well."""
    above = list(source.ancestors(node))
    owner = next((one for one in above if isinstance(one, cst.ClassDef)), None)
    functions = (one.name.value for one in above if isinstance(one, cst.FunctionDef))
    methods = {one.name.value for one in every(owner, cst.FunctionDef)} if owner is not None else set()
    return "forward" in functions and {"forward", "backward"} <= methods
