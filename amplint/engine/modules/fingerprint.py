"""A digest of all of a project that answers in words depend on."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from amplint.engine.modules.absent import TELLING
from amplint.engine.modules.folders import MOST_FOLDERS, below
from amplint.engine.modules.mentions import SEARCHED

if TYPE_CHECKING:
    from amplint.engine.modules.contents import Contents
    from amplint.engine.modules.folders import Folders
    from amplint.engine.modules.mentions import Mentions


class Fingerprints:
    """Digests of projects: the names of their files, and the contents of those that are searched.

    While that of a project stays, so does every answer that is looked for in all of its files, and none of them needs
    to be looked for again.
    """

    def __init__(self, contents: Contents, folders: Folders, mentions: Mentions) -> None:
        self._contents = contents
        self._folders = folders
        self._mentions = mentions
        self._found: dict[str, str] = {}

    def of(self, importer: str) -> str:
        """The digest of the project of a file; "" if answers can depend on more than that."""
        if importer not in (self._mentions.files_around(importer) or ()):
            return ""
        root = self._folders.root(os.path.dirname(importer))
        if root not in self._found:
            self._found[root] = self._computed(root)
        return self._found[root]

    def _computed(self, root: str) -> str:
        digest = hashlib.blake2b(digest_size=12)
        for number, (folder, inner, names) in enumerate(below(root)):
            if number == MOST_FOLDERS or any(os.path.islink(os.path.join(folder, one)) for one in inner):
                return ""
            for path in (os.path.join(folder, name) for name in names):
                content = self._contents.digest(path) if path.endswith((*SEARCHED, *TELLING)) else ""
                digest.update(os.fsencode(f"{path}\0{content}\0"))
        return digest.hexdigest()

    def forget(self) -> None:
        """Drop the digests."""
        self._found.clear()
