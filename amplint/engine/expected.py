"""Test blocks that expect an exception, whose findings their author knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst

if TYPE_CHECKING:
    from amplint.source.source import Source

_EXPECTS = ("raises", "assertRaises", "assertRaisesRegex")


def is_expected_to_raise(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` is inside `with pytest.raises(...)` or unittest's counterpart."""
    if "aises" not in source.text:
        return False
    blocks = (above for above in source.ancestors(node) if isinstance(above, cst.With))
    contexts = (item.item for block in blocks for item in block.items)
    return any(last_name(one.func if isinstance(one, cst.Call) else one) in _EXPECTS for one in contexts)
