"""Which code autocast can change."""

from __future__ import annotations

from amplint.semantics.events import Event
from amplint.source import syntax as cst
from amplint.source.tree import walk

UNTOUCHED = frozenset({
    "abs", "all", "any", "append", "argmax", "argmin", "barrier", "bool", "clone", "contiguous", "cpu", "cuda",
    "debug", "detach", "dict", "dim", "empty_cache", "enumerate", "extend", "flatten", "float", "format", "getattr",
    "half", "hasattr", "info", "int", "isinstance", "item", "join", "len", "list", "max", "max_memory_allocated",
    "mean", "memory_allocated", "min", "next", "numel", "numpy", "open", "perf_counter", "permute", "print",
    "range", "repr", "reset_peak_memory_stats", "reshape", "round", "save", "set_description", "set_postfix",
    "size", "sorted", "squeeze", "state_dict", "str", "strftime", "synchronize", "time", "to", "tolist",
    "transpose", "tuple", "unsqueeze", "view", "warning", "zero_grad", "zip",
})  # fmt: skip
"""Functions and methods whose result does not depend on autocast, whoever they belong to."""


def may_be_cast(event: Event, node: cst.CSTNode) -> bool:
    """Whether `node` may run an operation that autocast casts; a backward pass does not count."""
    harmless = set(event.idle).union(*event.index.backwards.values())
    for inner in walk(node):
        if isinstance(inner, (cst.MatrixMultiply, cst.Power)):
            return True
        if isinstance(inner, cst.Call) and inner not in harmless:
            name = inner.func.attr if isinstance(inner.func, cst.Attribute) else inner.func
            if not isinstance(name, cst.Name) or name.value not in UNTOUCHED:
                return True
    return False


def is_last(event: Event, region: cst.CSTNode) -> bool:
    """Whether nothing that autocast casts can run in `region`, a `with`, once `event` is done."""
    nodes = list(walk(region))
    if not isinstance(region, cst.With) or event.node not in nodes:
        return False
    if any(isinstance(node, (cst.For, cst.While)) and event.node in walk(node) for node in nodes):
        return False
    later = nodes[nodes.index(event.node) + sum(1 for _ in walk(event.node)) :]
    return not any(may_be_cast(event, node) for node in later)
