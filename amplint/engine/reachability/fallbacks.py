"""Handlers for what another version of a library raises."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.reading.scopes import dotted, last_name
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every

_OF_VERSIONS = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError"})
"""What versions of a library raise that lack a module, a name or a parameter."""


def is_in_fallback(source: Source, node: cst.CSTNode) -> bool:
    """Whether a call is made only where another version of PyTorch has refused what is tried before.

    For `TypeError`, which a lot can raise, the same function has to be called with other arguments.
    """
    inner = node
    for above in source.ancestors(node):
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return False
        if isinstance(above, cst.ExceptHandler) and inner is above.body:
            names = set(_names(above.type))
            tried = next((one for one in source.ancestors(above) if isinstance(one, cst.Try)), None)
            if tried is not None and names and names <= _OF_VERSIONS:
                return _calls(tried.body, node) if "TypeError" in names else _uses_torch(source, tried.body)
        inner = above
    return False


def _names(caught: cst.BaseExpression | None) -> Iterator[str]:
    if isinstance(caught, cst.Tuple):
        yield from (last_name(one.value) for one in caught.elements)
    elif caught is not None:
        yield last_name(caught)


def _uses_torch(source: Source, body: cst.BaseSuite) -> bool:
    """Whether nothing but PyTorch is imported or used where a name or a module of it may be lacking."""
    modules = [dotted(one.module) or "" for one in every(body, cst.ImportFrom) if one.module is not None]
    modules += [dotted(alias.name) or "" for one in every(body, cst.Import) for alias in one.names]
    return "torch" in source.code(body) and all(one.partition(".")[0] == "torch" for one in modules)


def _calls(body: cst.BaseSuite, node: cst.CSTNode) -> bool:
    called = {last_name(call.func) for call in every(node, cst.Call)}
    return not called.isdisjoint(last_name(call.func) for call in every(body, cst.Call))
