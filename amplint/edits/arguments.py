"""What the callers of two places pass to the functions around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from amplint.source import syntax as cst
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

Way: TypeAlias = "Sequence[tuple[cst.CSTNode | None, cst.CSTNode]]"
"""The running functions, None for the top level, each with its active call."""


def have_equal_arguments(node: cst.CSTNode, first: Way, second: Way, rewrite: Rewriter) -> bool:
    """Whether the parameters that `node` reads get equal arguments on two ways, as far as their calls are in sight."""
    for name in {one.value for one in every(node, cst.Name)}:
        one, other = _argument(name, first, rewrite), _argument(name, second, rewrite)
        if one is not None and other is not None and one is not other and not one.deep_equals(other):
            return False
    return True


def _argument(name: str, way: Way, rewrite: Rewriter) -> cst.BaseExpression | None:
    """The argument, or the default, for the parameter `name` of the innermost function on a way; None if unknown."""
    for (_, call), (function, _) in zip(reversed(way[:-1]), reversed(way[1:]), strict=True):
        if not isinstance(function, cst.FunctionDef):
            continue
        params = function.params.params
        found = next((one for one in (*params, *function.params.kwonly_params) if one.name.value == name), None)
        if found is None or not isinstance(call, cst.Call):
            continue
        bound = isinstance(call.func, cst.Attribute) and bool(params) and params[0].name.value in ("self", "cls")
        given = rewrite.arguments(call, [one.name.value for one in params[bound:]])
        return given.get(name, found.default) if given is not None else None
    return None
