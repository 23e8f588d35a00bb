"""Source-to-source rewrites of whole files, built on semantics and fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.codemods.conversion import Conversion, Remark, Wish

if TYPE_CHECKING:
    from amplint.engine.modules import Modules
    from amplint.findings import Fix

__all__ = ["Conversion", "Remark", "Wish", "as_fix", "convert", "from_logits"]


def convert(text: str, wish: Wish, path: str = "", modules: Modules | None = None) -> Conversion:
    """Rewrite `text`, the content of the file at the absolute `path` if it is in one, as `wish` says.

    The result parses, differs from `text` in nothing but the planned edits, and converting it again changes nothing. A
    text that cannot be converted with certainty is returned unchanged, with the reasons. Imported files are taken from
    `modules` if given; only then does the result rely on changes of them. Raises ValueError for a wish that no codemod
    fulfils.
    """
    from amplint.codemods.driver import run  # many modules

    return run(text, wish, path, modules)


def as_fix(message: str, text: str, wish: Wish, path: str = "") -> Fix | None:
    """Return the edits of `convert` as an unsafe fix of a finding; None if it changes nothing."""
    from amplint.codemods.driver import fix  # many modules

    return fix(message, text, wish, path)


def from_logits(text: str, path: str = "") -> Fix | None:
    """Return the fix that computes every binary cross-entropy of `text` from logits, including all uses of the output.

    None if not all of them are certain; unsafe where other files may have to know that functions return logits now.
    """
    from amplint.codemods.logits import fix  # many modules

    return fix(text, path)
