"""Facts that follow from the words of a file: unused variables, no scaling of losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from amplint.regex import regex
from amplint.semantics.python.machine import Machine
from amplint.semantics.words import MAY_SCALE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.source.tree import every

_INERT = regex(
    r"(?m)#[^\n]*|^[ \t]*from[ \t]+torch[\w.]*[ \t]+import[ \t]+(?![^(\n]*\bas\b|\([^()]*\bas\b)(?:\([^()]*\)|[^(\n]*)"
)
"""Comments, and imports of names from PyTorch by which they are used, if at all."""
_READS_ALL = frozenset({"locals", "globals", "vars", "exec", "eval"})


def may_scale(chunks: Iterable[Chunk]) -> bool:
    """Whether a word in `chunks` is about scaling losses or gradients, or names a framework that may do so.

    Words in comments do nothing, nor do those that are imported from PyTorch and not mentioned again.
    """
    return any(map(_mentions_scaling, chunks))


@cached_per_chunk
def _mentions_scaling(chunk: Chunk) -> bool:
    return MAY_SCALE.occurs(chunk.text) and MAY_SCALE.occurs(_INERT.sub("", chunk.text))


def names_cuda(chunks: Iterable[Chunk]) -> bool:
    """Whether a word in `chunks` names CUDA."""
    return any("cuda" in chunk.text for chunk in chunks)


def never_read(machine: Machine, node: cst.Call) -> bool:
    """Whether `node` is assigned to a local or script variable that is never read."""
    statement, chunk = machine.statement, machine.chunk
    if not isinstance(statement, cst.SimpleStatementLine) or chunk is None or chunk.is_class:
        return False
    assigned = [small for small in statement.body if isinstance(small, cst.Assign) and _holds(small.value, node)]
    targets = [target.target for small in assigned for target in small.targets]
    if len(targets) != 1 or not isinstance(targets[0], cst.Name):
        return False
    name = targets[0].value
    others = machine.program.chunks if chunk.name is None else ()
    if any(name in other.words for other in others if other is not chunk) or not _READS_ALL.isdisjoint(chunk.words):
        return False
    return name in _only_assigned(chunk)


def _holds(value: cst.BaseExpression, node: cst.Call) -> bool:
    """Whether `value` is `node`, or a conditional expression with it."""
    return value is node or (isinstance(value, cst.IfExp) and (_holds(value.body, node) or _holds(value.orelse, node)))


@cached_per_chunk
def _only_assigned(chunk: Chunk) -> frozenset[str]:
    """The names that occur in a chunk only as targets of assignments."""
    mentioned, assigned = Counter[str](), Counter[str]()
    for node in every(chunk.module, cst.Name, cst.AssignTarget):
        if isinstance(node, cst.Name):
            mentioned[node.value] += 1
        elif isinstance(target := node.target, cst.Name):  # type: ignore[attr-defined]
            assigned[target.value] += 1
    return frozenset(name for name, times in assigned.items() if mentioned[name] == times)
