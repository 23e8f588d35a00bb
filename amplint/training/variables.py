"""Variables and attributes of a file: their definitions and their reads."""

from __future__ import annotations

import functools

from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.training.bindings import bound_paths
from amplint.training.calls import Calls
from amplint.training.definitions import Given, values_from
from amplint.training.script import Script


@dataclass(frozen=True)
class Variable:
    """`path` in the function `home`, `self.path` in the methods of the class `home`, or at the top level for None."""

    home: cst.FunctionDef | cst.ClassDef | None
    path: str


@dataclass(frozen=True)
class Held:
    """The value of `variable` by the definition `since`, an assignment or a parameter; by any for None."""

    variable: Variable
    since: cst.CSTNode | None = None


class Variables:
    """Definitions and uses by the text of one file. A variable bound in an unsupported way has no known values."""

    def __init__(self, script: Script, calls: Calls) -> None:
        self._script = script
        self._calls = calls

    def of(self, node: cst.CSTNode) -> Variable | None:
        """The variable or attribute of `self` that `node` names."""
        path = dotted(node) or ""
        function = self._script.function_of(node)
        if path.startswith("self.") and path.count(".") == 1:
            owner = self._script.method_owner(function)
            return Variable(owner, path) if owner is not None else None
        if not path.isidentifier():
            return None
        while function is not None and not self._binds(function, path):
            function = self._script.function_of(function)
        return Variable(function, path)

    def given(self, variable: Variable) -> list[Given] | None:
        """Everything assigned to or passed for a variable; None if that is not known."""
        if not self.is_closed(variable):
            return None
        found = list[Given]()
        for place in self._places(variable):
            given = self._given_at(place, variable)
            if not given:
                return None
            found += given
        return found or None

    def is_closed(self, variable: Variable) -> bool:
        """Whether all nodes that name a variable are known: an attribute may be accessed outside of its class, too."""
        if not isinstance(variable.home, cst.ClassDef):
            return True
        name = variable.path.partition(".")[2]
        named = self._script.of_kind(cst.Attribute)
        return all(self._is_of(node, variable) for node in named if node.attr.value == name)

    def _is_of(self, node: cst.Attribute, variable: Variable) -> bool:
        """Whether an attribute is certainly `variable`, or one of an object of an unrelated class."""
        found = self.of(node)
        home, own = found.home if found is not None else None, variable.home
        if not isinstance(home, cst.ClassDef) or not isinstance(own, cst.ClassDef):
            return False
        above = {dotted(base.value) for each in (home, own) for base in each.bases}
        return home is own or not above & {home.name.value, own.name.value}

    def reads(self, variable: Variable) -> list[cst.BaseExpression]:
        """The reads of a variable."""
        return self._reads.get(variable, [])

    def held(self, node: cst.BaseExpression) -> Held | None:
        """The variable and reaching definition that `node` reads."""
        variable = self.of(node)
        return Held(variable, self._reaching_definition(node, variable)) if variable is not None else None

    def value_after(self, variable: Variable, assign: cst.Assign) -> Held:
        """The value of `variable` from `assign` on."""
        return Held(variable, assign if self._has_several(variable) else None)

    def assigned_values(self, held: Held) -> list[Given] | None:
        """Everything assigned to or passed for the value `held`; None if that is not known."""
        return self.given(held.variable) if held.since is None else self._given_at(held.since, held.variable)

    def reached_reads(self, held: Held) -> list[cst.BaseExpression]:
        """The reads that the definition of `held` may reach."""
        reads = self.reads(held.variable)
        if held.since is None:
            return reads
        return [node for node in reads if self._reaching_definition(node, held.variable) in (None, held.since)]

    def _places(self, variable: Variable) -> list[cst.CSTNode]:
        """The definitions of a variable: its parameter and its assignments."""
        home = variable.home
        parameter = self._script.parameter(home, variable.path) if isinstance(home, cst.FunctionDef) else None
        return [*([parameter[1]] if parameter is not None else ()), *self._bindings.get(variable, ())]

    def _given_at(self, place: cst.CSTNode, variable: Variable) -> list[Given] | None:
        if isinstance(place, cst.Param):
            assert isinstance(variable.home, cst.FunctionDef)
            passed = self._calls.arguments_for(variable.home, variable.path)
            return [Given(value) for value in passed] if passed is not None else None
        return list(values_from(place, variable.path)) if isinstance(place, cst.Assign) else None

    def _has_several(self, variable: Variable) -> bool:
        """Whether a variable of a function or the top level has several definitions."""
        return len(self._places(variable)) > 1 and not isinstance(variable.home, cst.ClassDef)

    def _reaching_definition(self, node: cst.CSTNode, variable: Variable) -> cst.CSTNode | None:
        """The definition of `variable`, of several, that certainly reaches `node`; None if there is no such."""
        places = self._places(variable)
        if not self._has_several(variable) or self._script.function_of(node) is not variable.home:
            return None
        for statement, block in self._script.enclosing_statements(node):
            for above in reversed(block[: block.index(statement)]):
                found = [one for one in places if self._script.inside(above, one)]
                if found:
                    plain = len(found) == 1 and isinstance(above, cst.SimpleStatementLine)
                    return found[0] if plain and isinstance(found[0], cst.Assign) else None
            again = isinstance(statement, (cst.For, cst.While))
            if again and any(self._script.inside(statement, one) for one in places):
                return None
        return places[0] if isinstance(places[0], cst.Param) else None

    def _binds(self, function: cst.FunctionDef, name: str) -> bool:
        if self._script.parameter(function, name) is not None:
            return True
        return self._script.binds((*self._script.scope(function), function.name.value), name)

    @functools.cached_property
    def _bindings(self) -> dict[Variable, list[cst.CSTNode]]:
        found: dict[Variable, list[cst.CSTNode]] = {}
        kinds = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.For, cst.With, cst.NamedExpr, cst.CompFor)
        for node in self._script.of_kind(*kinds):
            for target in walk(node):
                if dotted(target) in bound_paths(node, whole=True) and self._is_bound(target):
                    variable = self.of(target)
                    if variable is not None and node not in found.setdefault(variable, []):
                        found[variable].append(node)
        return found

    @functools.cached_property
    def _reads(self) -> dict[Variable, list[cst.BaseExpression]]:
        found: dict[Variable, list[cst.BaseExpression]] = {}
        for node in self._script.of_kind(cst.Name, cst.Attribute):
            if not self._is_bound(node) and not self._is_word(node):
                variable = self.of(node)
                if variable is not None:
                    found.setdefault(variable, []).append(node)
        return found

    def _is_bound(self, node: cst.CSTNode) -> bool:
        """Whether `node` is a target of a binding, by itself or in a tuple of targets."""
        above = self._script.source.parent(node)
        while isinstance(above, (cst.Element, cst.Tuple, cst.List)):
            node, above = above, self._script.source.parent(above)
        if isinstance(above, (cst.AssignTarget, cst.AsName)):
            return True
        kinds = (cst.AnnAssign, cst.AugAssign, cst.For, cst.NamedExpr, cst.CompFor)
        return isinstance(above, kinds) and above.target is node

    def _is_word(self, node: cst.BaseExpression) -> bool:
        """Whether a name is no variable: an attribute, a keyword, the name in a definition or import."""
        above = self._script.source.parent(node)
        if isinstance(above, cst.Attribute):
            return above.attr is node
        if isinstance(above, cst.Arg):
            return above.keyword is node
        if isinstance(above, cst.Param):
            return above.name is node
        return isinstance(above, (cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.NameItem, cst.Annotation))
