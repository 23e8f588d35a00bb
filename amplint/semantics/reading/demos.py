"""Code of scripts alone, self-tests, and demonstrations of a module on random or constant tensors.

Their arguments say little about those of other callers.
"""

from __future__ import annotations

from collections.abc import Iterable

from amplint.semantics.values.values import Function
from amplint.semantics.words import SELF_TEST
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import walk
from amplint.torchlib.catalogue import operations_with

_MADE_UP = operations_with("creates") - operations_with("of-content") - operations_with("blank")


def is_self_test(function: Function) -> bool:
    """Whether a function of the linted file is a test, by its name."""
    named = function.node.name.value if isinstance(function.node, cst.FunctionDef) else function.chunk.name
    return SELF_TEST.search(named or "") is not None


def is_within_test(calls: Iterable[cst.CSTNode]) -> bool:
    """Whether one of the running functions, `calls`, is a test, by its name."""
    return any(isinstance(one, cst.FunctionDef) and SELF_TEST.search(one.name.value) is not None for one in calls)


def is_of_script(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` stands in `if __name__ == "__main__":`."""
    tests = (above.test for above in source.ancestors(node) if isinstance(above, cst.If))
    return any(isinstance(name, cst.Name) and name.value == "__name__" for test in tests for name in walk(test))


def is_demonstration(statement: cst.CSTNode) -> bool:
    """Whether a top-level statement runs only in a script and creates its own tensors."""
    if not isinstance(statement, cst.If) or not isinstance(statement.test, cst.Comparison):
        return False
    left = statement.test.left
    return isinstance(left, cst.Name) and left.value == "__name__" and any(map(_creates_data, walk(statement.body)))


def _creates_data(node: cst.CSTNode) -> bool:
    callee = node.func if isinstance(node, cst.Call) else None
    name = callee.attr if isinstance(callee, cst.Attribute) else None
    return name is not None and name.value in _MADE_UP
