"""Blocks of tests that are expected to raise: nothing found in one is news to its author."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.source import Source

_EXPECTS = ("raises", "assertRaises", "assertRaisesRegex")


def is_expected_to_raise(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` stands in `with pytest.raises(...)` or unittest's counterpart."""
    if "aises" not in source.text:
        return False
    blocks = (above for above in source.ancestors(node) if isinstance(above, cst.With))
    return any(_last_name(item.item) in _EXPECTS for block in blocks for item in block.items)


def _last_name(context: cst.BaseExpression) -> str:
    function = context.func if isinstance(context, cst.Call) else context
    name = function.attr if isinstance(function, cst.Attribute) else function
    return name.value if isinstance(name, cst.Name) else ""
