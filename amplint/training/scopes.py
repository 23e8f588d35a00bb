"""Scopes of functions and classes, by qualified names, which survive the edits of a pass."""

from __future__ import annotations

import functools

from amplint.source import syntax as cst
from amplint.source.tree import bound_by, walk
from amplint.training.bindings import bound_names, positional
from amplint.training.places import Places

Scope = tuple[str, ...]
"""The names of the classes and functions around a place, the outermost first; empty at the top level of the file."""


class Scopes(Places):
    """Scope queries on one file."""

    @functools.cached_property
    def functions(self) -> dict[Scope, cst.FunctionDef]:
        """The functions and methods by their own scope."""
        return {(*self.scope(node), node.name.value): node for node in self.of_kind(cst.FunctionDef)}

    @functools.cached_property
    def _classes(self) -> frozenset[Scope]:
        return frozenset((*self.scope(node), node.name.value) for node in self.of_kind(cst.ClassDef))

    def scope(self, node: cst.CSTNode) -> Scope:
        """The scope of `node`; a definition is outside of the scope it opens, with its decorators and defaults."""
        names: list[str] = []
        inner = node
        for above in self.source.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and inner is above.body:
                names.append(above.name.value)
            inner = above
        return tuple(reversed(names))

    def class_of(self, scope: Scope) -> Scope | None:
        """The scope of the nearest class around `scope`; None outside of classes."""
        around = (scope[:length] for length in range(len(scope), 0, -1))
        return next((each for each in around if each in self._classes), None)

    def parameters(self, scope: Scope) -> tuple[str, ...]:
        """The parameters of the function `scope`, the positional ones first."""
        function = self.functions.get(scope)
        if function is None:
            return ()
        return tuple(param.name.value for param in (*positional(function), *function.params.kwonly_params))

    def binds(self, scope: Scope, name: str, *, by_import: bool = True) -> bool:
        """Whether the function `scope` binds `name`, with `by_import` also by an import."""
        bound, imported = self._bindings.get(scope, (frozenset(), frozenset()))
        return name in bound or (by_import and name in imported)

    def is_shadowed(self, scope: Scope, home: Scope, name: str, *, by_import: bool = True) -> bool:
        """Whether a function around `scope`, but not around `home`, shadows `name`."""
        inner = (scope[:length] for length in range(len(home) + 1, len(scope) + 1))
        return any(self.binds(each, name, by_import=by_import) for each in inner)

    def target(self, call: cst.CSTNode | None) -> Scope | None:
        """The function of this file that `call` calls by its name, or as a method of its own object."""
        if not isinstance(call, cst.Call):
            return None
        scope, func = self.scope(call), call.func
        if isinstance(func, cst.Name):
            name = func.value
            around = ((*scope[:length], name) for length in range(len(scope), -1, -1))
            found = next((each for each in around if each in self.functions), None)
            made = (name, "__init__")
            return found or (made if made in self.functions else None)
        owner = self.class_of(scope)
        if isinstance(func, cst.Attribute) and owner is not None and self.text_of(func.value) == "self":
            method = (*owner, func.attr.value)
            return method if method in self.functions else None
        return None

    def bound_parameter(self, call: cst.Call, argument: cst.Arg) -> str | None:
        """The parameter that binds `argument` in a call of a function of this file; None if that is not known."""
        target = self.target(call)
        if target is None or any(each.star for each in call.args):
            return None
        if argument.keyword is not None:
            return argument.keyword.value
        names = self.parameters(target)
        place = call.args.index(argument) + (target[:-1] in self._classes)
        return names[place] if place < len(names) else None

    @functools.cached_property
    def _bindings(self) -> dict[Scope, tuple[frozenset[str], frozenset[str]]]:
        """Function -> the names that it binds itself, and those that it imports."""
        found = {}
        for scope, function in self.functions.items():
            inside = list(walk(function.body))
            outer = {item.name.value for node in inside if isinstance(node, cst.Global) for item in node.names}
            bound = {name for node in inside if not isinstance(node, cst.ImportAlias) for name in bound_names(node)}
            aliases = {node.asname for node in inside if isinstance(node, cst.ImportAlias)}
            renamed = {name for node in inside if node in aliases for name in bound_names(node)}
            imported = {bound_by(node) for node in inside if isinstance(node, cst.ImportAlias)}
            own = (bound - renamed) | set(self.parameters(scope))
            found[scope] = frozenset(own - outer), frozenset(imported - outer)
        return found
