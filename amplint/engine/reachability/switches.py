"""Conditions that are false wherever a file, or the files around it, decide them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.engine.reachability.callers import calls_of, given, parameter_of
from amplint.engine.reachability.chosen_dtypes import is_never
from amplint.premises import Premise
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every, target_names, walk

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_DEPTH = 3
"""The number of callers, one behind the other, that pass a parameter on."""
_OFF = frozenset({"False", "None"})


class Switches:
    """Answers for one program what switches on the conditions around a place.

    A condition is a parameter, an attribute that the constructor sets to one, or a constant of another file, which may
    also enable a region or a scaler. It is off if every call in sight leaves it at a default of False, or passes False
    or what stays False: a setting that is read with that default, and that nothing in the project sets. A comparison
    with a dtype is off if nothing gives the attribute that dtype.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[cst.CSTNode, Premise | None] = {}

    def premise(self, place: cst.CSTNode) -> Premise | None:
        """What has to be taken for granted if a condition around `place` is to hold, None for nothing."""
        if place not in self._known:
            source = self._program.source_of(place)
            tests = list(_tests(source, place)) if source is not None else []
            found = [self._off(source, test, _DEPTH) for test in tests] if source is not None else []
            left = [self._left_off(source, test) for test in tests] if source is not None and not any(found) else []
            found += [self._off_by_constant(source, one) for one in _enabling(place)] if source is not None else []
            never = source is not None and any(is_never(self._program, source, test) for test in tests)
            self._known[place] = next(filter(None, (*found, *left)), Premise.SWITCHED_ON if never else None)
        return self._known[place]

    def _left_off(self, source: Source, test: cst.BaseExpression) -> Premise | None:
        """The same for a parameter that is off by default, or what a constructor makes of one, by its name alone.

        No call in sight of a function with such a parameter passes another value for it, whose name is not its own, and
        there are such calls; without a parameter, another file uses what this one defines.
        """
        function, path = source.function_around(test), dotted(test) or ""
        name = path.removeprefix("self.")
        if function is None or "." in name or not name:
            return None
        if path != name:
            cls = next((one for one in source.ancestors(function) if isinstance(one, cst.ClassDef)), None)
            found = _bound(cls, path) if cls is not None else []
            off = bool(found) and all(_is_off_by_name(source, one, name) for one in found)
        else:
            off = not _bound(function.body, name) and parameter_of(function, name) is not None
        if not off or self._program.switches_on(name):
            return None
        functions = [
            one for chunk in source.chunks if name in chunk.words for one in every(chunk.module, cst.FunctionDef)
        ]
        taking = [one for one in functions if parameter_of(one, name) is not None]
        names = [] if taking else [chunk.name for chunk in source.chunks if chunk.name is not None]
        used = bool(taking) or any(map(self._program.is_used_elsewhere, names))
        return Premise.SWITCHED_ON if used and all(self._is_left_off(source, one, name) for one in taking) else None

    def _is_left_off(self, source: Source, function: cst.FunctionDef, name: str) -> bool:
        """Whether a parameter is off by default, and calls in sight pass nothing else for it than what has its name."""
        parameter = parameter_of(function, name)
        owner = next(iter(source.ancestors(source.parent(function) or function)), None)
        named = owner if isinstance(owner, cst.ClassDef) and function.name.value == "__init__" else function
        calls = calls_of(self._program, source, named.name.value)
        if parameter is None or parameter[1].default is None or source.code(parameter[1].default) not in _OFF:
            return False
        position = parameter[0] - isinstance(owner, cst.ClassDef)
        for home, call in calls or ():
            placed = [one for one in call.args if one.keyword is None]
            passed = placed[position].value if position < len(placed) else None
            kept = passed is None or home.code(passed) in {*_OFF, name, f"self.{name}"}
            if any(one.star for one in call.args) or not (kept or self._is_other_left_off(home, passed)):
                return False
        return bool(calls)

    def _is_other_left_off(self, source: Source, passed: cst.BaseExpression | None) -> bool:
        """Whether what is passed on under another name is a parameter that nothing switches on either."""
        function = source.function_around(passed) if isinstance(passed, cst.Name) else None
        if function is None or not isinstance(passed, cst.Name):
            return False
        _, param = parameter_of(function, passed.value) or (0, None)
        default = param.default if param is not None else None
        off = default is not None and source.code(default) in _OFF
        return off and not self._program.switches_on(passed.value)

    def _off(self, source: Source, value: cst.BaseExpression, depth: int) -> Premise | None:
        """The premise under which an expression is true, None if it may be or that is not seen."""
        if isinstance(value, cst.Name) and value.value in _OFF:
            return Premise.SWITCHED_ON
        if isinstance(value, cst.Call):
            name = _read(value)
            if name is None or not self._program.sets(name):
                return Premise.SETTING_THERE if name is not None else None
            return Premise.SWITCHED_ON if not self._program.switches_on(name) else None
        function = source.function_around(value)
        if isinstance(value, cst.Attribute):
            return self._off_attribute(source, value, depth)
        if not isinstance(value, cst.Name):
            return None
        bound = _bound(function or source.chunk_of(value).module, value.value)
        parameter = parameter_of(function, value.value) if function is not None else None
        if parameter is None and not bound:
            return self._off_by_constant(source, value)
        if parameter is None or bound:
            only = bound[0] if len(bound) == 1 and parameter is None else None
            return self._off(source, only, depth - 1) if only is not None and depth > 0 else None
        return self._off_parameter(source, function, *parameter, depth - 1) if function is not None else None

    def _off_by_constant(self, source: Source, value: cst.BaseExpression) -> Premise | None:
        """The same for a name that is imported from a file which binds it once, to False or None."""
        one = source.imports.get(value.value) if isinstance(value, cst.Name) else None
        home = self._program.imported(source, one.module, "") if one is not None and one.name else None
        if one is None or not isinstance(home, Source):
            return None
        bound = [each for chunk in home.chunks if one.name in chunk.words for each in _bound(chunk.module, one.name)]
        off = len(bound) == 1 and isinstance(bound[0], cst.Name) and bound[0].value in _OFF
        return Premise.SWITCHED_ON if off and not self._program.switches_on(one.name, home) else None

    def _off_attribute(self, source: Source, value: cst.Attribute, depth: int) -> Premise | None:
        """The same for an attribute of the object itself that one assignment takes from something else."""
        cls = next((one for one in source.ancestors(value) if isinstance(one, cst.ClassDef)), None)
        path = dotted(value) or ""
        if cls is None or not path.startswith("self.") or path.count(".") > 1:
            return None
        bound = _bound(cls, path)
        if len(bound) != 1 or depth == 0 or (isinstance(bound[0], cst.Name) and bound[0].value in _OFF):
            return None
        return self._off(source, bound[0], depth - 1)

    def _off_parameter(
        self, source: Source, function: cst.FunctionDef, position: int, param: cst.Param, depth: int
    ) -> Premise | None:
        """The same for a parameter, by what the calls in sight pass for it."""
        owner = next(iter(source.ancestors(source.parent(function) or function)), None)
        method = isinstance(owner, cst.ClassDef)
        named = owner if isinstance(owner, cst.ClassDef) and function.name.value == "__init__" else function
        name = named.name.value
        calls = calls_of(self._program, source, name) if depth >= 0 and not function.decorators else None
        if not calls or named.decorators:
            return None
        passed = [(home, given(call, position - method, param)) for home, call in calls]
        passed = [(source if value is param.default else home, value) for home, value in passed]
        found = [self._off(home, value, depth) if value is not None else None for home, value in passed]
        premises = [premise for premise in found if premise is not None]
        return min(premises, key=lambda one: one.weight) if len(premises) == len(found) else None


def _is_off_by_name(source: Source, value: cst.BaseExpression, name: str) -> bool:
    """Whether a value is off as long as nothing switches on what has this name."""
    if isinstance(value, cst.Call):
        return (_read(value) or "").rpartition(".")[2] == name
    if not isinstance(value, cst.Name):
        return False
    function = source.function_around(value)
    own = value.value == name and function is not None and parameter_of(function, name) is not None
    return own or value.value in _OFF


def _bound(scope: cst.CSTNode, path: str) -> list[cst.BaseExpression]:
    """What the assignments in `scope` bind to a variable or attribute, the target itself if that is not one value."""
    found: list[cst.BaseExpression] = []
    for node in walk(scope):
        if isinstance(node, cst.Assign):
            found += [node.value for one in node.targets if dotted(one.target) == path]
            found += [
                one.target for one in node.targets if path in target_names(one.target) and dotted(one.target) is None
            ]
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)):
            found += [node.target] if dotted(node.target) == path or path in target_names(node.target) else []
    return found


def _enabling(place: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a region or a scaler that is made at `place` is enabled by."""
    for one in place.args if isinstance(place, cst.Call) else ():
        if one.keyword is not None and one.keyword.value == "enabled":
            yield one.value


def _tests(source: Source, place: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The conditions of the `if` statements around `place` in whose first branch it stands."""
    inner = place
    for above in source.ancestors(place):
        if isinstance(above, (cst.If, cst.IfExp)) and inner is above.body:
            yield from _parts(above.test)
        elif isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return
        inner = above


def _parts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The conditions that all have to hold where `test` does."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from _parts(test.left)
        yield from _parts(test.right)
    else:
        yield test


def _read(call: cst.Call) -> str | None:
    """The setting that a call reads with False for a default: `getattr(config, "amp", False)`, `config.get("amp")`."""
    values = [argument.value for argument in call.args if argument.keyword is None and not argument.star]
    called = dotted(call.func) or ""
    if called == "getattr" and len(values) == 3:
        values = values[1:]
    elif not called.endswith(".get") or len(values) not in (1, 2) or len(values) < len(call.args):
        return None
    is_off = len(values) == 1 or (isinstance(values[1], cst.Name) and values[1].value in _OFF)
    name = values[0].evaluated_value if isinstance(values[0], cst.SimpleString) else None
    return name if is_off and isinstance(name, str) else None
