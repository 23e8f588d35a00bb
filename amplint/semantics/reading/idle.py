"""Runs of top-level statements that need not be executed: long tables, and those that share no variable."""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Sequence, Set

from amplint.semantics.reading.scopes import LONG_RUN
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import target_names, walk

_KINDS = frozenset(
    {
        cst.SimpleStatementLine, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Expr, cst.Pass,
        cst.IndentedBlock, cst.SimpleStatementSuite, cst.If, cst.Else, cst.For,
    }
)  # fmt: skip
"""The statements that can have no effect but on the variables in them."""
_STATEMENTS = (cst.BaseStatement, cst.BaseSmallStatement, cst.BaseSuite)
_REACHING = frozenset({"eval", "exec", "exit", "quit", "globals", "locals", "vars", "__import__"})
_HARMLESS = frozenset(dir(builtins)) - _REACHING


def idle(chunks: Sequence[Chunk], relevant: Set[Chunk]) -> set[Chunk]:
    """The unnamed `chunks` of a file that are neither relevant nor bind a variable that another one mentions.

    Those of more than LONG_RUN rows count as tables. Raises SourceError for a part that cannot be parsed.
    """
    waiting = {chunk for chunk in chunks if chunk.name is None and chunk not in relevant}
    tables = {chunk for chunk in waiting if chunk.text.count("\n") > LONG_RUN}
    isolated = {chunk: names for chunk in waiting - tables if (names := _variables(chunk))}
    bound = frozenset[str]().union(*isolated.values())
    mentions = Counter(name for chunk in {*chunks, *relevant} for name in chunk.words & bound) if bound else {}
    return tables | {chunk for chunk, names in isolated.items() if all(mentions[name] == 1 for name in names)}


@cached_per_chunk
def _variables(chunk: Chunk) -> frozenset[str]:
    """The variables of statements that use nothing else but built-in functions; none if they use or do more."""
    bound, local, read = set[str](), set[str](), set[str]()
    for node in walk(chunk.module):
        if isinstance(node, _STATEMENTS) and type(node) not in _KINDS:
            return frozenset()
        if isinstance(node, cst.Assign):
            bound.update(name for target in node.targets for name in target_names(target.target))
        elif isinstance(node, (cst.AnnAssign, cst.For)):
            bound.update(target_names(node.target))
        elif isinstance(node, cst.CompFor):
            local.update(target_names(node.target))
        elif isinstance(node, cst.Name):
            read.add(node.value)
    return frozenset(bound) if read <= bound | local | _HARMLESS else frozenset()
