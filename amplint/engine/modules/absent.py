"""Imports of a project's own modules that the project lacks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.engine.modules.folders import OUTSIDE, PROJECT_FILES
from amplint.regex import regex

if TYPE_CHECKING:
    from amplint.engine.modules.contents import Contents
    from amplint.engine.modules.folders import Folders
    from amplint.engine.modules.mentions import Mentions
    from amplint.engine.modules.unresolved import Bindings, Imported

_SEARCH_PATH = regex(rb"\bsys\.path\b|\bPYTHONPATH\b|\baddsitedir\b")
"""What has modules searched in other folders."""
TELLING = (".md", ".rst", "file", ".cfg", ".env")
"""Ends of the names of files beside the scripts that tell how these are started: README.md, Dockerfile, Makefile."""


class Absent:
    """Answers for the file of an importer which module it imports that its project does not have."""

    def __init__(self, contents: Contents, folders: Folders, mentions: Mentions) -> None:
        self._contents = contents
        self._folders = folders
        self._mentions = mentions
        self._unresolved: dict[str, str | None] = {}
        self._imported: dict[str, Imported] = {}
        self._bindings: Bindings | None = None

    def unresolved(self, importer: str) -> str | None:
        """What `importer`, or a file that it imports, imports from its project and the project does not have."""
        from amplint.engine.modules.unresolved import unresolved

        if importer not in self._unresolved:
            lacking = unresolved([importer, *self._packages(importer)], self._imported_by, self._parses)
            self._unresolved[importer] = lacking or self._left_apart(importer)
        return self._unresolved[importer]

    def _left_apart(self, importer: str) -> str | None:
        """A module that a script imports and that stands, with others, in a folder that nothing makes it search."""
        from amplint.engine.modules.unresolved import apart

        if b"__main__" not in (self._contents.raw(importer) or b""):
            return None
        folder = os.path.dirname(importer)
        entries = (
            one
            for place in (*self._folders.searched(folder), *self._folders.added(folder))
            for one in self._folders.listing(place)
        )
        there = OUTSIDE.union(entry.partition(".")[0] for entry in entries)
        found = apart(self._contents.text(importer) or "", there, lambda: self._mentions.files_around(importer) or ())
        if found is None:
            return None
        root, name = self._folders.root(folder), re.compile(rb"\b%s\b" % re.escape(os.path.basename(found[1]).encode()))
        told = (os.path.join(root, one) for one in self._folders.listing(root) if one.endswith(TELLING))
        for path in {*(self._mentions.files_around(importer) or ()), *told}:
            raw = self._contents.raw(path) or b""
            if _SEARCH_PATH.search(raw) or (os.path.basename(path) in PROJECT_FILES and name.search(raw)):
                return None
        return found[0]

    def _packages(self, path: str) -> Iterator[str]:
        """The files of the packages that a module lies in, which run before it; none for a script."""
        folder = os.path.dirname(path)
        while "__init__.py" in self._folders.listing(folder) and b"__main__" not in (self._contents.raw(path) or b""):
            yield os.path.join(folder, "__init__.py")
            folder = os.path.dirname(folder)

    def _imported_by(self, importer: str) -> Imported:
        from amplint.engine.modules.unresolved import Bindings, imported

        if importer not in self._imported:
            folder, text = os.path.dirname(importer), self._contents.text(importer)
            places = (*self._folders.searched(folder), *self._folders.added(folder))
            self._bindings = self._bindings or Bindings(self._folders.listing, self._contents.text)
            self._imported[importer] = imported(
                importer, text or "", places, self._bindings, lambda: self._mentions.files_around(importer) or ()
            )
        return self._imported[importer]

    def _parses(self, path: str) -> bool:
        """Whether a file is Python, be it in the syntax of a newer one than runs."""
        source = self._contents.source(path)
        return source is None or bool(source.chunks)

    def forget(self) -> None:
        """Drop what is known of imports."""
        self._unresolved.clear()
        self._imported.clear()
        self._bindings = None
