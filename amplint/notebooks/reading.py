"""Pages by the names of their files."""

from __future__ import annotations

import re

from amplint.notebooks.page import Page

SUFFIX = ".ipynb"
_HINT = re.compile(rb"^[ \t]*(?:[%!]|[A-Za-z_][\w., \t*]*=[ \t]*[!%])", re.MULTILINE)
"""What stands in a Python file with lines of IPython."""


def page_of(path: str, raw: bytes) -> Page:
    """What is linted of the file at `path`, which holds `raw`. Raises SourceError for a notebook that is none."""
    if path.endswith(SUFFIX):
        from amplint.notebooks.notebook import Notebook  # more modules than most runs need

        return Notebook(raw)
    if _HINT.search(raw):
        from amplint.notebooks.script import Script

        return Script.of(raw) or Page(raw)
    return Page(raw)


def cells_of(path: str, raw: bytes) -> dict[int, str] | None:
    """The sources of the cells of code in a notebook, by their numbers; None for another file."""
    if not path.endswith(SUFFIX):
        return None
    from amplint.notebooks.document import Document
    from amplint.source.encoding import SourceError

    try:
        return {cell.number: cell.source for cell in Document(raw).cells}
    except SourceError:
        return None
