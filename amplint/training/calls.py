"""Call graph of a file: the function that a call runs, and the arguments at all call sites of a function."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Set

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.training.bindings import called_name, paths
from amplint.training.script import Script

Resolved = Mapping[cst.CSTNode, Set[cst.CSTNode]]
"""Call -> the functions that it ran when interpreted, also of other files; empty for a callee without visible body."""


class Calls:
    """Resolves calls by what interpretation has `resolved`, and by names only where these are unambiguous."""

    def __init__(self, script: Script, resolved: Resolved) -> None:
        self._script = script
        self._resolved = resolved
        self._looked_up: dict[cst.CSTNode, Set[cst.CSTNode] | None] = {}

    @functools.cached_property
    def functions(self) -> list[cst.FunctionDef]:
        """Every function and method of the file."""
        return list(self._script.of_kind(cst.FunctionDef))

    @functools.cached_property
    def _named(self) -> dict[str, list[cst.Name]]:
        found: dict[str, list[cst.Name]] = {}
        for node in self._script.of_kind(cst.Name):
            found.setdefault(node.value, []).append(node)
        return found

    def ending(self, name: str) -> list[cst.Call]:
        """The calls whose callee has this last name."""
        return [call for call in self._script.calls if called_name(call) == name]

    def methods(self, owner: cst.ClassDef | None) -> list[cst.FunctionDef]:
        """The methods of a class."""
        return [one for one in self.functions if owner is not None and self._script.method_owner(one) is owner]

    def runs(self, call: cst.CSTNode) -> Set[cst.CSTNode]:
        """The functions that `call` ran when interpreted, also those of other files."""
        return self._resolved.get(call) or frozenset()

    def targets(self, call: cst.CSTNode) -> Set[cst.CSTNode]:
        """The functions of this file that `call` runs; empty if they are unknown or elsewhere."""
        return self._known(call) or frozenset()

    def reached(self, nodes: Iterable[cst.CSTNode]) -> set[cst.CSTNode]:
        """The functions that `nodes` run, directly or through others, also those of other files."""
        found, waiting = set[cst.CSTNode](), list(nodes)
        while waiting:
            for call in every(waiting.pop(), cst.Call):
                own = self.targets(call) if self._script.source.owns(call) else frozenset[cst.CSTNode]()
                new = {*own, *self.runs(call)} - found
                found |= new
                waiting += (one.body for one in new if isinstance(one, (cst.FunctionDef, cst.Lambda)))
        return found

    def functions_reaching(self, nodes: Set[cst.CSTNode], *, constructors: bool = True) -> set[cst.CSTNode]:
        """The functions that contain one of `nodes`, or a call that reaches one; `constructors` are optional."""
        found: set[cst.CSTNode] = set()
        while True:
            more = {
                one
                for one in self.functions
                if one not in found
                and (constructors or one.name.value != "__init__")
                and any(inner in nodes or not self.targets(inner).isdisjoint(found) for inner in walk(one.body))
            }
            if not more:
                return found
            found |= more

    def callers(self, function: cst.FunctionDef) -> list[cst.Call] | None:
        """The call sites of `function`; None if it escapes, or may have unresolved callers."""
        return None if self.spawns(function) else self._calls_of(function)

    def argument(self, call: cst.Call, function: cst.FunctionDef, name: str) -> cst.Arg | None:
        """The argument of `call`, a call site of `function`, for a parameter."""
        place = self._script.parameter(function, name)
        static = any(dotted(one.decorator) == "staticmethod" for one in function.decorators)
        offset = 0 if static or self._script.method_owner(function) is None else 1
        return self._script.rewrite.find_argument(call, name, place[0] - offset) if place is not None else None

    def arguments_for(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression] | None:
        """The arguments for a parameter of `function`, or its default, also of processes spawned to run it.

        None if a call site is unknown.
        """
        place, calls, spawns = self._script.parameter(function, name), self._calls_of(function), self.spawns(function)
        if place is None or calls is None:
            return None
        arguments = [self.argument(call, function, name) for call in calls]
        left_out = [place[1].default if not any(one.star for one in call.args) else None for call in calls]
        values = [one.value if one is not None else other for one, other in zip(arguments, left_out, strict=True)]
        for spawn in spawns:
            given = self._script.rewrite.find_argument(spawn, "args", 1)
            items = given.value.elements if given is not None and isinstance(given.value, cst.Tuple) else ()
            values.append(items[place[0] - 1].value if 0 < place[0] <= len(items) else None)
        found = [value for value in values if value is not None]
        return found if found and len(found) == len(values) else None

    def spawns(self, function: cst.FunctionDef) -> list[cst.Call]:
        """The calls of `torch.multiprocessing.spawn` that run `function`."""
        name = function.name.value
        return [call for call in self.ending("spawn") if call.args and dotted(call.args[0].value) == name]

    def _overriding(self, function: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """`function`, unless it only raises, and the methods of subclasses that override it."""
        owner = self._script.method_owner(function) if isinstance(function, cst.FunctionDef) else None
        if owner is None or not isinstance(function, cst.FunctionDef):
            yield function
            return
        derived, others = {owner.name.value}, list[cst.FunctionDef]()
        for one in self._script.of_kind(cst.ClassDef):
            if any(dotted(base.value) in derived for base in one.bases):
                derived.add(one.name.value)
                others += (each for each in self.methods(one) if each.name.value == function.name.value)
        if not others or not only_raises(function):
            yield function
        yield from others

    def _calls_of(self, function: cst.FunctionDef) -> list[cst.Call] | None:
        if function.name.value == "__call__":  # called objects have no name
            calls = [call for call in self._script.calls if function in self.targets(call)]
            return calls if all(len(self.targets(call)) == 1 for call in calls) else None
        spawned = {spawn.args[0].value for spawn in self.spawns(function)}
        found = []
        for node in self._mentions(function):
            call = self._call_by(node)
            known = self._known(call) if call is not None else None
            if known is None and node not in spawned:
                return None
            if known and function in known:
                if len(known) > 1:
                    return None
                assert call is not None
                found.append(call)
        return found

    def _mentions(self, function: cst.FunctionDef) -> Iterator[cst.Name]:
        """The nodes at which the name of `function`, or of the class that it constructs, can refer to it."""
        owner = self._script.method_owner(function)
        if owner is not None and function.name.value != "__init__":
            yield from (node for node in self._named[function.name.value] if self._is_attribute(node))
            return
        definition = owner or function
        home = self._script.scope(definition)
        for node in self._named[definition.name.value]:
            above = self._script.source.parent(node)
            named = isinstance(above, (cst.FunctionDef, cst.ClassDef, cst.Param)) and above.name is node
            word = self._is_attribute(node) or (isinstance(above, cst.Arg) and above.keyword is node)
            if named or word or self._script.is_shadowed(self._script.scope(node), home, node.value):
                continue
            if not self._script.rewrite.names_type(node):
                yield node

    def _is_attribute(self, node: cst.Name) -> bool:
        above = self._script.source.parent(node)
        return isinstance(above, cst.Attribute) and above.attr is node

    def _call_by(self, node: cst.Name) -> cst.Call | None:
        """The call whose callee `node` names."""
        above = self._script.source.parent(node)
        func: cst.CSTNode = above if isinstance(above, cst.Attribute) and above.attr is node else node
        call = self._script.source.parent(func)
        return call if isinstance(call, cst.Call) and call.func is func else None

    def _known(self, call: cst.CSTNode) -> Set[cst.CSTNode] | None:
        """The functions of this file that `call` runs; None if they are unknown."""
        if call not in self._looked_up:
            scope = self._script.target(call)
            named = frozenset({self._script.functions[scope]}) if scope is not None else None
            run = self._resolved.get(call)
            own = frozenset(one for one in run if self._script.source.owns(one)) if run is not None else named
            self._looked_up[call] = own and frozenset(one for each in own for one in self._overriding(each))
        return self._looked_up[call]


def only_raises(function: cst.FunctionDef) -> bool:
    """Whether `function` is there to be overridden."""
    return any(isinstance(node, cst.Raise) and "NotImplementedError" in paths(node) for node in walk(function.body))
