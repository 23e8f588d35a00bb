"""Distributed models, which average gradients over processes in every backward pass unless within `no_sync`."""

from __future__ import annotations

import re

from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every, walk
from amplint.training.bindings import bound_paths, called_name, positional
from amplint.training.calls import Calls
from amplint.training.givers import importers
from amplint.training.rounds import Place
from amplint.training.script import Script

_ALIAS = re.compile(r"\bDistributedDataParallel\s+as\s+(\w+)")
_CLASS = "DistributedDataParallel"
_REPLICATING = frozenset({"DataParallel", "data_parallel"})
_SHARED_WORD = "arallel"


class Parallel:
    """The distributed models of a file."""

    def __init__(self, script: Script, calls: Calls) -> None:
        self._script = script
        self._calls = calls
        names = {_CLASS, *_ALIAS.findall(script.source.text)}
        self._makers = [call for name in sorted(names) for call in calls.ending(name)]

    def __bool__(self) -> bool:
        return bool(self._makers)

    def model(self, place: Place) -> tuple[str, str | None] | None:
        """The name of the only distributed model that `place` trains, and its class where it may be another one.

        None if no such model is known, or if there are several.
        """
        found = {name: maker for maker in self._makers for name in self._names(maker, place) if _mentions(place, name)}
        if len(found) != 1:
            return None
        ((name, maker),) = found.items()
        return name, None if self._always(maker) else self._script.rewrite.text(maker.func)

    def _names(self, maker: cst.Call, place: Place) -> list[str]:
        """The names of the model made by `maker` in the function of `place`."""
        statement = self._script.statement_of(maker)
        bound = {path for node in walk(statement) for path in bound_paths(node, whole=True)} if statement else set()
        home, here = self._script.function_of(maker), self._script.function_of(place.body)
        found = []
        for path in sorted(bound):
            if path.startswith("self."):
                owner = self._script.method_owner(home)
                if owner is not None and owner is self._script.method_owner(here):
                    found.append(path)
            elif home is here:
                found.append(path)
            elif here is not None:
                found += self._receiving_parameters(here, home, path)
        return found

    def _receiving_parameters(self, here: cst.FunctionDef, home: cst.FunctionDef | None, path: str) -> list[str]:
        every = [param.name.value for param in positional(here)]
        found = [
            name
            for name in every
            for values in [self._calls.arguments_for(here, name) or []]
            if any(dotted(value) == path and self._script.function_of(value) is home for value in values)
        ]
        known = path in every or bool(self._script.assignments(here, path))
        return found or ([path] if home is None and not known else [])

    def _always(self, maker: cst.Call) -> bool:
        """Whether the model is always made by `maker`, unconditionally."""
        conditional = (cst.If, cst.IfExp, cst.Try, cst.For, cst.While)
        for above in self._script.source.ancestors(maker):
            if isinstance(above, cst.FunctionDef):
                break
            if isinstance(above, conditional) and not self._script.is_main(above):
                return False
        return True


def _mentions(place: Place, name: str) -> bool:
    return any(isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) == name for node in walk(place.body))


def replicated(program: Program) -> tuple[Source, cst.CSTNode, bool] | None:
    """The first model replicated in threads, whose autocast regions have the default dtype, with its file.

    That is the file itself, one that it leads to, or one that imports it and may give it the model.
    The last is False where `.module` alone shows it. Source: torch/nn/parallel/parallel_apply.py of PyTorch 2.13, which
    passes on whether autocast is on, but no dtype.
    """
    main = program.main
    distributed = any(_CLASS in chunk.words for chunk in main.chunks)
    above = importers(main, naming=_SHARED_WORD) if main.path else ()
    around = () if distributed else (chunk for source in above for chunk in source.chunks)
    for chunk in (*(main.chunks if distributed else program.chunks), *around):
        for node in every(chunk.module, cst.Name) if _REPLICATING & chunk.words else ():
            if node.value in _REPLICATING and _replicates(chunk.source, node):
                return chunk.source, node, True
    if not any(one in chunk.text for chunk in program.chunks for one in ("self.module = ", _CLASS, "DataParallel(")):
        modules = (one for chunk in main.chunks for one in every(chunk.module, cst.Attribute))
        wrapped = next((one for one in modules if one.attr.value == "module" and dotted(one)), None)
        return (main, wrapped, False) if wrapped is not None else None
    return None


def _replicates(source: Source, node: cst.Name) -> bool:
    """Whether a name is neither imported, asked for by `isinstance` nor an option, nor called for one GPU alone."""
    around = next((one for one in source.ancestors(node) if isinstance(one, (cst.ImportAlias, cst.Call))), None)
    if not isinstance(around, cst.Call):
        return around is None and node.value == "DataParallel"
    if node.value == "data_parallel" and node not in walk(around.func):
        return False
    devices = [one.value for one in around.args if one.keyword is not None and one.keyword.value == "device_ids"]
    alone = any(isinstance(one, cst.List) and len(one.elements) == 1 for one in devices)
    return called_name(around) != "isinstance" and not alone
