"""Contents of the files of a tree, read, decoded and cut once in a run."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from amplint.source.files import read
from amplint.torchlib.stand_ins import STAND_INS

if TYPE_CHECKING:
    from amplint.source.configs.file import ConfigFile
    from amplint.source.source import Source

_SIZE_LIMIT = 1_000_000
"""Bytes above which a file is generated, or data, and is not followed."""
_TREES_KEPT = 2_000_000
"""Characters of text whose trees are kept from one analysis to the next: they can take a hundred times that."""
_TEXTS_KEPT = 40_000_000
"""Characters of text whose files are kept, cut and with what their words tell, which takes about ten times that."""


class Contents:
    """The contents of files, by their absolute paths.

    `unsaved` maps paths to an editor's unsaved content, which takes precedence over the disk.
    """

    def __init__(self, unsaved: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._unsaved = unsaved
        self._raw: dict[str, bytes | None] = {}
        self._digests: dict[str, str] = {}
        self._sources: dict[str, Source | None] = {}
        self._with_trees: set[str] = set()
        self._configs: dict[str, ConfigFile | None] = {}
        self._stand_ins: dict[str, Source] = {}

    def raw(self, path: str) -> bytes | None:
        """The content of a file of the tree, None if it cannot be read or is too large."""
        if path not in self._raw:
            self._raw[path] = self._unsaved.get(path)
            if path not in self._unsaved:
                with contextlib.suppress(OSError):
                    self._raw[path] = read(path, _SIZE_LIMIT)
        return self._raw[path]

    def text(self, path: str) -> str | None:
        """The text of a file of the tree, None if it cannot be read or decoded."""
        raw = self.raw(path)
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode() if raw is not None else None
        return None

    def digest(self, path: str) -> str:
        """A digest of the content of a file of the tree."""
        if path not in self._digests:
            self._digests[path] = hashlib.blake2b(self.raw(path) or b"", digest_size=12).hexdigest()
        return self._digests[path]

    def source(self, path: str) -> Source | None:
        """A parsed file of the tree, None if it cannot be read or decoded."""
        from amplint.source.encoding import SourceError
        from amplint.source.source import Source

        if path in self._sources:
            found = self._sources.pop(path)
        else:
            raw, found = self.raw(path), None
            with contextlib.suppress(SourceError):
                found = None if raw is None else Source.from_bytes(path, raw, path, followed=True)
        self._sources[path] = found
        self._with_trees.add(path)
        return found

    def config(self, path: str) -> ConfigFile | None:
        """A configuration file of the tree, None if it cannot be read."""
        if path not in self._configs:
            from amplint.source.configs.file import ConfigFile
            from amplint.source.encoding import SourceError

            raw, self._configs[path] = self.raw(path), None
            with contextlib.suppress(SourceError):
                self._configs[path] = None if raw is None else ConfigFile.of(path, raw, path)
        return self._configs[path]

    def stand_in(self, module: str) -> Source | None:
        """The stand-in for a module of an installed library; it has no file."""
        from amplint.source.source import Source

        if module in STAND_INS and module not in self._stand_ins:
            self._stand_ins[module] = Source(module, STAND_INS[module])
        return self._stand_ins.get(module)

    def trim(self) -> None:
        """Evict the least recently used trees and files beyond the limits. Call it while no analysis is running."""
        trees, texts = _TREES_KEPT, _TEXTS_KEPT
        for path, source in reversed(list(self._sources.items())):
            if source is None:
                continue
            texts -= len(source.text)
            if texts < 0:
                del self._sources[path]
            elif path in self._with_trees:
                kept = source.prune(trees)
                trees -= kept
                if not kept:
                    self._with_trees.discard(path)

    def forget(self, path: str) -> None:
        """Drop the cached content of a file that has changed."""
        self._raw.pop(path, None)
        self._digests.pop(path, None)
        self._sources.pop(path, None)
        self._configs.pop(path, None)

    def amend(self, path: str, raw: bytes) -> None:
        """Take `raw` for the content of a file from here on."""
        self.forget(path)
        self._raw[path] = raw
