"""Patterns in the language of .gitignore files: configuration's own, and those of the .gitignore files themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from amplint.engine.globs import Glob, parse
from amplint.source.files import read

_SIZE_LIMIT = 1_000_000
"""Bytes above which a .gitignore counts as unreadable."""


class Patterns:
    """The patterns `lines`, which speak about paths below the absolute folder `root`.

    Lines that are no valid patterns are listed in `invalid` and otherwise left out, as git does.
    """

    def __init__(self, root: str, lines: Iterable[str]) -> None:
        self.root = root.rstrip(os.sep) + os.sep
        self.invalid: list[str] = []
        self._globs: list[Glob] = []
        self._literal: dict[tuple[str, bool, bool], int] = {}
        self._others: list[tuple[int, Glob]] = []
        self._entered: dict[str, bool] = {"": True}
        for line in lines:
            try:
                glob = parse(line)
            except ValueError:
                self.invalid.append(line)
                continue
            if glob is not None:
                self._add(glob)

    def verdict(self, path: str, *, folder: bool = False) -> bool | None:
        """Whether the absolute `path` is matched: True, False by a `!` pattern, or None if no pattern speaks.

        What is in a folder that is matched is matched, whatever else is said of it.
        """
        if not path.startswith(self.root):
            return None
        relative = path[len(self.root) :].replace(os.sep, "/")
        return self._own(relative, folder) if self._enters(relative.rpartition("/")[0]) else True

    def _add(self, glob: Glob) -> None:
        index = len(self._globs)
        self._globs.append(glob)
        if glob.literal is None:
            self._others.append((index, glob))
            return
        self._literal[glob.literal, glob.whole, True] = index
        if not glob.folders_only:
            self._literal[glob.literal, glob.whole, False] = index

    def _enters(self, folder: str) -> bool:
        """Whether neither this folder, by its path from the root on, nor one around it is matched."""
        unknown: list[str] = []
        above = folder
        while above not in self._entered:
            unknown.append(above)
            above = above.rpartition("/")[0]
        for place in reversed(unknown):
            self._entered[place] = self._entered[place.rpartition("/")[0]] and not self._own(place, True)
        return self._entered[folder]

    def _own(self, path: str, folder: bool) -> bool | None:
        """What the last pattern says that matches this path itself."""
        name = path.rpartition("/")[2]
        last = max(self._literal.get((name, False, folder), -1), self._literal.get((path, True, folder), -1))
        for index, glob in reversed(self._others):
            if index < last:
                break
            assert glob.regex is not None
            if (folder or not glob.folders_only) and glob.regex.match(path if glob.whole else name):
                last = index
                break
        return None if last < 0 else not self._globs[last].negated


Chain = Sequence[Patterns]


def ignored(chain: Chain, path: str, *, folder: bool = False) -> bool:
    """Whether `path` is matched; later members of `chain`, those of deeper folders, are asked first."""
    for patterns in reversed(chain):
        verdict = patterns.verdict(path, folder=folder)
        if verdict is not None:
            return verdict
    return False


def gitignore(folder: str) -> Patterns | None:
    """The patterns of `folder`'s .gitignore, None if it has none that can be read."""
    try:
        raw = read(os.path.join(folder, ".gitignore"), _SIZE_LIMIT)
    except OSError:
        return None
    return Patterns(folder, raw.decode(errors="replace").splitlines())


def gitignores_above(folder: str) -> list[Patterns]:
    """The .gitignore patterns of the folders above the absolute `folder`, up to the top of its git repository.

    Empty outside a repository, and where those patterns ignore `folder` itself: who names it wants it linted.
    """
    above: list[str] = []
    place = folder
    while not os.path.exists(os.path.join(place, ".git")):
        parent = os.path.dirname(place)
        if parent == place:
            return []
        above.append(parent)
        place = parent
    chain = [found for place in reversed(above) if (found := gitignore(place)) is not None]
    steps = [*reversed(above[:-1]), folder] if above else []
    return [] if any(ignored(chain, step, folder=True) for step in steps) else chain
