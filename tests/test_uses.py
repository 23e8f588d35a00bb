"""Where an imported name is used, and which code is there for an older library only."""

from __future__ import annotations

import re

import pytest

from amplint.source import syntax as cst
from amplint.source.fallback import is_fallback
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import walk

IMPORT = "from lib.old import tool, other\n"


def uses(text: str) -> dict[str, list[tuple[int, int]]] | None:
    """Row and column of every use of the names imported by the first import of `tool`."""
    rewrite = Rewriter(Source("t.py", text))
    aliases = (
        node for chunk in rewrite.source.chunks for node in walk(chunk.module) if isinstance(node, cst.ImportAlias)
    )
    alias = next(alias for alias in aliases if rewrite.text(alias.name) == "tool")
    found = rewrite.import_uses(alias)
    if found is None:
        return None
    starts = {name: [rewrite.span(node).start for node in nodes] for name, nodes in found[1].items()}
    return {name: [(start.row, start.column) for start in places] for name, places in starts.items()}


def test_uses_in_all_chunks() -> None:
    text = (
        IMPORT
        + "tool(1)\ndef f(x: tool = tool):\n    return x.tool(tool=other), [tool for _ in x]\n__all__ = ['tool']\n"
    )
    assert uses(text) == {"tool": [(2, 1), (3, 10), (3, 17), (4, 33), (5, 12)], "other": [(4, 24)]}


def test_renamed_import_is_looked_for_by_its_new_name() -> None:
    assert uses("from lib.old import tool as t\ntool()\nt()\n") == {"tool": [(3, 1)]}


def test_import_in_a_function_concerns_that_function() -> None:
    assert uses("def f():\n    from lib.old import tool\n    tool()\ndef tool(): pass\ntool()\n") == {"tool": [(3, 5)]}


@pytest.mark.parametrize(
    "code",
    [
        "tool = 1",
        "tool, x = 1, 2",
        "tool: int = 1",
        "tool += 1",
        "for tool in []: pass",
        "x = [tool for tool in []]",
        "with open('f') as tool: pass",
        "import tool",
        "from lib import new as tool",
        "def f(tool): pass",
        "def tool(): pass",
        "class tool: pass",
        "def f():\n    global tool",
        "(tool := 1)",
        "del tool",
        "lambda tool: 1",
        "match 1:\n    case tool: pass",
    ],
)
def test_a_second_binding_makes_it_unclear(code: str) -> None:
    assert uses(IMPORT + code + "\n") is None


@pytest.mark.parametrize("text", ["import tool\n", "from . import tool\n", "from .old import tool\n"])
def test_only_absolute_from_imports(text: str) -> None:
    assert uses(text) is None


FALLBACKS = [
    "try:\n    new()\nexcept AttributeError:\n    old()\n",
    "if check:\n    new()\nelse:\n    old()\n",
    "if check:\n    old()\nelse:\n    new()\n",
    "x = new() if check else old()\n",
    "if torch.__version__ < '2.4':\n    old()\n",
    "if TORCH_2_4:\n    pass\nelse:\n    old()\n",
    "if not hasattr(torch.amp, 'new'):\n    old()\n",
    "def f():\n    if check:\n        return new()\n    return old()\n",
]
NO_FALLBACKS = [
    "try:\n    old()\nexcept AttributeError:\n    new()\n",
    "new()\nold()\n",
    "if check:\n    old()\nelse:\n    plain()\n",
    "if old():\n    pass\nelse:\n    new()\n",
    "def f():\n    if check:\n        new()\n    return old()\n",
]


@pytest.mark.parametrize("text", FALLBACKS)
def test_fallback(text: str) -> None:
    assert fallback(text)


@pytest.mark.parametrize("text", NO_FALLBACKS)
def test_no_fallback(text: str) -> None:
    assert not fallback(text)


def fallback(text: str) -> bool:
    """Whether the call of `old` is a fallback for `new`."""
    source = Source("t.py", text)
    names = (node for chunk in source.chunks for node in walk(chunk.module) if isinstance(node, cst.Name))
    return is_fallback(source, next(name for name in names if name.value == "old"), re.compile(r"\bnew\b"))
