"""Versions of packages that a project requires."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.engine.modules.contents import Contents
    from amplint.engine.modules.folders import Folders
    from amplint.torchlib.versions import Wanted

_DOCUMENTATION = ("doc", "docs")


class Required:
    """Answers for the file of an importer which versions of a package the files around it require."""

    def __init__(self, contents: Contents, folders: Folders) -> None:
        self._contents = contents
        self._folders = folders
        self._files: dict[str, tuple[str, ...]] = {}
        self._wanted: dict[tuple[str, str], Wanted | None] = {}

    def wanted(self, importer: str, package: str) -> Wanted | None:
        """The versions of `package` that the importer's project requires, None if no file states any."""
        key = os.path.dirname(importer), package
        if key not in self._wanted:
            self._wanted[key] = self._searched_wanted(*key)
        return self._wanted[key]

    def _searched_wanted(self, beside: str, package: str) -> Wanted | None:
        from amplint.engine.modules.requirements import wanted

        for file in (file for folder in self._folders.searched(beside) for file in self._requirements(folder)):
            raw = self._contents.raw(file)
            found = wanted(raw, package, file) if raw is not None else None
            if found is not None:
                return found
        return None

    def _requirements(self, folder: str) -> tuple[str, ...]:
        """The files of `folder`, and of its documentation, that state versions of packages."""
        from amplint.engine.modules.requirements import FILES

        if folder not in self._files:
            inner = (os.path.join(folder, name) for name in _DOCUMENTATION if name in self._folders.listing(folder))
            places = [(at, sorted(self._folders.listing(at))) for at in (folder, *inner)]
            found = (
                (at, name) for pattern in FILES for at, names in places for name in names if pattern.fullmatch(name)
            )
            self._files[folder] = tuple(os.path.join(at, name) for at, name in found)
        return self._files[folder]

    def forget(self) -> None:
        """Drop the versions that were read."""
        self._wanted.clear()
