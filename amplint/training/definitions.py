"""Reaching definitions of a variable or an attribute, as far as the text of a file shows them."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.records import dataclass
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.training.calls import Calls
from amplint.training.script import Script

_ALIKE = "random_split"
"""A function all of whose unpacked results are of one kind."""


@dataclass(frozen=True)
class Given:
    """A value assigned to a variable; `index` is its position in an unpacked tuple, None for the whole value."""

    value: cst.BaseExpression
    index: int | None = None


def reaching_definitions(
    script: Script, calls: Calls, node: cst.CSTNode, path: str
) -> tuple[list[cst.CSTNode], cst.FunctionDef | None]:
    """The definitions of `path` that reach `node`: statements of one function, or the function with such a parameter.

    Attributes of `self` are bound by the methods of the class, or without any by those of all classes.
    """
    function = script.function_of(node)
    if path.startswith("self."):
        own = [
            one for method in calls.methods(script.method_owner(function)) for one in script.assignments(method, path)
        ]
        return own or [one for each in calls.functions for one in script.assignments(each, path)], None
    while True:
        found = script.assignments(function, path)
        if found or function is None:
            return found, None
        if script.parameter(function, path) is not None:
            return [], function
        function = script.function_of(function)


def values_from(assign: cst.Assign, path: str) -> Iterator[Given]:
    """The values that `assign` gives `path`, as its target or as an element of one."""
    for target in (one.target for one in assign.targets):
        if dotted(target) == path:
            yield Given(assign.value)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for index in (place for place, one in enumerate(target.elements) if dotted(one.value) == path):
                if isinstance(assign.value, cst.Tuple) and len(assign.value.elements) == len(target.elements):
                    yield Given(assign.value.elements[index].value)
                else:
                    yield Given(assign.value, index)


def value_of(binding: cst.CSTNode, path: str) -> cst.BaseExpression | None:
    """The expression that `binding` assigns to `path`; None if that is not an expression of its own."""
    if isinstance(binding, cst.AnnAssign):
        return binding.value
    given = list(values_from(binding, path)) if isinstance(binding, cst.Assign) else []
    if len(given) != 1:
        return None
    value = given[0].value
    alike = isinstance(value, cst.Call) and (dotted(value.func) or "").endswith(_ALIKE)
    return value if given[0].index is None or alike else None


def values_of(script: Script, calls: Calls, node: cst.CSTNode, path: str) -> list[cst.BaseExpression | None]:
    """The expressions assigned or passed to `path` at `node`, None for unknown ones; empty if the calls are unknown."""
    bindings, function = reaching_definitions(script, calls, node, path)
    if function is not None:
        return list(calls.arguments_for(function, path) or [])
    return [value_of(binding, path) for binding in bindings]
