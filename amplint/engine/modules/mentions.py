"""Searches of the files of a project for a name."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.engine.modules.folders import PROJECT_FILES, files_below
from amplint.engine.modules.switched import is_refused, setting, switches_on
from amplint.regex import regex

if TYPE_CHECKING:
    from amplint.engine.modules.contents import Contents
    from amplint.engine.modules.folders import Folders

_INSTALLS = regex(rb"(?m)^\[(?:project|build-system|tool\.poetry|metadata)\]|\bsetup\(")
_BY_TEXT = regex(rb"\b(?:getattr|eval|exec|import_module|globals|vars|locate)\(")
"""What finds definitions by names that are text."""
_REGISTERS = regex(rb"(?m)^[ \t]*@[\w.]*[Rr]egist|\.register\(")
"""What lets others make what a file defines by a name that is text."""
_COMMENTS = regex(rb"(?m)^[ \t]*#.*$")
_MOST_FILES = 3_000
"""The number of files of a project that are searched for a name; in a larger one, any name can be anywhere."""
SEARCHED = (".py", ".yaml", ".yml", ".json", ".toml", ".sh", ".ipynb")


class Mentions:
    """Answers for the file of an importer where in its project a name is set, used or imported.

    Python files are searched by their text; in a project with too many files, a name can be anywhere.
    """

    def __init__(self, contents: Contents, folders: Folders) -> None:
        self._contents = contents
        self._folders = folders
        self._files: dict[str, tuple[str, ...] | None] = {}

    def files_around(self, importer: str) -> tuple[str, ...] | None:
        """The scripts and configuration files of the project, None if there are too many."""
        root = self._folders.root(os.path.dirname(importer))
        if root not in self._files:
            searched = (path for path in files_below(root) if path.endswith(SEARCHED))
            found = tuple(itertools.islice(searched, _MOST_FILES + 1))
            self._files[root] = found if len(found) <= _MOST_FILES else None
        return self._files[root]

    def others(self, importer: str) -> Iterator[tuple[str, bytes]]:
        """The other Python files of the project, with their contents; none if there are too many."""
        for path in self.files_around(importer) or ():
            if path.endswith(".py") and path != importer:
                yield path, self._contents.raw(path) or b""

    def sets(self, importer: str, name: str) -> bool:
        """Whether a file of the project sets, and does not only read, a setting of this name."""
        files, sets = self.files_around(importer), setting(name)
        return files is None or any(sets.search(self._contents.raw(path) or b"") for path in files)

    def switched_on(self, importer: str, name: str) -> bool:
        """Whether a file of the project, or of one that installs it, can switch on a setting that is off.

        Of Python files those count that import the file, also through others, unless that registers what it defines.
        What the library refuses to switch on is on if the file, or one that imports it, does so itself.
        """
        files, raw = self.files_around(importer), self._contents.raw(importer) or b""
        if files is not None and is_refused(name, raw):
            imports = imports_of(importer)
            direct = (raw, *(one for _, one in self.others(importer) if imports.search(one)))
            return any(switches_on(name, one) for one in direct)
        if files is None or self._is_installed(importer):
            return True
        scripts = set(files) if _REGISTERS.search(raw) else self._users(importer)
        near = (one for one in files if one in scripts or not one.endswith(".py"))
        return any(switches_on(name, self._contents.raw(one) or b"") for one in near)

    def _users(self, path: str) -> set[str]:
        """A file with those that import it, also through others, by the names of modules."""
        found, new = {path}, [path]
        others = dict(self.others(path))
        while new:
            imports = [imports_of(one) for one in new]
            new = [one for one, raw in others.items() if one not in found and any(by.search(raw) for by in imports)]
            found.update(new)
        return found

    def mentioned_elsewhere(self, importer: str, name: str) -> bool:
        """Whether another Python file of the project mentions a name that it does not define, or may."""
        one = re.escape(name.encode())
        mentions = re.compile(rb"\b%s\b" % one)
        defines = re.compile(rb"(?m)^[ \t]*(?:(?:async )?def|class)[ \t]+%s\b" % one)
        if self.files_around(importer) is None:
            return True
        return any(mentions.search(raw) and not defines.search(raw) for _, raw in self.others(importer))

    def used_elsewhere(self, importer: str, name: str) -> bool:
        """Whether another file of the project mentions both a name of the module `importer` and that module, or may."""
        files = self.files_around(importer)
        words = [re.compile(rb"\b%s\b" % re.escape(one.encode())) for one in (_stem(importer), name)]
        raws = (self._contents.raw(path) or b"" for path in files or () if path != importer)
        return files is None or any(all(word.search(raw) for word in words) for raw in raws)

    def unused(self, importer: str, name: str) -> bool:
        """Whether no file of a project that cannot be installed does more with a name than to define it."""
        files = self.files_around(importer)
        if files is None or importer not in files or self._is_installed(importer):
            return False
        used = re.compile(rb"(?<!def )(?<!class )\b%s\b" % re.escape(name.encode()))
        return not any(used.search(self._contents.raw(path) or b"") for path in files)

    def uncalled(self, importer: str, name: str) -> bool:
        """Whether no file of a project that cannot be installed can use a method of `importer` by its name.

        Of other Python files those uses count that stand behind a dot or in quotes: without them, it is another thing
        of that name. Comments do not use anything.
        """
        files = self.files_around(importer)
        if files is None or importer not in files or self._is_installed(importer):
            return False
        one = re.escape(name.encode())
        used = re.compile(rb"(?<!def )(?<!class )\b%s\b" % one)
        of_object = re.compile(rb"\.\s*%s\b|[\"']%s[\"']" % (one, one))
        for path in files:
            by = of_object if path.endswith(".py") and path != importer else used
            if by.search(self._code(path)):
                return False
        return True

    def _code(self, path: str) -> bytes:
        """The content of a file, of a Python file without the lines that are comments."""
        raw = self._contents.raw(path) or b""
        return _COMMENTS.sub(b"", raw) if path.endswith(".py") else raw

    def _is_installed(self, importer: str) -> bool:
        """Whether the project of a file can be installed, and so offers what it defines to others."""
        root = self._folders.root(os.path.dirname(importer))
        return any(_INSTALLS.search(self._contents.raw(os.path.join(root, one)) or b"") for one in PROJECT_FILES)

    def importers(self, path: str, name: str) -> list[str] | None:
        """The files of a project that import a name of the module at `path`, None if there may be other uses."""
        files, one, stem = self.files_around(path), re.escape(name.encode()), re.escape(_stem(path).encode())
        mentioned = re.compile(rb"\b%s\b" % one)
        by_path = re.compile(rb"\b%s\.%s\b" % (stem, one))
        by_text = re.compile(rb"[\"'.]%s[\"']" % one)
        by_import = re.compile(rb"\bimport\b[^\n]*\b%s\b" % one)
        found: list[str] = []
        for other in files or ():
            raw = self._contents.raw(other) or b""
            if other == path or not mentioned.search(raw):
                continue
            source = self._contents.source(other) if other.endswith(".py") else None
            taken = [one for one in source.imports.values() if name in (one.name, one.bound)] if source else []
            places = {self._folders.place(other, one.module) for one in taken}
            starred = {self._folders.place(other, module) for module in source.star_imports} if source else set()
            if (
                by_path.search(raw)
                or (source is None and by_import.search(raw))
                or (_BY_TEXT.search(raw) and by_text.search(raw))
                or path in starred
                or (path in places and any(one.bound != one.name for one in taken))
                or any(map(_is_package, places | starred))
            ):
                return None
            found += [other] if path in places else []
        return found if files is not None else None

    def scripts_with(self, importer: str, pattern: re.Pattern[bytes]) -> list[str]:
        """The paths of the project's other Python files in which `pattern` is found; none if there are too many."""
        return sorted(path for path, raw in self.others(importer) if pattern.search(raw))

    def forget(self) -> None:
        """Drop the cached lists of files."""
        self._files.clear()


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def imports_of(path: str) -> re.Pattern[bytes]:
    """An import of the module of a file, by its own name."""
    return re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t][^\n]*\b%s\b" % re.escape(_stem(path).encode()))


def _is_package(path: str | None) -> bool:
    return path is not None and os.path.basename(path) == "__init__.py"
