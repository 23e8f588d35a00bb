"""Local variables that are read before anything binds them, which raises UnboundLocalError."""

from __future__ import annotations

import re
import symtable
import warnings
from collections.abc import Mapping

from amplint.engine.before import before
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every

_REPEATING = (cst.For, cst.While, cst.Try, cst.TryStar, cst.Match, cst.Lambda)
_LATER = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)


def is_unbound(source: Source, node: cst.Name) -> bool:
    """Whether a local variable is read where nothing in front has mentioned it: no statement, and no block around."""
    function = source.function_around(node)
    if function is None or node.value not in _variables(source).get((function.name.value, _row(function)), ()):
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


def _row(function: cst.FunctionDef) -> int:
    row: int = getattr(function.at, "lineno", 0)
    return row


@cached_per_file
def _variables(source: Source) -> Mapping[tuple[str, int], frozenset[str]]:
    """The local variables of each function, by its name and row, without its parameters."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(source.text, source.filename, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[tuple[str, int], frozenset[str]] = {}
    todo = [top]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        if table.get_type() == "function":
            own = (one for one in table.get_symbols() if one.is_local() and not one.is_parameter())
            key = table.get_name(), table.get_lineno()
            found[key] = frozenset(one.get_name() for one in own) if key not in found else frozenset()
    return found
