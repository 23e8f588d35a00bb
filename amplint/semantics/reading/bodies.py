"""The syntax of functions: their bodies, placeholders, properties, and the names that they declare."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import walk

_READS = frozenset(
    {
        cst.Name, cst.Attribute, cst.SimpleString, cst.Integer, cst.Comparison, cst.BooleanOperation,
        cst.UnaryOperation, cst.Tuple, cst.List, cst.Set,
    }
)  # fmt: skip
"""Expressions of a property that need no call."""
_READERS = frozenset({"bool", "getattr", "hasattr", "isinstance"})
_PROPERTIES = frozenset({"property", "cached_property"})


def statements(suite: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    """The statements of a block, also of one on the line of its header."""
    if isinstance(suite, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine(body=suite.body)]
    assert isinstance(suite, cst.IndentedBlock)
    return suite.body


def is_abstract(node: cst.CSTNode) -> bool:
    """Whether a function only raises NotImplementedError: an override takes its place."""
    last = statements(node.body)[-1] if isinstance(node, cst.FunctionDef) else None
    raised = last.body[0] if isinstance(last, cst.SimpleStatementLine) else None
    if not isinstance(raised, cst.Raise) or raised.exc is None:
        return False
    return any(isinstance(inner, cst.Name) and inner.value == "NotImplementedError" for inner in walk(raised.exc))


@cached_per_file
def is_stub(node: cst.CSTNode) -> bool:
    """Whether a function does nothing: an override takes its place."""
    return isinstance(node, cst.FunctionDef) and all(
        isinstance(statement, cst.SimpleStatementLine) and all(map(_is_placeholder, statement.body))
        for statement in statements(node.body)
    )


def _is_placeholder(statement: cst.CSTNode) -> bool:
    written = statement.value if isinstance(statement, cst.Expr) else None
    return isinstance(statement, cst.Pass) or isinstance(written, (cst.SimpleString, cst.Ellipsis))


@cached_per_file
def calls_parameter(node: cst.FunctionDef) -> bool:
    """Whether a function calls one of its parameters."""
    params = node.params
    names = {param.name.value for param in (*params.posonly_params, *params.params, *params.kwonly_params)}
    called = (inner.func for inner in walk(node.body) if isinstance(inner, cst.Call))
    return any(isinstance(callee, cst.Name) and callee.value in names for callee in called)


@cached_per_file
def calls_itself(node: cst.FunctionDef) -> bool:
    """Whether a function mentions its own name."""
    return any(isinstance(inner, cst.Name) and inner.value == node.name.value for inner in walk(node.body))


@cached_per_file
def outer_names(node: cst.FunctionDef | cst.Lambda) -> frozenset[str]:
    """The names that a function declares as `global` or `nonlocal`."""
    if isinstance(node, cst.Lambda):
        return frozenset()
    return frozenset(
        item.name.value for found in walk(node) if isinstance(found, (cst.Global, cst.Nonlocal)) for item in found.names
    )


def is_property(node: cst.CSTNode | None) -> bool:
    """Whether a method is a property."""
    return isinstance(node, cst.FunctionDef) and any(
        isinstance(d.decorator, cst.Name) and d.decorator.value in _PROPERTIES for d in node.decorators
    )


@cached_per_file
def getter(node: cst.CSTNode | None) -> tuple[str, cst.BaseExpression] | None:
    """The parameter and the result of a property that only reads and compares attributes; None for any other."""
    if not isinstance(node, cst.FunctionDef) or len(node.params.params) != 1:
        return None
    *before, last = (
        small
        for line in node.body.body
        for small in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    )
    if not isinstance(last, cst.Return) or last.value is None or not all(map(_is_placeholder, before)):
        return None
    if not all(type(inner) in _READS or _is_harmless(inner) for inner in walk(last.value)):
        return None
    return node.params.params[0].name.value, last.value


def _is_harmless(node: cst.CSTNode) -> bool:
    """Whether a node is an operator or an argument, or calls a function that only reads."""
    if isinstance(node, cst.Call):
        return dotted(node.func) in _READERS
    return not isinstance(node, cst.BaseExpression)
