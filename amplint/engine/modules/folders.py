"""Folders of a tree in which modules and files are searched."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections.abc import Iterator

from amplint.engine.modules.contents import Contents
from amplint.regex import regex
from amplint.torchlib.names import LIBRARIES

PROJECT_FILES = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "amplint.toml"})
"""Files that mark the root of a project."""
_LONGEST_NAME = 300
_FOLDER = regex(rb"[\"']((?:\.\./)*\w[\w/-]*)[\"']")
"""A string in source code that can be a relative path of a folder."""
_MOST_ADDED = 200
"""The number of such strings from which no further scripts are read."""
MOST_FOLDERS = 5_000
"""The number of folders after which a search ends: a project can hold its data, too."""
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
OUTSIDE = LIBRARIES | (sys.stdlib_module_names - {"test", "code", "types", "trace", "copy"})
"""Top-level modules that no tree is searched for."""


class Folders:
    """Finds modules and files below a file's project root."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._listings: dict[str, frozenset[str]] = {}
        self._searched: dict[str, tuple[str, ...]] = {}
        self._added: dict[str, tuple[str, ...]] = {}
        self._places: dict[tuple[str, str], str | None] = {}

    def place(self, importer: str, module: str) -> str | None:
        """The path of `module` as imported by the file `importer`, None if it is not in the tree.

        Paths are absolute; relative modules begin with their dots. The search covers the importer's folder, every
        folder above it up to the project's root, and `src` in each; folders that are packages themselves come last, and
        after them those that scripts beside the importer add to `sys.path`.
        """
        if module.partition(".")[0] in OUTSIDE:
            return None
        key = (os.path.dirname(importer), module)
        if key not in self._places:
            self._places[key] = self._search(*key)
        return self._places[key]

    def file(self, importer: str, name: str) -> str | None:
        """The path of a file that `importer` names by a relative path, None if it is not in the tree.

        A path beginning with `./` is relative to the importer's folder; otherwise the folders of the module search are
        tried, since one of them is the folder that the script is started in.
        """
        folder = os.path.dirname(importer)
        if os.path.isabs(name) or "\0" in name or len(name) > _LONGEST_NAME:
            return None
        places = (folder,) if name.startswith("./") else self.searched(folder)
        root = self.root(folder)
        for place in places:
            found = os.path.normpath(os.path.join(place, name))
            if os.path.isfile(found) and found.startswith(os.path.join(root, "")):
                return found
        return None

    def searched(self, folder: str) -> tuple[str, ...]:
        """The folders that the search for modules covers from `folder` on, up to the project's root."""
        if folder not in self._searched:
            root = self.root(folder)
            above = [folder]
            while above[-1] != root and above[-1] != os.path.dirname(above[-1]):
                above.append(os.path.dirname(above[-1]))
            above.sort(key=lambda place: "__init__.py" in self.listing(place))
            places = ((place, os.path.join(place, "src")) for place in above)
            self._searched[folder] = tuple(place for pair in places for place in pair if self.listing(place))
        return self._searched[folder]

    def added(self, folder: str) -> tuple[str, ...]:
        """The folders of the tree whose names stand in scripts of `folder` that change `sys.path`."""
        if folder not in self._added:
            names = dict[str, None]()
            for script in sorted(self.scripts(folder)):
                raw = self._contents.raw(os.path.join(folder, script)) or b""
                if b"sys.path" in raw and len(names) < _MOST_ADDED:
                    names |= dict.fromkeys(one.decode() for one in _FOLDER.findall(raw))
            root = self.root(folder)
            found = (os.path.normpath(os.path.join(place, name)) for name in names for place in (folder, root))
            kept = (one for one in found if one.startswith(os.path.join(root, "")) and self.scripts(one))
            self._added[folder] = tuple(dict.fromkeys(kept))
        return self._added[folder]

    def root(self, folder: str) -> str:
        """The nearest repository root, else the topmost folder with project files, else the current folder."""
        above, place = [folder], folder
        while ".git" not in self.listing(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
            above.append(place)
        if ".git" in self.listing(place):
            return place
        marked = [place for place in above if self.listing(place) & PROJECT_FILES]
        here = os.getcwd()
        return marked[-1] if marked else here if here in above else folder

    def scripts(self, folder: str) -> frozenset[str]:
        """The names of the Python files in a folder of the tree."""
        return frozenset(name for name in self.listing(folder) if name.endswith(".py"))

    def listing(self, folder: str) -> frozenset[str]:
        """The names of what a folder holds; none if it cannot be read."""
        if folder not in self._listings:
            self._listings[folder] = frozenset()
            with contextlib.suppress(OSError):
                self._listings[folder] = frozenset(os.listdir(folder))
        return self._listings[folder]

    def _search(self, folder: str, module: str) -> str | None:
        name = module.lstrip(".")
        parts = name.split(".") if name else []
        if name == module:
            places = itertools.chain(self.searched(folder), self.added(folder))
            return next((found for place in places if (found := self._below(place, parts))), None)
        for _ in range(len(module) - len(name) - 1):
            folder = os.path.dirname(folder)
        return self._below(folder, parts)

    def _below(self, folder: str, parts: list[str]) -> str | None:
        for part in parts[:-1]:
            if part not in self.listing(folder):
                return None
            folder = os.path.join(folder, part)
        last = parts[-1] if parts else ""
        if f"{last}.py" in self.listing(folder):
            return os.path.join(folder, f"{last}.py")
        package = os.path.join(folder, last) if last else folder
        inside = (not last or last in self.listing(folder)) and "__init__.py" in self.listing(package)
        return os.path.join(package, "__init__.py") if inside else None


def below(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """A folder and those below it, as `os.walk` has them, in order and without hidden ones and installed packages."""
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        yield folder, inner, sorted(names)


def files_below(root: str) -> Iterator[str]:
    """The paths of the files in and below a folder."""
    folders = itertools.islice(below(root), MOST_FOLDERS)
    return (os.path.join(folder, name) for folder, _, names in folders for name in names)
