"""Methods of a training class that classes of other files override, or call."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import called_name
from amplint.training.givers import importers
from amplint.training.script import Script
from amplint.training.surroundings import whole_program

_MOST = 60
"""The limit of files that are searched for derived classes."""


def overriding(script: Script, owner: cst.ClassDef) -> Iterator[tuple[Source, cst.FunctionDef]]:
    """The methods of classes in other files that derive from `owner`, which calls them by `self`."""
    called = {called_name(call) for call in every(owner, cst.Call) if (dotted(call.func) or "").startswith("self.")}
    name = owner.name.value
    for source in importers(script.source, naming=f"({name}", most=_MOST) if script.path else ():
        for chunk in source.chunks:
            for derived in every(chunk.module, cst.ClassDef):
                bases = {(dotted(base.value) or "").rpartition(".")[2] for base in derived.bases}
                methods = derived.body.body if name in bases else ()
                for one in methods:
                    if isinstance(one, cst.FunctionDef) and one.name.value in called:
                        yield source, one


def differentiating(script: Script, owner: cst.ClassDef, step: cst.Call) -> tuple[str, int] | None:
    """The file, relative to the script, and row of a backward pass in such a method, for this `step`; None without.

    A method that steps itself has no need of it.
    """
    for source, method in overriding(script, owner):
        calls = list(every(method, cst.Call))
        for call in calls if all(dotted(one.func) != dotted(step.func) for one in calls) else ():
            if called_name(call) == "backward" and isinstance(call.func, cst.Attribute) and not call.args:
                return os.path.relpath(source.path, os.path.dirname(script.path)), source.span(call).start.row
    return None


def bases_elsewhere(script: Script, owner: cst.ClassDef) -> Iterator[Chunk]:
    """The base classes of a class that stand in other files, in any depth."""
    program = whole_program(script.source)
    waiting = [(script.source, base) for base in owner.bases]
    seen = set[Chunk]()
    while waiting:
        source, base = waiting.pop()
        found = program.resolve(source, dotted(base.value) or "")
        if not isinstance(found, Chunk) or not found.is_class or found in seen:
            continue
        seen.add(found)
        if found.source is not script.source:
            yield found
        waiting += ((found.source, one) for each in every(found.module, cst.ClassDef) for one in each.bases)


def called_by_base(script: Script, function: cst.FunctionDef) -> tuple[str, int] | None:
    """The file, relative to the script, and row of a call of this method in a base of its class in another file."""
    owner = script.method_owner(function)
    for base in bases_elsewhere(script, owner) if owner is not None else ():
        for call in every(base.module, cst.Call):
            if dotted(call.func) == f"self.{function.name.value}":
                return os.path.relpath(base.source.path, os.path.dirname(script.path)), base.span(call).start.row
    return None
