"""Distributed models, which average gradients over processes in every backward pass unless within `no_sync`."""

from __future__ import annotations

import re

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths, positional
from amplint.training.calls import Calls
from amplint.training.rounds import Place
from amplint.training.script import Script

_ALIAS = re.compile(r"\bDistributedDataParallel\s+as\s+(\w+)")
_CLASS = "DistributedDataParallel"


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
