"""Methods of a training class that classes of other files override."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.training.bindings import called_name
from amplint.training.givers import importers
from amplint.training.script import Script

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


def differentiating(script: Script, owner: cst.ClassDef) -> tuple[str, int] | None:
    """The file, relative to the script, and row of a backward pass in such a method; None if there is none."""
    for source, method in overriding(script, owner):
        for call in every(method, cst.Call):
            if called_name(call) == "backward" and isinstance(call.func, cst.Attribute) and not call.args:
                return os.path.relpath(source.path, os.path.dirname(script.path)), source.span(call).start.row
    return None
