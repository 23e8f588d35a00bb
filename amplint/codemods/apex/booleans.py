"""Conditions that are certainly True or False: `autocast(enabled=...)` refuses everything else."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.bindings import called_name
from amplint.codemods.scopes import Scope
from amplint.codemods.script import Script
from amplint.source import syntax as cst

DEPTH = 3
_BOOLEAN = frozenset(
    {"bool", "isinstance", "hasattr", "callable", "any", "all", "is_available", "startswith", "endswith"}
)
_SWITCHES = ("store_true", "store_false", "BooleanOptionalAction")


def as_boolean(script: Script, node: cst.BaseExpression, text: str) -> str:
    """`text`, which spells the condition `node`, inside of `bool()` where it may be another kind of value."""
    return text if _is_boolean(script, node, script.scope(node), DEPTH) else f"bool({text})"


def _is_boolean(script: Script, node: cst.BaseExpression, scope: Scope, depth: int) -> bool:
    if isinstance(node, cst.BooleanOperation):
        return all(_is_boolean(script, side, scope, depth) for side in (node.left, node.right))
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Not)
    if isinstance(node, cst.Call):
        return called_name(node) in _BOOLEAN
    if isinstance(node, cst.Name) and node.value in ("True", "False"):
        return True
    if isinstance(node, (cst.Name, cst.Attribute)) and depth:
        return _holds_boolean(script, node, scope, depth)
    return isinstance(node, cst.Comparison)


def _holds_boolean(script: Script, node: cst.Name | cst.Attribute, scope: Scope, depth: int) -> bool:
    """Whether a variable is a switch of the command line, or only ever gets what is a boolean."""
    if isinstance(node, cst.Attribute) and _is_switch(script, node.attr.value):
        return True
    given = list(_given(script, node, scope))
    parameter = _parameter(script, node, scope)
    if parameter is not None and not _is_boolean_parameter(parameter):
        return False
    if not given:
        return parameter is not None
    return all(_is_boolean(script, value, where, depth - 1) for value, where in given)


def _is_switch(script: Script, name: str) -> bool:
    """Whether an option of this name is declared as a switch."""
    for call in script.calls:
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "add_argument":
            continue
        texts = {arg.keyword.value if arg.keyword else "": script.text_of(arg.value).strip("'\"") for arg in call.args}
        flags = [script.text_of(arg.value).strip("'\"") for arg in call.args if arg.keyword is None]
        names = [texts["dest"]] if "dest" in texts else [flag.lstrip("-").replace("-", "_") for flag in flags]
        if name in names:
            return texts.get("action", "").endswith(_SWITCHES)
    return False


def _given(script: Script, node: cst.Name | cst.Attribute, scope: Scope) -> Iterator[tuple[cst.BaseExpression, Scope]]:
    """What is assigned to a variable of this function, or to an attribute of `self` anywhere in its class."""
    text = script.text_of(node)
    for each in script.of_kind(cst.Assign):
        where = script.scope(each)
        near = script.class_of(where) == script.class_of(scope) if text.startswith("self.") else where == scope
        if near and any(script.text_of(target.target) == text for target in each.targets):
            yield each.value, where


def _parameter(script: Script, node: cst.Name | cst.Attribute, scope: Scope) -> cst.Param | None:
    function = script.functions.get(scope)
    if not isinstance(node, cst.Name) or function is None:
        return None
    params = function.params
    every = (*params.posonly_params, *params.params, *params.kwonly_params)
    return next((param for param in every if param.name.value == node.value), None)


def _is_boolean_parameter(param: cst.Param) -> bool:
    annotation, default = param.annotation, param.default
    if annotation is not None and isinstance(annotation.annotation, cst.Name):
        return annotation.annotation.value == "bool"
    return isinstance(default, cst.Name) and default.value in ("True", "False")
