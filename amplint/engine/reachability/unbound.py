"""Local variables that are read before anything binds them, which raises UnboundLocalError."""

from __future__ import annotations

import re

from amplint.engine.reachability.before import before
from amplint.engine.reachability.symbols import table_of
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every

_REPEATING = (cst.For, cst.While, cst.Try, cst.TryStar, cst.Match, cst.Lambda)
_LATER = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)


def is_unbound(source: Source, node: cst.Name) -> bool:
    """Whether a local variable is read where nothing in front has mentioned it: no statement, and no block around."""
    function = source.function_around(node)
    if function is None or not _is_variable(source, function, node.value):
        return False
    mentions = re.compile(rf"(?<![\w.]){re.escape(node.value)}(?!\w)")
    if any(mentions.search(source.code(one)) for one in before(source, node)):
        return False
    for above in source.ancestors(node):
        if above is function:
            return True
        if isinstance(above, (*_REPEATING, *_LATER)):
            return False
        heads = [*above.items] if isinstance(above, cst.With) else [above.test] if isinstance(above, cst.If) else []
        if any(mentions.search(source.code(one)) for one in heads if node not in {*every(one, cst.Name)}):
            return False
    return False


def _is_variable(source: Source, function: cst.FunctionDef, name: str) -> bool:
    """Whether a function binds a name, which is not one of its parameters."""
    table = table_of(source, function)
    if table is None or name not in table.get_identifiers():
        return False
    found = table.lookup(name)
    return found.is_local() and not found.is_parameter()
