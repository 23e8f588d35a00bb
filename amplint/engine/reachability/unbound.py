"""Local variables that are read before anything binds them, which raises UnboundLocalError."""

from __future__ import annotations

import re
from collections.abc import Sequence

from amplint.engine.reachability.before import before
from amplint.engine.reachability.symbols import table_of
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every

_OPEN = (cst.Try, cst.TryStar, cst.Match, cst.Lambda, cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)
"""What does not run, or not at once, where it stands."""


def is_unbound(source: Source, node: cst.Name) -> bool:
    """Whether a local variable is read where nothing in front has mentioned it: no statement, and no block around.

    What a loop binds behind the place binds it for the next round, if a round can get there past the place.
    """
    function = source.function_around(node)
    if function is None or not _is_variable(source, function, node.value):
        return False
    mentions = re.compile(rf"(?<![\w.]){re.escape(node.value)}(?!\w)")
    if any(mentions.search(source.code(one)) for one in before(source, node)):
        return False
    inner: cst.CSTNode = node
    passed = False
    for above in source.ancestors(node):
        if above is function:
            return True
        repeats = isinstance(above, (cst.For, cst.While)) and inner not in _heads(above)
        if isinstance(above, _OPEN) or (repeats and (passed or isinstance(inner, cst.Else))):
            return False
        if any(mentions.search(source.code(one)) for one in _heads(above) if node not in {*every(one, cst.Name)}):
            return False
        passed |= repeats or (isinstance(above, cst.If) and inner is not above.test)
        inner = above
    return False


def _heads(statement: cst.CSTNode) -> Sequence[cst.CSTNode]:
    """What is evaluated or bound before the block of a statement."""
    if isinstance(statement, cst.With):
        return statement.items
    if isinstance(statement, cst.For):
        return (statement.target, statement.iter)
    return (statement.test,) if isinstance(statement, (cst.If, cst.While)) else ()


def _is_variable(source: Source, function: cst.FunctionDef, name: str) -> bool:
    """Whether a function binds a name, which is not one of its parameters."""
    table = table_of(source, function)
    if table is None or name not in table.get_identifiers():
        return False
    found = table.lookup(name)
    return found.is_local() and not found.is_parameter()
