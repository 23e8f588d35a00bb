"""Construction of pages by file name and content."""

from __future__ import annotations

import re

from amplint.notebooks.page import Page
from amplint.regex import regex

SUFFIX = ".ipynb"
_SIGN = regex(rb"[%!](?:(?<=[\s=].)|(?<=\A.)|(?<=\xbf.))[^\s=]")
_LINE = regex(rb"^(?:\xef\xbb\xbf)?[ \t]*(?:[%!]|[A-Za-z_][\w., \t*]*=[ \t]*[!%])", re.MULTILINE)
"""A line that can be IPython's. What it cannot do without, `_SIGN`, is found three times as fast."""


def is_plain(path: str, raw: bytes) -> bool:
    """Whether the file at `path` with content `raw` is linted as it is."""
    return not (path.endswith(SUFFIX) or (_SIGN.search(raw) is not None and _LINE.search(raw) is not None))


def page_of(path: str, raw: bytes) -> Page:
    """The page of a file that may not be plain. Raises SourceError for a malformed notebook."""
    if path.endswith(SUFFIX):
        from amplint.notebooks.notebook import Notebook  # imports more modules than most runs need

        return Notebook(raw)
    from amplint.notebooks.script import Script

    return Script.of(raw) or Page(raw)


def cells_of(path: str, raw: bytes) -> dict[int, str] | None:
    """The sources of a notebook's code cells, by number; None for another file."""
    if not path.endswith(SUFFIX):
        return None
    from amplint.notebooks.document import Document
    from amplint.source.encoding import SourceError

    try:
        return {cell.number: cell.source for cell in Document(raw).cells}
    except SourceError:
        return None
