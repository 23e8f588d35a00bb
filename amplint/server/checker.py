"""The engine of the server: lints, repairs and suppresses in documents as the client holds them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amplint.adoption.ignoring import commented, identity
from amplint.engine.cache import Cache
from amplint.engine.config import Settings, overridden
from amplint.engine.discover import Target
from amplint.engine.fixing import edited, repair
from amplint.engine.patterns import ignored
from amplint.engine.projects import Projects
from amplint.engine.run import Linter, opened
from amplint.findings import Finding
from amplint.rule import Registry
from amplint.server.documents import Document
from amplint.source.encoding import SourceError

_LINTS = 500
"""After so many lints what they remember is forgotten."""


class Checker:
    """Lints documents with the settings of their folders, overridden by the client's.

    Texts that are `put` take precedence over files, also for files that import them. Not thread-safe. All methods that
    take a document raise ConfigError.
    """

    def __init__(self, registry: Registry) -> None:
        self._rules = registry.rules
        self._unsaved: dict[str, bytes] = {}
        self._table: Mapping[str, Any] = {}
        self._isolated = False
        self.refresh()

    def configure(self, options: Mapping[str, Any]) -> None:
        """Apply the client's settings: the keys of a configuration file, and `isolated`. Raises ConfigError."""
        table = {name: value for name, value in options.items() if name != "isolated"}
        overridden(Settings(), table, self._rules)
        self._table, self._isolated = table, options.get("isolated") is True
        self.refresh()

    def refresh(self) -> None:
        """Reread files and settings."""
        fixed = Settings() if self._isolated else None
        self._projects = Projects(self._rules, lambda settings: overridden(settings, self._table, self._rules), fixed)
        self._linter = Linter(self._projects, Cache(None), self._unsaved)
        self._lints = 0

    def put(self, path: str, raw: bytes | None) -> None:
        """Use `raw` as the content of a file; None reverts to the file."""
        if raw is None:
            self._unsaved.pop(path, None)
        else:
            self._unsaved[path] = raw
        self._linter.forget(path)

    def forget(self, path: str) -> None:
        """Drop the cached content of a file that changed on disk."""
        self._linter.forget(path)

    def check(self, document: Document) -> list[Finding]:
        """The findings in `document`, empty if the settings exclude it."""
        self._lints += 1
        if self._lints > _LINTS:
            self.refresh()
        target = self._target(document)
        return [] if self._is_excluded(target) else self._linter.check(target, document.raw)

    def fixed(self, document: Document, finding: Finding) -> bytes | None:
        """The file with the fix of `finding`, one of its findings; None if it cannot be applied."""
        target, raw = self._target(document), document.raw
        try:
            page = opened(target.path, raw)
        except SourceError:
            return None
        for one in self._linter.check_page(target, page):
            if one.fix is not None and page.placed(one) == finding:
                after, applied = edited(page, [one.fix])
                return after if applied else None
        return None

    def repaired(self, document: Document) -> bytes:
        """The file with all fixes that its settings permit."""
        target = self._target(document)
        return document.raw if self._is_excluded(target) else repair(document.raw, target, self._linter).after

    def silenced(self, document: Document, finding: Finding) -> bytes | None:
        """The file with a comment that suppresses `finding`, one of its findings; None if there is no place for one."""
        target, raw = self._target(document), document.raw
        try:
            after, done = commented(opened(target.path, raw), target, self._linter, {identity(finding)})
        except SourceError:
            return None
        return after if done else None

    def _target(self, document: Document) -> Target:
        return Target(document.path, document.path, self._projects.of(Path(document.path).parent))

    def _is_excluded(self, target: Target) -> bool:
        patterns = self._projects.excludes(target.settings)
        if patterns is None:
            return False
        above = target.path
        while len(above) > len(patterns.root):
            if ignored([patterns], above, folder=above != target.path):
                return True
            above = os.path.dirname(above)
        return False
