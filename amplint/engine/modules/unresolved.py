"""Imports of a project's own modules and names that its files do not have."""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TypeAlias

from amplint.records import dataclass
from amplint.regex import regex
from amplint.torchlib.names import LIBRARIES

Listing: TypeAlias = Callable[[str], Set[str]]
"""The names of the files in a folder, none where there is no folder."""
Text: TypeAlias = Callable[[str], str | None]
Files: TypeAlias = Callable[[], Iterable[str]]

_OUTSIDE = LIBRARIES | sys.stdlib_module_names
"""Modules that a file of the same name beside a script does not replace, or perhaps not."""
_GENERATED = regex(r"_|.*_(?:pb2|pb2_grpc|ext|cuda|cpp|cpu|gpu|backend|kernels?)$")
"""Names of modules that a build makes."""
_MOST_FILES = 60
"""The number of files, one and those that it imports, that are looked at."""
_OPEN = regex(r"__getattr__|globals\(\)|sys\.modules|setattr\(|\bexec\(")
_LAZY = regex(r"(?im)^\w[^\n]{0,200}lazy_?(?:loader|module|import)")
"""What binds names in a module that its text does not show."""
_OPENING = frozenset({"__getattr__", "globals", "modules", "setattr", "exec"})
"""The words of `_OPEN`."""
_STAR = regex(r"(?:\bfrom[ \t]+([\w.]+)[ \t]+)?\bimport[ (]+\*")
_ANY_STAR = regex(r"import[ (]+\*")
_WORD = regex(r"\w+")
_BESIDE = regex(r"\.\w+(?:\.\w+)*")
"""A relative module of the same package."""
_COMMON = frozenset(
    {
        "cfg",
        "config",
        "configs",
        "data",
        "dataloader",
        "dataset",
        "engine",
        "helper",
        "helpers",
        "layers",
        "loss",
        "losses",
        "metrics",
        "model",
        "models",
        "modules",
        "network",
        "networks",
        "options",
        "trainer",
        "transforms",
        "util",
        "utils",
    }
)
"""Names that projects give their own modules, and no library has."""
_FEWEST_APART = 2
"""The number of modules of one other folder that a script does not have under their names by chance."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What a file imports from its project: the first module or name that is not there, and else the files.

    `is_broken` says that Python cannot parse the file itself.
    """

    lacking: str | None = None
    files: tuple[str, ...] = ()
    is_broken: bool = False


def unresolved(paths: Sequence[str], imported: Callable[[str], Imported], parses: Callable[[str], bool]) -> str | None:
    """The first module or name that the files at `paths`, or those that they import, import from their project in vain.

    `imported` answers for one file, `parses` whether the syntax of one is that of a newer Python. A module counts that
    cannot be parsed, but for the first one: that is linted, and may be a configuration or have magics. None if there is
    nothing, or nothing in the first files.
    """
    todo, seen = [*paths], {*paths}
    while todo:
        path = todo.pop(0)
        found = imported(path)
        if found.lacking is not None:
            return found.lacking
        if found.is_broken and path != paths[0] and not parses(path):
            return os.path.basename(path)
        new = [file for file in found.files if file not in seen][: _MOST_FILES - len(seen)]
        todo += new
        seen.update(new)
    return None


class Bindings:
    """The words of modules, each read once: a name that none of them is, the module does not bind."""

    def __init__(self, listing: Listing, read: Text) -> None:
        self.listing, self.read = listing, read
        self._stems: dict[str, frozenset[str]] = {}
        self._words: dict[str, frozenset[str]] = {}
        self._of: dict[str, Set[str] | None] = {}
        self._stars: dict[str, Sequence[str] | None] = {}

    def has(self, folder: str, name: str) -> bool:
        """Whether a folder has a module or package of a name, compiled ones included."""
        if folder not in self._stems:
            self._stems[folder] = frozenset(entry.partition(".")[0] for entry in self.listing(folder))
        return name in self._stems[folder]

    def words(self, file: str) -> frozenset[str]:
        """The words of the text of a file."""
        if file not in self._words:
            self._words[file] = frozenset(_WORD.findall(self.read(file) or ""))
        return self._words[file]

    def of(self, file: str) -> Set[str] | None:
        """The words of a module, with those of modules of its package whose names it takes all.

        None if something binds names unseen.
        """
        if file not in self._of:
            self._of[file] = self._collected(file)
        return self._of[file]

    def _collected(self, file: str) -> Set[str] | None:
        todo, seen = [file], {file}
        while todo:
            path = todo.pop()
            stars = self._starred(path)
            if stars is None:
                return None
            new = [one for one in stars if one not in seen]
            todo += new
            seen.update(new)
        return self.words(file) if len(seen) == 1 else frozenset[str]().union(*map(self.words, seen))

    def _starred(self, path: str) -> Sequence[str] | None:
        """The modules of its package whose names the module at `path` takes all; None if it binds names unseen."""
        if path not in self._stars:
            text = self.read(path)
            self._stars[path] = None if text is None or self._binds_unseen(path, text) else self._beside(path, text)
        return self._stars[path]

    def _binds_unseen(self, path: str, text: str) -> bool:
        opens = not _OPENING.isdisjoint(self.words(path)) and _OPEN.search(text) is not None
        return opens or ("lazy" in text.lower() and _LAZY.search(text) is not None)

    def _beside(self, path: str, text: str) -> Sequence[str] | None:
        stars = _STAR.findall(text) if _ANY_STAR.search(text) else ()
        if not all(map(_BESIDE.fullmatch, stars)):
            return None
        return [self._file(os.path.join(os.path.dirname(path), *star[1:].split("."))) for star in stars]

    def _file(self, module: str) -> str:
        inner = os.path.join(module, "__init__.py")
        return inner if "__init__.py" in self.listing(module) else f"{module}.py"


def imported(path: str, text: str, folders: Sequence[str], bindings: Bindings, files: Files) -> Imported:
    """What the file at `path` imports from its own project, whose files are `files`.

    Only statements count that run whenever the file is imported. An absolute module belongs to the project if it is a
    file there, or if the file at `path` lies in its package or imports from it what is there; no folder of `folders`
    may have what is wanted. Where a file changes the search path, a name counts that a module lacks which has others of
    the same import, if no other module of the project has its path. A file whose package is not there is left alone. A
    script that uses modules beside it lacks one with a common name if the project has none of that name anywhere.
    """
    statements = _statements(text)
    if statements is None:
        return Imported(is_broken=True)
    wanted = [one for one in statements if one.level or _top(one) not in {"", *_OUTSIDE}]
    found = {id(one): _Search(one, path, folders, bindings) for one in wanted}
    satisfied = {_top(one) for one in wanted if one.names and found[id(one)].is_satisfied}
    known = [one for one in wanted if one.level or "sys.path" not in text]
    for one in wanted:
        search = found[id(one)]
        around = (os.path.join(place, _top(one), "") for place in folders if one.names)
        own = one.level or search.files or _top(one) in satisfied or any(map(path.startswith, around))
        own = own if one in known else search.has_others and search.is_only(files)
        if own and search.begins and not search.is_satisfied and not search.is_built:
            return Imported(search.lacking)
    used = tuple(dict.fromkeys(file for one in known for file in found[id(one)].files))
    beside = "__main__" in text and any(os.path.dirname(file) == os.path.dirname(path) for file in used)
    left_out = (
        found[id(one)]
        for one in known
        if beside and not one.level and _top(one) in _COMMON and not _has_module(_top(one), files)
    )
    return Imported(next((one.lacking for one in left_out if not one.begins and not one.is_built), None), used)


def _has_module(name: str, files: Files) -> bool:
    """Whether a project has a module or a folder of a name anywhere, or too many files to tell."""
    paths, inside, module = tuple(files()), f"{os.sep}{name}{os.sep}", f"{os.sep}{name}.py"
    return not paths or any(inside in path or path.endswith(module) for path in paths)


def apart(text: str, there: Set[str], files: Files) -> tuple[str, str] | None:
    """The first of several modules that a script imports and that only one other folder has, and that folder.

    `there` are modules that it finds, `files` those of the project. Packages can be copies of libraries that are
    installed, and do not count.
    """
    modules = (_top(one) for one in _statements(text) or () if not one.level)
    homes = {name: set[str]() for name in modules if name not in there}
    for file in files() if len(homes) >= _FEWEST_APART else ():
        folder, name = os.path.split(file)
        if name.endswith(".py") and (home := homes.get(name[:-3])) is not None:
            home.add(folder)
    alone = [(name, *home) for name, home in homes.items() if len(home) == 1]
    places = [folder for _, folder in alone]
    return next(((name, folder) for name, folder in alone if places.count(folder) >= _FEWEST_APART), None)


def _statements(text: str) -> list[ast.ImportFrom] | None:
    """The imports at the top level of a file, but for those that a condition or a handler surrounds.

    An `import` of a module is here a `from` import of nothing. None for a file that Python cannot parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError:
        return None
    except (ValueError, RecursionError):
        return []
    return list(itertools.chain.from_iterable(map(_as_from, tree.body)))


def _as_from(one: ast.stmt) -> Iterable[ast.ImportFrom]:
    if isinstance(one, ast.Import):
        return [ast.ImportFrom(alias.name, [], 0) for alias in one.names]
    return [one] if isinstance(one, ast.ImportFrom) else ()


def _top(one: ast.ImportFrom) -> str:
    return (one.module or "").partition(".")[0]


class _Search:
    """The search for what one import asks for.

    `begins` says whether a folder has the first part of the module, `files` are those that the import runs, and
    `lacking` is what none of the folders has. `has_others` says that one of the files has other names of the import,
    but not that one. `is_built` means that a setup script makes the module. An installed package comes before a folder
    without `__init__.py`, and before a module beside one that is no script.
    """

    def __init__(self, one: ast.ImportFrom, path: str, folders: Sequence[str], bindings: Bindings) -> None:
        self._bindings, listing = bindings, bindings.listing
        self._parts = parts = one.module.split(".") if one.module else []
        places = [_above(path, one.level)] if one.level else folders
        self.lacking = f"{'.' * one.level}{one.module or ''}"
        packages = (places[0], os.path.dirname(places[0])) if one.level else ()
        self.begins = any("__init__.py" in listing(place) for place in packages)
        self.files: list[str] = []
        self.has_others = False
        self.is_satisfied = any(_GENERATED.match(part) for part in parts)
        self._own = os.path.dirname(path)
        self._may_be_installed = not one.level and len(parts) == 1
        self._is_searched = self._own == min(places, key=len, default="") or "__main__" in (bindings.read(path) or "")
        around = (os.path.dirname(path), *places, *(os.path.join(place, *parts[:-1]) for place in places))
        self.is_built = bool(parts) and any(self._builds(folder, parts[-1]) for folder in around)
        for place in places:
            self.begins |= bool(parts) and self._bindings.has(place, parts[0])
            self.is_satisfied |= self._satisfies(place, parts, [alias.name for alias in one.names])

    def _builds(self, folder: str, name: str) -> bool:
        """Whether the setup script of a folder compiles a module of a name."""
        script = os.path.join(folder, "setup.py")
        text = self._bindings.read(script) or "" if "setup.py" in self._bindings.listing(folder) else ""
        built = rf"[\"'](?:[\w./-]*[./])?{name}(?:\.(?:pyx|c|cc|cpp|cu))?[\"']"
        return "ext_modules" in text and re.search(built, text) is not None

    def _satisfies(self, place: str, parts: Sequence[str], names: Sequence[str]) -> bool:
        folder = os.path.join(place, *parts[:-1])
        if parts and not self._bindings.has(folder, parts[-1]):
            return False
        package = os.path.join(place, *parts)
        file = f"{package}.py" if parts and f"{parts[-1]}.py" in self._bindings.listing(folder) else None
        if file is None:
            entries = self._bindings.listing(package)
            if not entries:
                return True
            file = os.path.join(package, "__init__.py") if "__init__.py" in entries else None
        self.files += [file] if file is not None else []
        self.files += self._modules(package, names, file)
        missing = [
            one for one in names if one != "*" and not self._bindings.has(package, one) and not _GENERATED.match(one)
        ]
        bound = self._bindings.of(file) if file is not None and missing else frozenset[str]()
        lacking = [one for one in missing if one not in bound] if bound is not None else []
        is_first = file is not None and (place != self._own or self._is_searched)
        if self._may_be_installed and not is_first and lacking == names:
            return True
        if lacking:
            self.lacking = f"{self.lacking.rstrip('.')}.{lacking[0]}"
            self.has_others |= len(lacking) < len(missing)
        return not lacking

    def _modules(self, package: str, names: Sequence[str], file: str | None) -> Iterator[str]:
        """The modules of a package that are imported by their names, which the package itself does not mention."""
        there = [one for one in names if f"{one}.py" in self._bindings.listing(package)]
        words = self._bindings.words(file) if there and file is not None else ()
        return (os.path.join(package, f"{one}.py") for one in there if one not in words)

    def is_only(self, files: Files) -> bool:
        """Whether no more than one module of a package in the project can be the one that is asked for."""
        module = os.path.join("", *self._parts)
        ends = (f"{os.sep}{module}.py", os.path.join(f"{os.sep}{module}", "__init__.py"))
        return os.sep in module and sum(file.endswith(ends) for file in files()) == 1


def _above(path: str, level: int) -> str:
    for _ in range(level):
        path = os.path.dirname(path)
    return path
