"""Repairs that fit a sharded model alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def is_chosen_apart(wrapped: cst.CSTNode, node: cst.CSTNode, rewrite: Rewriter) -> bool:
    """Whether `node` can run where `wrapped` shards nothing: that is another file's, or under a condition alone.

    The condition can also be one around a call of the function that shards.
    """
    if not rewrite.source.owns(wrapped):
        return True
    apart = _around(wrapped, rewrite) - _around(node, rewrite)
    return any(isinstance(one, (cst.If, cst.IfExp)) for one in apart)


def may_lack_group(rewrite: Rewriter) -> bool:
    """Whether a run may have no process group: the file starts none, or does so under a condition alone."""
    calls = _calls("init_process_group", rewrite)
    return all(any(isinstance(one, cst.If) for one in rewrite.source.ancestors(call)) for call in calls)


def _around(node: cst.CSTNode, rewrite: Rewriter) -> set[cst.CSTNode]:
    """What surrounds `node`, and the calls of the functions that it lies in."""
    found, todo = set[cst.CSTNode](), [node]
    while todo:
        new = [one for one in rewrite.source.ancestors(todo.pop()) if one not in found]
        found.update(new)
        for one in new:
            todo += _calls(one.name.value, rewrite) if isinstance(one, cst.FunctionDef) else ()
    return found


def _calls(name: str, rewrite: Rewriter) -> Iterator[cst.Call]:
    """The calls of what has this last name."""
    for chunk in rewrite.source.chunks:
        if name in chunk.words:
            yield from (call for call in every(chunk.module, cst.Call) if last_name(call.func) == name)
