"""Repairs that fit a sharded model alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def is_chosen_apart(wrapped: cst.CSTNode, node: cst.CSTNode, rewrite: Rewriter) -> bool:
    """Whether `node` can run where `wrapped` shards nothing: that is another file's, or a condition around it alone."""
    if not rewrite.source.owns(wrapped):
        return True
    around = set(rewrite.source.ancestors(node))
    return any(isinstance(one, (cst.If, cst.IfExp)) and one not in around for one in rewrite.source.ancestors(wrapped))


def may_lack_group(rewrite: Rewriter) -> bool:
    """Whether a run may have no process group: the file starts none, or does so under a condition alone."""
    calls = (
        call
        for chunk in rewrite.source.chunks
        if "init_process_group" in chunk.words
        for call in every(chunk.module, cst.Call)
        if last_name(call.func) == "init_process_group"
    )
    return all(any(isinstance(one, cst.If) for one in rewrite.source.ancestors(call)) for call in calls)
