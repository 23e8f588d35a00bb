"""Patterns in the language of .gitignore files: configuration's own, and those of the .gitignore files themselves."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amplint.source.files import read

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_SIZE_LIMIT = 1_000_000
"""Bytes above which a .gitignore counts as unreadable."""


class Patterns:
    """The patterns `lines`, which speak about paths below the absolute folder `root`.

    Lines that are no valid patterns are listed in `invalid` and otherwise left out, as git does.
    """

    def __init__(self, root: str, lines: Iterable[str]) -> None:
        self.root = root.rstrip(os.sep) + os.sep
        self.invalid: list[str] = []
        self._spec = self._compile(lines)

    def verdict(self, path: str, *, folder: bool = False) -> bool | None:
        """Whether the absolute `path` is matched: True, False by a `!` pattern, or None where no pattern speaks."""
        if not path.startswith(self.root):
            return None
        relative = path[len(self.root) :].replace(os.sep, "/")
        return self._spec.check_file(relative + "/" * folder).include

    def _compile(self, lines: Iterable[str]) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        valid: list[str] = []
        for line in lines:
            try:
                GitIgnoreSpec.from_lines([line])
            except Exception:  # pathspec lets the errors of `re` through
                self.invalid.append(line)
            else:
                valid.append(line)
        return GitIgnoreSpec.from_lines(valid)


Chain = Sequence[Patterns]


def ignored(chain: Chain, path: str, *, folder: bool = False) -> bool:
    """Whether `path` is matched; later members of `chain`, those of deeper folders, are asked first."""
    for patterns in reversed(chain):
        verdict = patterns.verdict(path, folder=folder)
        if verdict is not None:
            return verdict
    return False


def gitignore(folder: str) -> Patterns | None:
    """The patterns of `folder`'s .gitignore, None when it has none that can be read."""
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
