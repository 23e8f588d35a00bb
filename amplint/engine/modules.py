"""Resolution of the modules that a file imports, in the tree around it."""

from __future__ import annotations

import contextlib
import enum
import hashlib
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING

from amplint.engine.switched import setting, switches_on
from amplint.regex import regex
from amplint.source.configs.names import YAML, is_config
from amplint.source.files import read
from amplint.torchlib.frameworks import LAUNCHED_BY
from amplint.torchlib.names import LIBRARIES
from amplint.torchlib.stand_ins import STAND_INS

if TYPE_CHECKING:
    from amplint.engine.unresolved import Bindings, Imported
    from amplint.source.configs.file import ConfigFile
    from amplint.source.source import Source
    from amplint.torchlib.versions import Wanted

Answers = Mapping[str, Mapping[str, tuple[str, str]]]
"""Path of the importer -> query -> path of the answer and digest of its content (see `Modules.answer`)."""

_PROJECT = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "amplint.toml"})
_INSTALLS = regex(rb"(?m)^\[(?:project|build-system|tool\.poetry|metadata)\]|\bsetup\(")
_BY_TEXT = regex(rb"\b(?:getattr|eval|exec|import_module|globals|vars|locate)\(")
"""What finds definitions by names that are text."""
_REGISTERS = regex(rb"(?m)^[ \t]*@[\w.]*[Rr]egist|\.register\(")
"""What lets others make what a file defines by a name that is text."""
_DOCUMENTATION = ("doc", "docs")
_SIZE_LIMIT = 1_000_000
"""Bytes above which a file is generated, or data, and is not followed."""
_LONGEST_NAME = 300
_FOLDER = regex(rb"[\"']((?:\.\./)*\w[\w/-]*)[\"']")
"""A string in source code that can be a relative path of a folder."""
_MOST_ADDED = 200
"""The number of such strings from which no further scripts are read."""
_PRECISION = regex(rb"(?m)^[^#\n]{0,200}\bmixed_precision[\"']?[ \t]*:[ \t]*[\"']?(\w+)")
_SHARDED_LAUNCH = regex(rb"(?m)^[ \t]*[\"']?distributed_type[\"']?[ \t]*:[ \t]*[\"']?(?:DEEPSPEED|FSDP)")
_BUILDS_KERNELS = (b"cpp_extension", b".cu")
_REGION = regex(rb"\bautocast\(((?:[^()\n#]|\([^()]*\)|\n)*)\)")
_REGION_DTYPE = regex(rb"\bdtype[ \t]*=[ \t]*(?:torch\.(float16|half|bfloat16)\b)?")
_OF_CUDA = regex(rb"^[ \t]*(?:device_type[ \t]*=[ \t]*)?[\"']cuda|^[ \t]*(?:enabled[ \t]*=[^,]*)?$")
"""Arguments of a region without a dtype that is CUDA's, whose default is float16."""
_MODEL_IN_REGION = regex(
    rb"(?m)^[ \t]+@(?:[\w.]+\.)?autocast\((?!False|[^\n]*enabled[ ]*=[ ]*False)[^\n]*\n(?:[ \t]+@[^\n]*\n)*"
    rb"[ \t]+def forward\("
    rb"|^[ \t]+def forward\([^)]*\)[^:\n]*:[ \t]*\n\s*(?:\"\"\"(?:[^\"]|\"(?!\"\"))*\"\"\"\s*)?(?:#[^\n]*\n\s*)*"
    rb"with (?:[\w.]+\.)?autocast\((?!False|[^\n]*enabled[ ]*=[ ]*False)"
)
"""A `forward` that a decorator, or its first statement, puts into a region."""
_MOST_FILES = 3_000
"""The number of files of a project that are searched for a name; in a larger one, any name can be anywhere."""
_SEARCH_PATH = regex(rb"\bsys\.path\b|\bPYTHONPATH\b|\baddsitedir\b")
"""What has modules searched in other folders."""
_TELLING = (".md", ".rst", "file", ".cfg", ".env")
"""Ends of the names of files beside the scripts that tell how these are started: README.md, Dockerfile, Makefile."""
_MOST_CONFIGS = 500
_MOST_FOLDERS = 5_000
"""The number of folders after which the search for configuration files ends: a project can hold its data, too."""
_SEARCHED = (".py", ".yaml", ".yml", ".json", ".toml", ".sh", ".ipynb")
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "site-packages"})
_LAUNCH_SIGNS = tuple(name.encode() for name in sorted(LAUNCHED_BY))
_MOST_LAUNCH_FILES = 20
_TREES_KEPT = 2_000_000
"""Characters of text whose trees are kept from one analysis to the next: they can take a hundred times that."""
_TEXTS_KEPT = 40_000_000
"""Characters of text whose files are kept, cut and with what their words tell, which takes about ten times that."""


class Query(str, enum.Enum):
    """What the analysis of a file asks of the project around it."""

    MODULE = "module"
    """The file of a module."""
    FILE = "file"
    """A file by its relative path."""
    LAUNCH = "launch"
    """The configuration that `accelerate launch` reads."""
    VERSION = "version"
    """The versions of a package that the project requires."""
    UNRESOLVED = "unresolved"
    """A module that the file imports from the project, which lacks it."""
    PRECISIONS = "precisions"
    """The mixed precisions that configuration files name."""
    KERNELS = "kernels"
    """A package of kernels for CUDA that a module beside the file imports."""
    TRAINED = "trained"
    """The dtypes of the regions in files that train."""
    MODEL_IN_REGION = "model-in-region"
    """A file with a model that enters a region, which another file imports beside this one."""
    SETS = "sets"
    """Whether something sets a setting."""
    SWITCHES = "switches"
    """Whether something can switch a setting on."""
    MENTIONS = "mentions"
    """Whether another file mentions a name."""
    USES = "uses"
    """Whether another file mentions a name and the module of the file."""
    UNUSED = "unused"
    """Whether no file does more with a name than to define it."""
    IMPORTERS = "importers"
    """The files that import a name of the file, with digests of their contents."""


class Modules:
    """Finds modules below a file's project root, and caches the files read during one run.

    `unsaved` maps absolute paths to an editor's unsaved content, which takes precedence over the disk.
    """

    def __init__(self, unsaved: Mapping[str, bytes] = MappingProxyType({})) -> None:
        self._unsaved = unsaved
        self._listings: dict[str, frozenset[str]] = {}
        self._folders: dict[str, tuple[str, ...]] = {}
        self._added_folders: dict[str, tuple[str, ...]] = {}
        self._places: dict[tuple[str, str], str | None] = {}
        self._raw: dict[str, bytes | None] = {}
        self._digests: dict[str, str] = {}
        self._sources: dict[str, Source | None] = {}
        self._with_trees: set[str] = set()
        self._configs: dict[str, ConfigFile | None] = {}
        self._stand_ins: dict[str, Source] = {}
        self._requirement_files: dict[str, tuple[str, ...]] = {}
        self._wanted: dict[tuple[str, str], Wanted | None] = {}
        self._unresolved: dict[str, str | None] = {}
        self._imported: dict[str, Imported] = {}
        self._bindings: Bindings | None = None
        self._precisions: dict[str, frozenset[str]] = {}
        self._files: dict[str, tuple[str, ...] | None] = {}

    def place(self, importer: str, module: str) -> str | None:
        """The path of `module` as imported by the file `importer`, None if it is not in the tree.

        Paths are absolute; relative modules begin with their dots. The search covers the importer's folder, every
        folder above it up to the project's root, and `src` in each; folders that are packages themselves come last, and
        after them those that scripts beside the importer add to `sys.path`.
        """
        if module.partition(".")[0] in _OUTSIDE:
            return None
        key = (os.path.dirname(importer), module)
        if key not in self._places:
            self._places[key] = self._search(*key)
        return self._places[key]

    def raw(self, path: str) -> bytes | None:
        """The content of a file of the tree, None if it cannot be read or is too large."""
        if path not in self._raw:
            self._raw[path] = self._unsaved.get(path)
            if path not in self._unsaved:
                with contextlib.suppress(OSError):
                    self._raw[path] = read(path, _SIZE_LIMIT)
        return self._raw[path]

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

    def file(self, importer: str, name: str) -> str | None:
        """The path of a file that `importer` names by a relative path, None if it is not in the tree.

        A path beginning with `./` is relative to the importer's folder; otherwise the folders of the module search are
        tried, since one of them is the folder that the script is started in.
        """
        folder = os.path.dirname(importer)
        if os.path.isabs(name) or "\0" in name or len(name) > _LONGEST_NAME:
            return None
        places = (folder,) if name.startswith("./") else self._searched(folder)
        root = self._root(folder)
        for place in places:
            found = os.path.normpath(os.path.join(place, name))
            if os.path.isfile(found) and found.startswith(os.path.join(root, "")):
                return found
        return None

    def config(self, path: str) -> ConfigFile | None:
        """A configuration file of the tree, None if it cannot be read."""
        if path not in self._configs:
            from amplint.source.configs.file import ConfigFile
            from amplint.source.encoding import SourceError

            raw, self._configs[path] = self.raw(path), None
            with contextlib.suppress(SourceError):
                self._configs[path] = None if raw is None else ConfigFile.of(path, raw, path)
        return self._configs[path]

    def launched_by(self, importer: str) -> str | None:
        """The configuration beside `importer` that `accelerate launch` reads, None unless there is exactly one."""
        folder = os.path.dirname(importer)
        names = sorted(name for name in self._listing(folder) if name.endswith(YAML))
        paths = [os.path.join(folder, name) for name in names[:_MOST_LAUNCH_FILES]]
        found = [path for path in paths if all(sign in (self.raw(path) or b"") for sign in _LAUNCH_SIGNS)]
        return found[0] if len(found) == 1 else None

    def unresolved(self, importer: str) -> str | None:
        """What `importer`, or a file that it imports, imports from its project and the project does not have."""
        from amplint.engine.unresolved import unresolved

        if importer not in self._unresolved:
            lacking = unresolved([importer, *self._packages(importer)], self._imported_by, self._parses)
            self._unresolved[importer] = lacking or self._left_apart(importer)
        return self._unresolved[importer]

    def _left_apart(self, importer: str) -> str | None:
        """A module that a script imports and that stands, with others, in a folder that nothing makes it search."""
        from amplint.engine.unresolved import apart

        if b"__main__" not in (self.raw(importer) or b""):
            return None
        folder = os.path.dirname(importer)
        entries = (one for place in (*self._searched(folder), *self._added(folder)) for one in self._listing(place))
        there = _OUTSIDE.union(entry.partition(".")[0] for entry in entries)
        found = apart(self._text(importer) or "", there, lambda: self._files_around(importer) or ())
        if found is None:
            return None
        root, name = self._root(folder), re.compile(rb"\b%s\b" % re.escape(os.path.basename(found[1]).encode()))
        told = (os.path.join(root, one) for one in self._listing(root) if one.endswith(_TELLING))
        for path in {*(self._files_around(importer) or ()), *told}:
            raw = self.raw(path) or b""
            if _SEARCH_PATH.search(raw) or (os.path.basename(path) in _PROJECT and name.search(raw)):
                return None
        return found[0]

    def _packages(self, path: str) -> Iterator[str]:
        """The files of the packages that a module lies in, which run before it; none for a script."""
        folder = os.path.dirname(path)
        while "__init__.py" in self._listing(folder) and b"__main__" not in (self.raw(path) or b""):
            yield os.path.join(folder, "__init__.py")
            folder = os.path.dirname(folder)

    def _imported_by(self, importer: str) -> Imported:
        from amplint.engine.unresolved import Bindings, imported

        if importer not in self._imported:
            folder, text = os.path.dirname(importer), self._text(importer)
            places = (*self._searched(folder), *self._added(folder))
            self._bindings = self._bindings or Bindings(self._listing, self._text)
            self._imported[importer] = imported(
                importer, text or "", places, self._bindings, lambda: self._files_around(importer) or ()
            )
        return self._imported[importer]

    def _parses(self, path: str) -> bool:
        """Whether a file is Python, be it in the syntax of a newer one than runs."""
        source = self.source(path)
        return source is None or bool(source.chunks)

    def precisions(self, importer: str) -> frozenset[str]:
        """The mixed precisions that configuration files of the project name, but for those under DeepSpeed and FSDP."""
        root = self._root(os.path.dirname(importer))
        if root not in self._precisions:
            raws = (self.raw(path) or b"" for path in itertools.islice(_configs(root), _MOST_CONFIGS))
            named = (name for raw in raws if not _SHARDED_LAUNCH.search(raw) for name in _PRECISION.findall(raw))
            self._precisions[root] = frozenset(name.decode() for name in named)
        return self._precisions[root]

    def sets(self, importer: str, name: str) -> bool:
        """Whether a file of the project sets, and does not only read, a setting of this name."""
        files, sets = self._files_around(importer), setting(name)
        return files is None or any(sets.search(self.raw(path) or b"") for path in files)

    def switched_on(self, importer: str, name: str) -> bool:
        """Whether a file of the project, or of one that installs it, can switch on a setting that is off.

        Of Python files those count that import the file, also through others, unless that registers what it defines.
        """
        files = self._files_around(importer)
        if files is None or self._is_installed(importer):
            return True
        scripts = set(files) if _REGISTERS.search(self.raw(importer) or b"") else self._users(importer)
        near = (one for one in files if one in scripts or not one.endswith(".py"))
        return any(switches_on(name, self.raw(one) or b"") for one in near)

    def _users(self, path: str) -> set[str]:
        """A file with those that import it, also through others, by the names of modules."""
        found, new = {path}, [path]
        others = dict(self._others(path))
        while new:
            imports = [_imports(one) for one in new]
            new = [one for one, raw in others.items() if one not in found and any(by.search(raw) for by in imports)]
            found.update(new)
        return found

    def mentioned_elsewhere(self, importer: str, name: str) -> bool:
        """Whether another Python file of the project mentions a name that it does not define, or may."""
        one = re.escape(name.encode())
        mentions = re.compile(rb"\b%s\b" % one)
        defines = re.compile(rb"(?m)^[ \t]*(?:(?:async )?def|class)[ \t]+%s\b" % one)
        if self._files_around(importer) is None:
            return True
        return any(mentions.search(raw) and not defines.search(raw) for _, raw in self._others(importer))

    def used_elsewhere(self, importer: str, name: str) -> bool:
        """Whether another file of the project mentions both a name of the module `importer` and that module, or may."""
        files = self._files_around(importer)
        words = [re.compile(rb"\b%s\b" % re.escape(one.encode())) for one in (_stem(importer), name)]
        raws = (self.raw(path) or b"" for path in files or () if path != importer)
        return files is None or any(all(word.search(raw) for word in words) for raw in raws)

    def unused(self, importer: str, name: str) -> bool:
        """Whether no file of a project that cannot be installed does more with a name than to define it."""
        files = self._files_around(importer)
        if files is None or importer not in files or self._is_installed(importer):
            return False
        used = re.compile(rb"(?<!def )(?<!class )\b%s\b" % re.escape(name.encode()))
        return not any(used.search(self.raw(path) or b"") for path in files)

    def _is_installed(self, importer: str) -> bool:
        """Whether the project of a file can be installed, and so offers what it defines to others."""
        root = self._root(os.path.dirname(importer))
        return any(_INSTALLS.search(self.raw(os.path.join(root, one)) or b"") for one in _PROJECT)

    def importers(self, path: str, name: str) -> list[str] | None:
        """The files of a project that import a name of the module at `path`, None if there may be other uses."""
        files, one, stem = self._files_around(path), re.escape(name.encode()), re.escape(_stem(path).encode())
        mentioned = re.compile(rb"\b%s\b" % one)
        by_path = re.compile(rb"\b%s\.%s\b" % (stem, one))
        by_text = re.compile(rb"[\"'.]%s[\"']" % one)
        by_import = re.compile(rb"\bimport\b[^\n]*\b%s\b" % one)
        found: list[str] = []
        for other in files or ():
            raw = self.raw(other) or b""
            if other == path or not mentioned.search(raw):
                continue
            source = self.source(other) if other.endswith(".py") else None
            taken = [one for one in source.imports.values() if name in (one.name, one.bound)] if source else []
            places = {self.place(other, one.module) for one in taken}
            starred = {self.place(other, module) for module in source.star_imports} if source else set()
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

    def digested(self, paths: list[str] | None) -> str:
        """Paths in lines, each with the digest of its content behind it; a question mark where they are not known."""
        return "?" if paths is None else "\n".join(f"{path}\t{self.digest(path)}" for path in paths)

    def scripts_with(self, importer: str, pattern: re.Pattern[bytes]) -> list[str]:
        """The paths of the project's other Python files in which `pattern` is found; none if there are too many."""
        return sorted(path for path, raw in self._others(importer) if pattern.search(raw))

    def trained(self, importer: str) -> frozenset[str]:
        """The dtypes of the regions in the other Python files of the project that run backward, "" for unknown ones."""
        if self._files_around(importer) is None:
            return frozenset({""})
        raws = (raw for _, raw in self._others(importer) if b".backward(" in raw)
        return frozenset(_dtype(arguments) for raw in raws for arguments in _REGION.findall(raw))

    def kernels_beside(self, importer: str) -> str | None:
        """A package that builds kernels for CUDA and that another module in the folder of `importer` always imports."""
        folder, files = os.path.dirname(importer), self._files_around(importer) or ()
        built = {
            os.path.basename(os.path.dirname(path))
            for path in files
            if path.endswith(".py") and all(sign in (self.raw(path) or b"") for sign in _BUILDS_KERNELS)
        } - {os.path.basename(folder), ""}
        beside = (os.path.join(folder, name) for name in sorted(self.scripts(folder)))
        raws = [self.raw(path) or b"" for path in beside if path != importer] if built else []
        imports = (
            (name, re.compile(rb"(?m)^(?:from|import) %s\b" % re.escape(name.encode()))) for name in sorted(built)
        )
        return next((name for name, pattern in imports if any(map(pattern.search, raws))), None)

    def model_in_region(self, importer: str) -> str | None:
        """A file with a model that enters a region by itself, which another one imports beside `importer`."""
        found = self.scripts_with(importer, _MODEL_IN_REGION)
        importing = _imports(importer)
        users = [raw for _, raw in self._others(importer) if importing.search(raw)] if found else []
        return next((path for path in found if any(map(_imports(path).search, users))), None)

    def _others(self, importer: str) -> Iterator[tuple[str, bytes]]:
        """The other Python files of the project, with their contents; none if there are too many."""
        for path in self._files_around(importer) or ():
            if path.endswith(".py") and path != importer:
                yield path, self.raw(path) or b""

    def _files_around(self, importer: str) -> tuple[str, ...] | None:
        """The scripts and configuration files of the project, None if there are too many."""
        root = self._root(os.path.dirname(importer))
        if root not in self._files:
            found = tuple(itertools.islice(_files(root), _MOST_FILES + 1))
            self._files[root] = found if len(found) <= _MOST_FILES else None
        return self._files[root]

    def _text(self, path: str) -> str | None:
        """The text of a file of the tree, None if it cannot be read or decoded."""
        raw = self.raw(path)
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode() if raw is not None else None
        return None

    def around(self, folder: str) -> tuple[str, ...]:
        """The folders that the search for modules covers from `folder` on, up to the project's root."""
        return self._searched(folder)

    def scripts(self, folder: str) -> frozenset[str]:
        """The names of the Python files in a folder of the tree."""
        return frozenset(name for name in self._listing(folder) if name.endswith(".py"))

    def wanted(self, importer: str, package: str) -> Wanted | None:
        """The versions of `package` that the importer's project requires, None if no file states any."""
        key = os.path.dirname(importer), package
        if key not in self._wanted:
            self._wanted[key] = self._searched_wanted(*key)
        return self._wanted[key]

    def _searched_wanted(self, beside: str, package: str) -> Wanted | None:
        from amplint.engine.requirements import wanted

        for file in (file for folder in self._searched(beside) for file in self._requirements(folder)):
            raw = self.raw(file)
            found = wanted(raw, package, file) if raw is not None else None
            if found is not None:
                return found
        return None

    def _requirements(self, folder: str) -> tuple[str, ...]:
        """The files of `folder`, and of its documentation, that state versions of packages."""
        from amplint.engine.requirements import FILES

        if folder not in self._requirement_files:
            inner = (os.path.join(folder, name) for name in _DOCUMENTATION if name in self._listing(folder))
            places = [(at, sorted(self._listing(at))) for at in (folder, *inner)]
            found = (
                (at, name) for pattern in FILES for at, names in places for name in names if pattern.fullmatch(name)
            )
            self._requirement_files[folder] = tuple(os.path.join(at, name) for at, name in found)
        return self._requirement_files[folder]

    def answer(self, importer: str, question: str) -> tuple[str, str]:
        """The answer to a query of `importer`, with its subject behind a space: a place, and a digest of its content.

        An answer in words has no digest; both are empty where there is no answer.
        """
        query, _, subject = question.partition(" ")
        if query in _PLACES:
            place = _PLACES[query](self, importer, subject)
            return (place, self.digest(place)) if place is not None else ("", "")
        if query == Query.VERSION:
            wanted = self.wanted(importer, subject)
            return (wanted.place, str(wanted)) if wanted is not None else ("", "")
        return _WORDS[query](self, importer, subject), ""

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
        self._wanted.clear()
        self._unresolved.clear()
        self._imported.clear()
        self._bindings = None
        self._precisions.clear()
        self._files.clear()

    def amend(self, path: str, raw: bytes) -> None:
        """Take `raw` for the content of a file from here on."""
        self.forget(path)
        self._raw[path] = raw

    def _search(self, folder: str, module: str) -> str | None:
        name = module.lstrip(".")
        parts = name.split(".") if name else []
        if name == module:
            places = itertools.chain(self._searched(folder), self._added(folder))
            return next((found for place in places if (found := self._below(place, parts))), None)
        for _ in range(len(module) - len(name) - 1):
            folder = os.path.dirname(folder)
        return self._below(folder, parts)

    def _searched(self, folder: str) -> tuple[str, ...]:
        if folder not in self._folders:
            root = self._root(folder)
            above = [folder]
            while above[-1] != root and above[-1] != os.path.dirname(above[-1]):
                above.append(os.path.dirname(above[-1]))
            above.sort(key=lambda place: "__init__.py" in self._listing(place))
            places = ((place, os.path.join(place, "src")) for place in above)
            self._folders[folder] = tuple(place for pair in places for place in pair if self._listing(place))
        return self._folders[folder]

    def _added(self, folder: str) -> Iterator[str]:
        """The folders of the tree whose names stand in scripts of `folder` that change `sys.path`."""
        if folder not in self._added_folders:
            names = dict[str, None]()
            for script in sorted(self.scripts(folder)):
                raw = self.raw(os.path.join(folder, script)) or b""
                if b"sys.path" in raw and len(names) < _MOST_ADDED:
                    names |= dict.fromkeys(one.decode() for one in _FOLDER.findall(raw))
            root = self._root(folder)
            found = (os.path.normpath(os.path.join(place, name)) for name in names for place in (folder, root))
            kept = (one for one in found if one.startswith(os.path.join(root, "")) and self.scripts(one))
            self._added_folders[folder] = tuple(dict.fromkeys(kept))
        yield from self._added_folders[folder]

    def _root(self, folder: str) -> str:
        """The nearest repository root, else the topmost folder with project files, else the current folder."""
        above, place = [folder], folder
        while ".git" not in self._listing(place) and place != os.path.dirname(place):
            place = os.path.dirname(place)
            above.append(place)
        if ".git" in self._listing(place):
            return place
        marked = [place for place in above if self._listing(place) & _PROJECT]
        here = os.getcwd()
        return marked[-1] if marked else here if here in above else folder

    def _below(self, folder: str, parts: list[str]) -> str | None:
        for part in parts[:-1]:
            if part not in self._listing(folder):
                return None
            folder = os.path.join(folder, part)
        last = parts[-1] if parts else ""
        if f"{last}.py" in self._listing(folder):
            return os.path.join(folder, f"{last}.py")
        package = os.path.join(folder, last) if last else folder
        inside = (not last or last in self._listing(folder)) and "__init__.py" in self._listing(package)
        return os.path.join(package, "__init__.py") if inside else None

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            self._listings[folder] = frozenset()
            with contextlib.suppress(OSError):
                self._listings[folder] = frozenset(os.listdir(folder))
        return self._listings[folder]


def _configs(root: str) -> Iterator[str]:
    """The configuration files below a folder."""
    for folder, inner, names in itertools.islice(os.walk(root), _MOST_FOLDERS):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        yield from (os.path.join(folder, name) for name in sorted(names) if is_config(name))


def _files(root: str) -> Iterator[str]:
    """The scripts and configuration files below a folder."""
    for folder, inner, names in itertools.islice(os.walk(root), _MOST_FOLDERS):
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name not in _SKIPPED_FOLDERS)
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(_SEARCHED))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _dtype(arguments: bytes) -> str:
    """The half dtype of a region with these `arguments`; "" if it is unknown."""
    found = _REGION_DTYPE.search(arguments)
    if found is None:
        return "float16" if _OF_CUDA.search(arguments) else ""
    name = (found[1] or b"").decode()
    return "float16" if name == "half" else name


def _imports(path: str) -> re.Pattern[bytes]:
    """An import of the module of a file, by its own name."""
    return re.compile(rb"(?m)^[ \t]*(?:from|import)[ \t][^\n]*\b%s\b" % re.escape(_stem(path).encode()))


def _is_package(path: str | None) -> bool:
    return path is not None and os.path.basename(path) == "__init__.py"


_OUTSIDE = LIBRARIES | (sys.stdlib_module_names - {"test", "code", "types", "trace", "copy"})


_PLACES: Mapping[str, Callable[[Modules, str, str], str | None]] = {
    Query.MODULE: Modules.place,
    Query.FILE: Modules.file,
    Query.LAUNCH: lambda modules, importer, _: modules.launched_by(importer),
}
_WORDS: Mapping[str, Callable[[Modules, str, str], str]] = {
    Query.UNRESOLVED: lambda modules, importer, _: modules.unresolved(importer) or "",
    Query.PRECISIONS: lambda modules, importer, _: " ".join(sorted(modules.precisions(importer))),
    Query.TRAINED: lambda modules, importer, _: " ".join(name or "?" for name in sorted(modules.trained(importer))),
    Query.KERNELS: lambda modules, importer, _: modules.kernels_beside(importer) or "",
    Query.MODEL_IN_REGION: lambda modules, importer, _: modules.model_in_region(importer) or "",
    Query.SETS: lambda modules, importer, name: name if modules.sets(importer, name) else "",
    Query.SWITCHES: lambda modules, importer, name: name if modules.switched_on(importer, name) else "",
    Query.UNUSED: lambda modules, importer, name: name if modules.unused(importer, name) else "",
    Query.IMPORTERS: lambda modules, importer, name: modules.digested(modules.importers(importer, name)),
    Query.MENTIONS: lambda modules, importer, name: name if modules.mentioned_elsewhere(importer, name) else "",
    Query.USES: lambda modules, importer, name: name if modules.used_elsewhere(importer, name) else "",
}


class Lookups:
    """The queries that `modules` answers during the analysis of one file, recorded so that they can be repeated.

    Called with a source and a module name, it resolves that module. The versions in `libraries` override project files.
    """

    def __init__(self, modules: Modules, main: Source, libraries: tuple[Wanted, ...] = ()) -> None:
        self._modules = modules
        self._main = main
        self._libraries = {wanted.package: wanted for wanted in libraries}
        self._asked: dict[str, dict[str, tuple[str, str]]] = {}

    def __call__(self, source: Source, module: str) -> Source | None:
        if not source.path or module.partition(".")[0] in _OUTSIDE:
            return None
        place = self._ask(source, Query.MODULE, module)
        if not place:
            return self._modules.stand_in(module)
        return self._main if place == self._main.path else self._modules.source(place)

    def config(self, source: Source, name: str) -> ConfigFile | None:
        """The configuration file that `source` names by a relative path."""
        place = self._ask(source, Query.FILE, name) if source.path else ""
        return self._modules.config(place) if place else None

    def launched_by(self, source: Source) -> ConfigFile | None:
        """The configuration beside `source` that `accelerate launch` reads."""
        place = self._ask(source, Query.LAUNCH) if source.path else ""
        return self._modules.config(place) if place else None

    def unresolved(self, source: Source) -> str | None:
        """What `source` imports from its own project and the project does not have."""
        return self._ask(source, Query.UNRESOLVED) or None if source.path else None

    def precisions(self, source: Source) -> Set[str]:
        """The mixed precisions that configuration files of the project of `source` name."""
        return frozenset(self._ask(source, Query.PRECISIONS).split()) if source.path else frozenset()

    def trained(self, source: Source) -> Set[str]:
        """The dtypes of the regions in other files of the project of `source` that train, "?" for unknown ones."""
        return frozenset(self._ask(source, Query.TRAINED).split()) if source.path else frozenset()

    def kernels_beside(self, source: Source) -> str | None:
        """A package of kernels, built for CUDA by the project of `source`, that a module beside it imports."""
        return self._ask(source, Query.KERNELS) or None if source.path else None

    def model_in_region(self, source: Source) -> str | None:
        """A file with a model that enters a region by itself, which another file imports beside `source`."""
        return self._ask(source, Query.MODEL_IN_REGION) or None if source.path else None

    def sets(self, source: Source, name: str) -> bool:
        """Whether something in the project of `source` sets, and does not only read, a setting of this name."""
        return not source.path or bool(self._ask(source, Query.SETS, name))

    def switches_on(self, source: Source, name: str) -> bool:
        """Whether something in the project of `source` can switch on a setting that is off by default."""
        return not source.path or bool(self._ask(source, Query.SWITCHES, name))

    def is_mentioned_elsewhere(self, source: Source, name: str) -> bool:
        """Whether another Python file of the project of `source` mentions a name."""
        return bool(source.path and self._ask(source, Query.MENTIONS, name))

    def is_used_elsewhere(self, source: Source, name: str) -> bool:
        """Whether another file of the project of `source` can use a name of that file."""
        return not source.path or bool(self._ask(source, Query.USES, name))

    def importers(self, source: Source, name: str) -> list[Source] | None:
        """The files that import a name of `source`, None if there may be other uses of it."""
        told = self._ask(source, Query.IMPORTERS, name) if source.path else "?"
        found = [self._modules.source(line.partition("\t")[0]) for line in told.splitlines() if told != "?"]
        return None if told == "?" or None in found else [one for one in found if one is not None]

    def is_unused(self, source: Source, name: str) -> bool:
        """Whether the project of `source` cannot be installed, and only defines a name."""
        return bool(source.path and self._ask(source, Query.UNUSED, name))

    def wanted(self, source: Source, package: str) -> Wanted | None:
        """The versions of `package` that the project of `source` requires."""
        if package in self._libraries or not source.path:
            return self._libraries.get(package)
        self._ask(source, Query.VERSION, package)
        return self._modules.wanted(source.path, package)

    def _ask(self, source: Source, query: Query, subject: str = "") -> str:
        question = f"{query.value} {subject}"
        place, content = self._modules.answer(source.path, question)
        if place != self._main.path:
            self._asked.setdefault(source.path, {})[question] = place, content
        return place

    def answers(self) -> Answers:
        """Each lookup of the analysis, with its answer."""
        return self._asked


def is_still_valid(modules: Modules, asked: Answers) -> bool:
    """Whether the lookups `asked` have the same answers now."""
    return all(
        modules.answer(importer, question) == (place, content)
        for importer, questions in asked.items()
        for question, (place, content) in questions.items()
    )
