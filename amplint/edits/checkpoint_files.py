"""Checkpoints of several files: the scaler's state in a file of its own beside the optimizer's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.regex import regex
from amplint.semantics.words import OPTIMIZER_FILE
from amplint.source import syntax as cst
from amplint.source.tree import walk

if TYPE_CHECKING:
    from amplint.findings import Edit
    from amplint.source.rewrite import Rewriter

IMPORTS = ("import os",)
"""What the code of `loaded_beside` needs."""
_FILE = regex(r"\.\w+['\"]*$")


def saved_beside(state: cst.CSTNode, taken: str, rewrite: Rewriter) -> Edit | None:
    """A statement that saves `taken`, the scaler's state, like `torch.save(state, ".../optimizer.pt")`."""
    given = rewrite.source.parent(state)
    call = rewrite.source.parent(given) if isinstance(given, cst.Arg) else None
    if not isinstance(call, cst.Call) or not isinstance(rewrite.source.parent(call), cst.Expr):
        return None
    text, path = rewrite.text(call), _sibling(call, rewrite)
    if path is None or text.count(rewrite.text(state)) != 1:
        return None
    line = rewrite.source.lines[rewrite.source.span(call).start.row - 1]
    margin = line[: len(line) - len(line.lstrip())]
    text = text.replace(f"\n{margin}", "\n")  # insert_after indents every line
    return rewrite.insert_after(call, text.replace(*path).replace(rewrite.text(state), taken))


def loaded_beside(restored: cst.Call, scaler: str, rewrite: Rewriter, guard: str = "") -> Edit | None:
    """A statement that loads the scaler's state if its file exists, like the optimizer's.

    `guard` is a further condition, with its `and`.
    """
    load = restored.args[0].value if restored.args else None
    if not isinstance(load, cst.Call) or not load.args or not isinstance(rewrite.source.parent(restored), cst.Expr):
        return None
    path = _sibling(load, rewrite)
    if path is None:
        return None
    place = rewrite.text(load.args[0].value).replace(*path)
    code = f"{scaler}.load_state_dict({rewrite.text(load).replace(*path)})"
    return rewrite.insert_after(restored, f"if {guard}os.path.exists({place}):\n    {code}")


def _sibling(call: cst.Call, rewrite: Rewriter) -> tuple[str, str] | None:
    """The only string in `call` that names the optimizer's file, and its counterpart for the scaler."""
    found = []
    for node in walk(call):
        if isinstance(node, cst.SimpleString):
            found.append(rewrite.text(node))
        elif isinstance(node, cst.FormattedStringText):
            found.append(node.value)
    names = [text for text in found if _FILE.search(text) and len(OPTIMIZER_FILE.compiled.findall(text)) == 1]
    if len(names) != 1 or rewrite.text(call).count(names[0]) != 1:
        return None
    return names[0], OPTIMIZER_FILE.compiled.sub("scaler", names[0])
