"""Imports of a project's own modules and names that its files do not have."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TypeAlias

from amplint.records import dataclass
from amplint.regex import regex

Listing: TypeAlias = Callable[[str], Set[str]]
"""The names of the files in a folder, none where there is no folder."""
Text: TypeAlias = Callable[[str], str | None]

_GENERATED = regex(r"_|.*_(?:pb2|pb2_grpc|ext|cuda|cpp|cpu|gpu|backend|kernels?)$")
"""Names of modules that a build makes."""
_MOST_FILES = 60
"""The number of files, one and those that it imports, that are looked at."""
_OPEN = regex(
    r"(?i)__getattr__|globals\(\)|sys\.modules|setattr\(|\bexec\(|lazy_?(?:loader|module|import)|import[ (]+\*"
)
"""What binds names in a module that its text does not show."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file imports from its project: the first module or name that is not there, and else the files."""

    lacking: str | None = None
    files: tuple[str, ...] = ()


def unresolved(paths: Sequence[str], imported: Callable[[str], Imported]) -> str | None:
    """The first module or name that the files at `paths`, or those that they import, import from their project in vain.

    `imported` answers for one file. None if there is nothing, or nothing in the first files.
    """
    todo, seen = [*paths], {*paths}
    while todo:
        found = imported(todo.pop(0))
        if found.lacking is not None:
            return found.lacking
        new = [file for file in found.files if file not in seen][: _MOST_FILES - len(seen)]
        todo += new
        seen.update(new)
    return None


def imported(path: str, text: str, folders: Sequence[str], listing: Listing, read: Text) -> Imported:
    """What the file at `path` imports from its own project.

    Only statements count that run whenever the file is imported. An absolute module belongs to the project if it is a
    file there, or if the file at `path` lies in its package or imports from it what is there; no folder of `folders`
    may have what is wanted. A file that changes the search path is left alone, and so is one whose package is not
    there.
    """
    if "sys.path" in text:
        return Imported()
    wanted = [one for one in _statements(text) if one.level or one.module]
    found = {id(one): _Search(one, path, folders, listing, read) for one in wanted}
    satisfied = {one.module.partition(".")[0] for one in wanted if one.module and found[id(one)].is_satisfied}
    for one in wanted:
        search = found[id(one)]
        top = (one.module or "").partition(".")[0]
        own = one.level or search.files or top in satisfied
        own = own or any(path.startswith(os.path.join(place, top, "")) for place in folders)
        if own and search.begins and not search.is_satisfied:
            return Imported(search.lacking)
    return Imported(None, tuple(dict.fromkeys(file for one in wanted for file in found[id(one)].files)))


def _statements(text: str) -> Iterator[ast.ImportFrom]:
    """The `from` imports at the top level of a file, but for those that a condition or a handler surrounds."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return iter(())
    return (one for one in tree.body if isinstance(one, ast.ImportFrom))


class _Search:
    """The search for what one `from` import asks for.

    `begins` says whether a folder has the first part of the module, `files` are those that the import runs, and
    `lacking` is what none of the folders has.
    """

    def __init__(self, one: ast.ImportFrom, path: str, folders: Sequence[str], listing: Listing, read: Text) -> None:
        self._listing, self._read = listing, read
        parts = one.module.split(".") if one.module else []
        places = [_above(path, one.level)] if one.level else folders
        self.lacking = f"{'.' * one.level}{one.module or ''}"
        self.begins = bool(one.level) and "__init__.py" in listing(places[0])
        self.files: list[str] = []
        self.is_satisfied = any(_GENERATED.match(part) for part in parts)
        for place in places:
            self.begins |= bool(parts) and self._has(place, parts[0])
            self.is_satisfied |= self._satisfies(place, parts, [alias.name for alias in one.names])

    def _has(self, folder: str, name: str) -> bool:
        """Whether a folder has a module or package of a name, compiled ones included."""
        return any(entry.partition(".")[0] == name for entry in self._listing(folder))

    def _satisfies(self, place: str, parts: Sequence[str], names: Sequence[str]) -> bool:
        folder = os.path.join(place, *parts[:-1])
        if parts and not self._has(folder, parts[-1]):
            return False
        package = os.path.join(place, *parts)
        file = f"{package}.py" if parts and f"{parts[-1]}.py" in self._listing(folder) else None
        if file is None:
            entries = self._listing(package)
            if not entries:
                return True
            file = os.path.join(package, "__init__.py") if "__init__.py" in entries else None
        self.files += [file] if file is not None else []
        text = self._read(file) if file is not None else ""
        if text is None:
            return True
        missing = [one for one in names if one != "*" and not self._has(package, one) and not _GENERATED.match(one)]
        lacking = [one for one in missing if not re.search(rf"\b{one}\b", text)] if not _OPEN.search(text) else []
        if lacking:
            self.lacking = f"{self.lacking.rstrip('.')}.{lacking[0]}"
        return not lacking


def _above(path: str, level: int) -> str:
    for _ in range(level):
        path = os.path.dirname(path)
    return path
