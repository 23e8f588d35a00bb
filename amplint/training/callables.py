"""Functions, classes and objects that the code of regions may call, by name."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Set

from amplint.edits.casting import TENSOR_METHODS
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import bound_by, every, walk
from amplint.training.bindings import bound_paths, called_name, matched, positional

_CALLED_ANYHOW = frozenset({"forward", "__call__"})
_ITERATION = frozenset({"next", "iter"})
_OWNERS = ("self", "cls")
_Definitions = dict[str, list[tuple[cst.CSTNode, cst.CSTNode | None]]]
"""Last name -> its definitions, each with the function that alone sees it, if there is one."""


def called_names(source: Source, regions: Iterable[cst.CSTNode]) -> set[str]:
    """The last names of what `regions` of a file may call, and of what the callees are made of, transitively.

    Every name may be one of a callee, except elements of what a loop runs over and classes of data.
    """
    defined, iterated = _definitions(source)
    callees, arguments, waiting = set[str](), set[str](), deque[cst.CSTNode](regions)
    passing = {one for region in waiting for one in _made_in_each_round(source, region)}
    seen = set[cst.CSTNode]()
    while waiting:
        node = waiting.popleft()
        called, given = _names(node)
        around = {None, node, *source.ancestors(node)}
        found = [each for name in called for each in (*defined.get(name, ()), *iterated.get(name, ()))]
        values = (each for name in given - called for each in defined.get(name, ()) if each[0] not in passing)
        new = {one: None for one, home in (*found, *values) if home in around and one not in seen}
        seen |= new.keys()
        waiting += new
        callees |= called
        arguments |= given
    return callees | arguments


def _made_in_each_round(source: Source, region: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The expressions in the loops around a region: what they give is data, and no model."""
    for above in source.ancestors(region):
        if isinstance(above, (cst.FunctionDef, cst.ClassDef)):
            return
        if isinstance(above, (cst.For, cst.While)):
            yield from (one for one in walk(above.body) if isinstance(one, cst.BaseExpression))


def _names(node: cst.CSTNode) -> tuple[set[str], set[str]]:
    """The last names of callees in `node` and of their receivers, and all other names, unless it takes an element.

    Of `super(...)` there are none.
    """
    called = set((dotted(node) or "").split(".")) - {""}
    calls = list(every(node, cst.Call))
    bases = {name for call in calls if called_name(call) == "super" for name in every(call, cst.Name)}
    for call in calls:
        if not (isinstance(call.func, cst.Attribute) and called_name(call) in TENSOR_METHODS):
            called |= {name.value for name in every(call.func, cst.Name) if name not in bases}
    takes = any(called_name(call) in _ITERATION for call in calls)
    return called, {name.value for name in every(node, cst.Name) if name not in bases} if not takes else set()


def _definitions(source: Source) -> tuple[_Definitions, _Definitions]:
    """Last name -> its definitions in the file; -> what the loops that bind it run over."""
    defined, iterated = _Definitions(), _Definitions()
    for name, node, loop in (one for chunk in source.chunks for one in _bound(chunk.module, source)):
        local = isinstance(node, cst.BaseExpression) and "." not in name
        home = source.function_around(node) if local else None
        (iterated if loop else defined).setdefault(name.rpartition(".")[2], []).append((node, home))
    calls = [call for chunk in source.chunks for call in every(chunk.module, cst.Call)]
    for chunk in source.chunks:
        for function in every(chunk.module, cst.FunctionDef):
            given = [call for call in calls if called_name(call) in (function.name.value, chunk.name)]
            names = [param.name.value for param in positional(function) if param.name.value not in _OWNERS]
            for name, argument in (each for one in given for each in matched(one, names)):
                defined.setdefault(name, []).append((argument.value, function))
    return defined, iterated


def live_functions(chunks: Iterable[Chunk], names: Set[str]) -> set[cst.FunctionDef]:
    """The functions and methods of `chunks` that run where `names` are called, directly or through each other.

    Whatever such code mentions may be called; a forward pass is, in each class, and so is what a constructor stores.
    """
    waiting = {one: one.name.value for chunk in chunks for one in every(chunk.module, cst.FunctionDef)}
    known, live = {*names, *_CALLED_ANYHOW}, set[cst.FunctionDef]()
    constructors = (one for one, name in waiting.items() if name == "__init__")
    stored = ((dotted(one.value) or "").rpartition(".")[2] for each in constructors for one in every(each, cst.Assign))
    known.update(stored)
    while True:
        new = [one for one, name in waiting.items() if name in known]
        if not new:
            return live
        for function in new:
            del waiting[function]
            live.add(function)
            known |= {one.value for one in every(function.body, cst.Name)}


def is_of_data(node: cst.CSTNode) -> bool:
    """Whether `node` is a class of collections, and not of models."""
    body = node.body.body if isinstance(node, cst.ClassDef) else ()
    methods = {one.name.value for one in body if isinstance(one, cst.FunctionDef)}
    return bool(methods & {"__getitem__", "__iter__"}) and "forward" not in methods


def _bound(module: cst.CSTNode, source: Source) -> Iterator[tuple[str, cst.CSTNode, bool]]:
    """The names that a module binds, each with its definition, and whether that is iterated."""
    for node in walk(module):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            if not is_of_data(node):
                yield node.name.value, node.body, False
        elif isinstance(node, cst.ImportAlias):
            yield bound_by(node), node.name, False
        elif isinstance(node, (cst.For, cst.CompFor)):
            yield from ((name, node.iter, True) for name in bound_paths(node, whole=True))
        elif isinstance(node, cst.With):
            yield from ((name, item.item, False) for item in node.items for name in bound_paths(node, whole=True))
        elif isinstance(node, (cst.Assign, cst.AnnAssign, cst.NamedExpr)) and node.value is not None:
            yield from ((name, node.value, False) for name in bound_paths(node, whole=True))
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            owner = dotted(node.value.func.value) if isinstance(node.value.func, cst.Attribute) else None
            if owner is not None and owner.partition(".")[0] not in source.imports:
                yield from ((owner, one.value, False) for one in node.value.args)
