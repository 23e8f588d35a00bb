"""Conditions that are certainly booleans, as `autocast(enabled=...)` requires."""

from __future__ import annotations

from amplint.semantics.reading.options import options
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.training.bindings import called_name
from amplint.training.calls import Calls
from amplint.training.definitions import reaching_definitions, value_of
from amplint.training.script import Script

DEPTH = 3
_BOOLEAN = frozenset(
    {"bool", "isinstance", "hasattr", "callable", "any", "all", "is_available", "startswith", "endswith"}
)
_SWITCHES = ("store_true", "store_false", "BooleanOptionalAction")


def as_boolean(script: Script, node: cst.BaseExpression, text: str) -> str:
    """`text`, which spells the condition `node`, wrapped in `bool()` if it may be of another type."""
    return text if _is_boolean(script, node, DEPTH) else f"bool({text})"


def _is_boolean(script: Script, node: cst.BaseExpression, depth: int) -> bool:
    if isinstance(node, cst.BooleanOperation):
        return all(_is_boolean(script, side, depth) for side in (node.left, node.right))
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not)
    if isinstance(node, cst.Call):
        return called_name(node) in _BOOLEAN
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return True
    if isinstance(node, (cst.Name, cst.Attribute)) and depth:
        return _holds_boolean(script, node, depth)
    return isinstance(node, cst.Comparison)


def _holds_boolean(script: Script, node: cst.Name | cst.Attribute, depth: int) -> bool:
    """Whether a variable is a switch of the command line, or only ever holds booleans."""
    path = dotted(node)
    if path is None or (isinstance(node, cst.Attribute) and _is_switch(script, node.attr.value)):
        return path is not None
    bindings, function = reaching_definitions(script, Calls(script, {}), node, path)
    parameter = script.parameter(function, path) if function is not None else None
    if parameter is not None:
        return _is_boolean_parameter(parameter[1])
    values = [value_of(binding, path) for binding in bindings]
    return bool(values) and all(value is not None and _is_boolean(script, value, depth - 1) for value in values)


def _is_switch(script: Script, name: str) -> bool:
    """Whether an option of this name is declared as a switch."""
    option = options(script.source).get(name)
    return option is not None and option.action is not None and option.action.endswith(_SWITCHES)


def _is_boolean_parameter(param: cst.Param) -> bool:
    annotation, default = param.annotation, param.default
    if annotation is not None and isinstance(annotation.annotation, cst.Name):
        return annotation.annotation.value == "bool"
    return isinstance(default, cst.Name) and default.value in ("True", "False")
