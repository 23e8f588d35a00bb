"""The folder that tools may read and write, and its linter."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Found, Target, discover
from amplint.engine.projects import Projects
from amplint.engine.run import Linter
from amplint.engine.select import require
from amplint.reports.text import one_line
from amplint.rule import Registry


class Refused(Exception):
    """A call that cannot be served; the message is one line for the caller."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class Workspace:
    """The files below `root`, the process's current folder, and all rules."""

    def __init__(self, root: Path, registry: Registry) -> None:
        self.root = os.path.realpath(root)
        self.registry = registry

    def inside(self, path: str) -> str:
        """`path`, relative to the root, resolved to an absolute path inside of the root. Raises Refused."""
        if "\0" in path:
            raise Refused("a path holds no NUL")
        real = os.path.realpath(os.path.join(self.root, path))
        if not self.holds(real):
            raise Refused(f"{path}: outside of the folder that this server may use")
        if not os.path.exists(real):
            raise Refused(f"{path}: no such file or folder")
        return os.path.relpath(real, self.root)

    def holds(self, path: str) -> bool:
        """Whether `path`, with links resolved, is inside of the root."""
        real = os.path.realpath(os.path.join(self.root, path))
        return real == self.root or real.startswith(os.path.join(self.root, ""))

    def projects(
        self, codes: Sequence[str] = (), override: Callable[[Settings], Settings] = lambda settings: settings
    ) -> Projects:
        """The settings of every folder, with the rules `codes`, if any, instead of the selected ones.

        Raises UnknownSelector.
        """
        require(codes, self.registry.rules)

        def over(settings: Settings) -> Settings:
            if codes:
                settings = replace(settings, select=tuple(codes), extend_select=(), ignore=())
            return override(settings)

        return Projects(self.registry.rules, over)

    def found(self, paths: Sequence[str], projects: Projects) -> Found:
        """The files among and below `paths`, without those outside of the root. Raises Refused and ConfigError."""
        found = discover([self.inside(path) for path in paths], projects)
        found.targets = [target for target in found.targets if self.holds(target.path)]
        return found

    def file(self, path: str, projects: Projects) -> Target:
        """The single file at `path`. Raises Refused and ConfigError."""
        name = self.inside(path)
        if not os.path.isfile(os.path.join(self.root, name)):
            raise Refused(f"{path}: not a file")
        (target,) = discover([name], projects).targets
        return target

    def linter(self, projects: Projects) -> Linter:
        """A linter without a cache, since files may have changed since the last call."""
        return Linter(projects, Cache(None))
