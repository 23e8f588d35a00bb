"""Code that regions reach by name, and kernels among it that take no half."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set

from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.names import FLOAT32_KERNELS
from amplint.training.bindings import bound_paths, called_name
from amplint.training.callables import is_of_data
from amplint.training.givers import modules_asked
from amplint.training.observed import AT_HOME

_DYNAMIC = frozenset({"import_module", "__import__", "globals", "eval", "vars"})
"""Ways to call what no name tells."""


def reached(program: Program, names: Set[str]) -> Iterator[Chunk]:
    """The chunks of these `names`, or with methods that are losses by such names, and those that they name.

    Classes of data are left out.
    """
    source = program.main
    every_name = not names.isdisjoint(_DYNAMIC)
    modules = modules_asked(program)
    mentioned = (one for chunk in source.chunks for one in program.mentions[chunk])
    losses = {one for one in names if SPEAKS_OF_LOSS.search(one)}
    named = (
        one
        for one in mentioned
        if every_name or one.name in names or one.source in modules or (one.is_class and _methods(one) & losses)
    )
    for chunk in made_of(program, dict.fromkeys(named)):
        if chunk.source is not source or every_name or chunk.name in names:
            yield chunk


def _methods(chunk: Chunk) -> set[str]:
    return {one.name.value for one in every(chunk.module, cst.FunctionDef)}


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


def computes_with_numpy(source: Source) -> bool:
    """Whether a file imports NumPy, and neither PyTorch nor all that another module has."""
    roots = {one.module.partition(".")[0] for one in source.imports.values()}
    return "numpy" in roots and "torch" not in roots and not source.star_imports


def kernels(program: Program, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, cst.CSTNode]]:
    """Functions of other files with a backward pass of their own, each with what is out of sight in the forward one."""
    for chunk in chunks:
        home = chunk.source
        for node in every(chunk.module, cst.Name, cst.Attribute) if _is_elsewhere(chunk, program) else ():
            path = dotted(node) or ""
            root = path.partition(".")[0]
            one = home.imports.get(root)
            compiled = one is None and "." in path and root in home.definitions and _compiles(home)
            if not compiled and (one is None or one.module.partition(".")[0] in AT_HOME - {""}):
                continue
            if not _is_in_forward(home, node):
                continue
            if not isinstance(program.resolve(home, path), (Chunk, Source)):
                yield chunk, node
                break


def kernels_of_libraries(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, cst.CSTNode, str]]:
    """The first use in `chunks` of each library whose kernels take float32 alone."""
    told = set[str]()
    for chunk in chunks:
        roots = {
            name: one.module.partition(".")[0] for name, one in chunk.source.imports.items() if name in chunk.words
        }
        for node in every(chunk.module, cst.Name) if FLOAT32_KERNELS & set(roots.values()) - told else ():
            library = roots.get(node.value, "")
            if library in FLOAT32_KERNELS - told and not isinstance(chunk.source.parent(node), cst.ImportAlias):
                told.add(library)
                yield chunk, node, library


def first_lstms(program: Program, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, cst.CSTNode]]:
    """The first LSTM that `chunks` of each file make; with projections it needs no oneDNN."""
    told = set[Source]()
    for chunk in chunks:
        for call in every(chunk.module, cst.Call) if "LSTM" in chunk.words and chunk.source not in told else ():
            own = isinstance(program.resolve(chunk.source, dotted(call.func) or ""), Chunk)
            projects = any(one.keyword is not None and one.keyword.value == "proj_size" for one in call.args)
            if called_name(call) == "LSTM" and not own and not projects:
                told.add(chunk.source)
                yield chunk, call
                break


def _compiles(source: Source) -> bool:
    """Whether a file compiles an extension, which it keeps in a variable."""
    return any("cpp_extension" in chunk.words for chunk in source.chunks)


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
