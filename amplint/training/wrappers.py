"""Optimizers that are objects of the project: they step one of PyTorch's, and a gradient scaler cannot step them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amplint.engine.modules import Lookups
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import bound_paths, called_name, matched, positional
from amplint.training.calls import Calls
from amplint.training.definitions import reaching_definitions, value_of
from amplint.training.givers import importers
from amplint.training.script import Script
from amplint.training.surroundings import modules

_HOOKS = frozenset({"register_backward_hook", "register_full_backward_hook"})
_DEPTH = 4
"""The number of assignments and calls through which an optimizer is followed."""


def wrapper(script: Script, calls: Calls, optimizer: cst.BaseExpression) -> str | None:
    """Why a scaler cannot step `optimizer`, which can be an object of a class of another file; None if it can."""
    programs: dict[Source, Program] = {}
    for home, call in _constructions(script, calls, optimizer, dotted(optimizer), _DEPTH):
        if home not in programs:
            programs[home] = Program(home, Lookups(modules(), home))
        targets = list(_made_by(programs[home], home, call, _DEPTH))
        for one in targets:
            for hook in (each for each in every(one.module, cst.Call) if called_name(each) in _HOOKS):
                where = os.path.relpath(one.source.path, os.path.dirname(script.path)) if script.path else ""
                return f"{where}:{one.span(hook).start.row} gathers gradients in backward passes, which carry the scale"
        if any(one.source is not script.source and _steps_another(one) for one in targets):
            if home is script.source:
                return "an optimizer steps in another file"
            where = f"{os.path.relpath(home.path, os.path.dirname(script.path))}:{home.span(call).start.row}"
            return f"{where} gives it an optimizer that is none of PyTorch's, which alone a scaler steps"
    return None


def _made_by(program: Program, home: Source, call: cst.Call, depth: int) -> Iterator[Chunk]:
    """The class that `call` constructs, or those that the function which it calls returns objects of."""
    target = program.resolve(home, dotted(call.func) or "")
    if not isinstance(target, Chunk):
        return
    if target.is_class:
        yield target
        return
    returned = [one.value for one in every(target.module, cst.Return)] if depth else []
    names = {dotted(value) for value in returned if value is not None} - {None}
    assigned = (one.value for one in every(target.module, cst.Assign) if bound_paths(one, whole=True) & names)
    for value in (*returned, *assigned):
        if isinstance(value, cst.Call):
            yield from _made_by(program, target.source, value, depth - 1)


def _steps_another(chunk: Chunk) -> bool:
    """Whether a chunk is a class that has a `step`, and nothing of an optimizer that a scaler reads."""
    classes = [one for one in chunk.module.body if isinstance(one, cst.ClassDef)]
    plain = all(dotted(base.value) == "object" for one in classes for base in one.bases)
    methods = {one.name.value for one in every(chunk.module, cst.FunctionDef)}
    own = {"param_groups", "__getattr__"} & methods or "self.param_groups" in map(
        dotted, every(chunk.module, cst.Attribute)
    )
    return chunk.is_class and plain and "step" in methods and not own


def _constructions(
    script: Script, calls: Calls, node: cst.CSTNode, path: str | None, depth: int
) -> Iterator[tuple[Source, cst.Call]]:
    """The calls that can make what `path` is at `node`, each with its file: this one, or one that imports it."""
    if path is None or not depth:
        return
    bindings, function = reaching_definitions(script, calls, node, path)
    values = [value_of(binding, path) for binding in bindings]
    values += _passed(script, script.source, function, path) if function is not None else ()
    for value in values:
        if isinstance(value, cst.Call):
            yield script.source, value
        elif value is not None:
            yield from _constructions(script, calls, value, dotted(value), depth - 1)
    if function is None or not script.path:
        return
    for source in importers(script.source):
        for given in _passed(script, source, function, path):
            yield from ((source, call) for call in _assigned(source, dotted(given)))


def _passed(script: Script, source: Source, function: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression]:
    """What `source` passes to the parameter `name` of `function`, by the name of that or its class."""
    owner = script.method_owner(function)
    called = owner.name.value if owner is not None and function.name.value == "__init__" else function.name.value
    names = [one.name.value for one in positional(function)][0 if owner is None else 1 :]
    for chunk in source.chunks:
        for call in every(chunk.module, cst.Call):
            given = matched(call, names) if called_name(call) == called else ()
            yield from (argument.value for parameter, argument in given if parameter == name)


def _assigned(source: Source, path: str | None) -> Iterator[cst.Call]:
    """The calls whose result a file assigns to `path`."""
    for chunk in source.chunks:
        for assign in every(chunk.module, cst.Assign):
            if path in bound_paths(assign, whole=True) and isinstance(assign.value, cst.Call):
                yield assign.value
