"""A file and the code it reaches through imports in the linted tree, resolved on demand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Set
from typing import TYPE_CHECKING, Protocol, TypeAlias

from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.torchlib.legacy import MMCV_PACKAGES
from amplint.torchlib.versions import asked

if TYPE_CHECKING:
    from amplint.source.configs.file import ConfigFile
    from amplint.torchlib.versions import Wanted

Find: TypeAlias = Callable[[Source, str], Source | None]
"""Return the file of a module name in a given file; None if it is not in the linted tree."""
Target: TypeAlias = Chunk | Source | str | None
"""The definition of a name: the chunk that binds it, a module of the tree, or the qualified name in a library."""

CHUNK_LIMIT = 400


def nothing(source: Source, module: str) -> Source | None:
    """Resolve no module, for a file on its own."""
    return None


class Around(Protocol):
    """Queries about a file's surroundings other than modules."""

    def config(self, source: Source, name: str) -> ConfigFile | None:
        """The configuration file that `source` names by a relative path."""

    def launched_by(self, source: Source) -> ConfigFile | None:
        """The configuration beside `source` for `accelerate launch`, if there is exactly one."""

    def wanted(self, source: Source, package: str) -> Wanted | None:
        """The versions of `package` that the project of `source` requires."""

    def unresolved(self, source: Source) -> str | None:
        """What `source` imports from its own project and the project does not have."""

    def precisions(self, source: Source) -> Set[str]:
        """The mixed precisions that configuration files of the project of `source` name."""

    def trained(self, source: Source) -> Set[str]:
        """The dtypes of the regions in other files of the project of `source` that train, "?" for unknown ones."""

    def kernels_beside(self, source: Source) -> str | None:
        """A package of kernels, built for CUDA by the project of `source`, that a module beside it imports."""

    def model_in_region(self, source: Source) -> str | None:
        """A file with a model that enters a region by itself, which another file imports beside `source`."""

    def sets(self, source: Source, name: str) -> bool:
        """Whether something in the project of `source` sets, and does not only read, a setting of this name."""

    def switches_on(self, source: Source, name: str) -> bool:
        """Whether something in the project of `source` can switch on a setting that is off by default."""

    def is_mentioned_elsewhere(self, source: Source, name: str) -> bool:
        """Whether another Python file of the project of `source` mentions a name."""

    def is_used_elsewhere(self, source: Source, name: str) -> bool:
        """Whether another file of the project of `source` can use a name of that file."""

    def importers(self, source: Source, name: str) -> list[Source] | None:
        """The files that import a name of `source`, None if there may be other uses of it."""

    def is_unused(self, source: Source, name: str) -> bool:
        """Whether the project of `source` cannot be installed, and only defines a name."""

    def is_uncalled(self, source: Source, name: str) -> bool:
        """Whether nothing in the project of `source`, which cannot be installed, uses a method of this name."""


class Program:
    """The linted file `main` and the functions and classes of other files that it reaches.

    `chunks` are all reachable chunks, those of the linted file first, and `mentions` maps each to those that it
    mentions. `torch` is the PyTorch version to assume, None for the newest known. With `whole` all of these are
    relevant as the linted file is, and not only code that trains, saves or enters contexts. `around` answers queries
    about the surroundings. `configs` are the configuration files that were read, and `assumed` those among them that
    options of the script can replace. `offered` are the half dtypes among which the script was found to choose, and
    `emitted` the keys of the events of the last interpretation.
    """

    def __init__(
        self,
        main: Source,
        find: Find = nothing,
        torch: str | None = None,
        *,
        whole: bool = False,
        around: Around | None = None,
    ) -> None:
        self.main = main
        self.torch = torch
        self.whole = whole
        self._find = find
        self._around = around
        self.configs: dict[str, ConfigFile] = {}
        self.assumed: dict[str, ConfigFile] = {}
        self.offered: set[str] = set()
        self.emitted: Set[Hashable] = frozenset()
        self._targets: dict[tuple[Source, str], Target] = {}
        self.chunks = list(main.chunks)
        self.mentions: dict[Chunk, tuple[Chunk, ...]] = {}
        self._follow()
        self.sources = tuple(dict.fromkeys(chunk.source for chunk in self.chunks))

    def source_of(self, node: cst.CSTNode) -> Source | None:
        """The reachable file whose tree contains `node`."""
        return next((source for source in (*self.sources, *self.configs.values()) if source.owns(node)), None)

    def config(self, name: str) -> ConfigFile | None:
        """The configuration file with the relative path `name`, relative to the linted file."""
        found = self._around.config(self.main, name) if self._around is not None else None
        if found is not None:
            self.configs[found.path] = found
        return found

    def launched_by(self) -> ConfigFile | None:
        """The configuration beside the linted file for `accelerate launch`, if there is exactly one."""
        found = self._around.launched_by(self.main) if self._around is not None else None
        if found is not None:
            self.configs[found.path] = found
        return found

    def unresolved(self) -> str | None:
        """What the linted file, or one that it imports, imports from its project in vain; None if nothing."""
        return self._around.unresolved(self.main) if self._around is not None else None

    def precisions(self) -> Set[str]:
        """The mixed precisions that configuration files of the project name, none if they name none."""
        return self._around.precisions(self.main) if self._around is not None else frozenset()

    def trained(self) -> Set[str]:
        """The dtypes of the regions in other files of the project that train, "?" for unknown ones."""
        return self._around.trained(self.main) if self._around is not None else frozenset()

    def kernels_beside(self) -> str | None:
        """A package of kernels, built for CUDA by the project, that a module beside the linted file imports."""
        return self._around.kernels_beside(self.main) if self._around is not None else None

    def model_in_region(self) -> str | None:
        """A file with a model that enters a region by itself, which another file imports beside the linted one."""
        return self._around.model_in_region(self.main) if self._around is not None else None

    def sets(self, name: str) -> bool:
        """Whether something can set a setting of this name: in the project, or if that is not known."""
        return self._around is None or self._around.sets(self.main, name)

    def switches_on(self, name: str, home: Source | None = None) -> bool:
        """Whether something can switch on a setting of the file `home`, the linted one if None, that is off by default:
        in the project, or if that is not known.
        """
        return self._around is None or self._around.switches_on(home or self.main, name)

    def is_mentioned_elsewhere(self, name: str) -> bool:
        """Whether another file of the project can mention a name."""
        return self._around is not None and self._around.is_mentioned_elsewhere(self.main, name)

    def is_used_elsewhere(self, name: str) -> bool:
        """Whether another file of the project can use a name of the linted file, or there may be others."""
        return self._around is None or self._around.is_used_elsewhere(self.main, name)

    def importers(self, name: str) -> list[Source] | None:
        """The files that import a name of the linted file, None if there may be other uses of it."""
        return self._around.importers(self.main, name) if self._around is not None else []

    def is_unused(self, name: str) -> bool:
        """Whether the project cannot be installed, and none of its files does more with a name than to define it."""
        return self._around is not None and self._around.is_unused(self.main, name)

    def is_uncalled(self, name: str) -> bool:
        """Whether the project cannot be installed, and nothing in it uses a method of the linted file by its name."""
        return self._around is not None and self._around.is_uncalled(self.main, name)

    def wanted(self, package: str) -> Wanted | None:
        """The versions of a library that the project requires, None if it states none."""
        return self._around.wanted(self.main, package) if self._around is not None else None

    def wanted_torch(self) -> Wanted | None:
        """The versions of PyTorch that count: the configured one, else those that the project requires."""
        if self.torch is not None:
            return asked("torch", f"=={self.torch}", "torch-version")
        return self.wanted("torch") or self.wanted("pytorch")

    def wanted_mmcv(self) -> Wanted | None:
        """The versions of mmcv that the project requires, by either name of its package."""
        return next(filter(None, map(self.wanted, MMCV_PACKAGES)), None)

    def aliases(self) -> dict[str, str]:
        """Name -> original name, for imports that rename."""
        imports = (one for source in self.sources for one in source.imports.values())
        return {one.bound: one.name for one in imports if one.name and one.bound != one.name}

    def resolve(self, source: Source, name: str) -> Target:
        """The definition of the top-level `name` of `source`, or of `module.name`; None if it binds no such name."""
        key = (source, name)
        if key not in self._targets:
            self._targets[key] = None  # a circular import binds nothing
            self._targets[key] = self._resolved(source, name)
        return self._targets[key]

    def imported(self, source: Source, module: str, name: str) -> Target:
        """The definition that `from module import name` in `source` binds, `import module` for an empty `name`."""
        behind = self._find(source, module)
        if not name:
            return behind or module
        found = self.resolve(behind, name) if behind is not None else None
        submodule = f"{module}{'' if module.endswith('.') else '.'}{name}"
        return found or self._find(source, submodule) or submodule

    def imports_project(self, source: Source) -> bool:
        """Whether a file imports another one of its project."""
        found = (self.imported(source, one.module, one.name) for one in source.imports.values())
        homes = (one.source if isinstance(one, Chunk) else one for one in found)
        return any(isinstance(home, Source) and bool(home.path) for home in homes)

    def starred(self, source: Source) -> list[Source] | None:
        """The modules of which a file takes all names, None if one of them is not in the tree."""
        found = [self._find(source, module) for module in source.star_imports]
        kept = [one for one in found if one is not None and one.path]
        return kept if len(kept) == len(found) else None

    def _resolved(self, source: Source, name: str) -> Target:
        one = source.imports.get(name)
        if one is not None:
            return self.imported(source, one.module, one.name)
        above, _, last = name.rpartition(".")
        if above:
            owner = self.resolve(source, above)
            return self._within(owner, last) if isinstance(owner, Source) else None
        if name in source.names and name in source.definitions:
            return source.definitions[name]
        for module in self._starred(source):
            found = self.resolve(module, name)
            if found is not None:
                return found
        return None

    def _within(self, package: Source, name: str) -> Target:
        """The definition of `name` in a module, or the module of a package that its file imports as `package.name`."""
        found = self.resolve(package, name)
        if found is None and package.path.endswith("__init__.py"):
            return self._find(package, f".{name}")
        return found

    def _starred(self, source: Source) -> Iterator[Source]:
        for module in source.star_imports:
            behind = self._find(source, module)
            if behind is not None:
                yield behind

    def _follow(self) -> None:
        waiting = deque(self.chunks)
        known = set(self.chunks)
        while waiting:
            chunk = waiting.popleft()
            self.mentions[chunk] = tuple(self._mentioned(chunk))
            for found in self.mentions[chunk]:
                if found not in known and len(known) < CHUNK_LIMIT + len(self.main.chunks):
                    known.add(found)
                    self.chunks.append(found)
                    waiting.append(found)

    def _mentioned(self, chunk: Chunk) -> Iterator[Chunk]:
        """The chunks that the names in `chunk` refer to, also through modules.

        Of a `*` import, only names count that the importing file does not bind itself: a `logger` in each of a thousand
        files is not one in all of them.
        """
        home = chunk.source
        dotted = [name for name in home.dotted if chunk.used.issuperset(name.split("."))]
        modules: list[Source] = []
        for name in (*sorted(chunk.used & home.names), *dotted):
            yield from self._resolved_chunks(home, name, modules)
        waiting = [(module, chunk.used) for module in modules]
        waiting += [(module, chunk.used - home.names) for module in self._starred(home)]
        seen: set[tuple[Source, frozenset[str]]] = set()
        while waiting:
            module, used = waiting.pop()
            if (module, used) in seen:
                continue
            seen.add((module, used))
            modules = []
            for name in sorted(used & module.names):
                yield from self._resolved_chunks(module, name, modules)
            waiting += [(inner, chunk.used) for inner in modules]
            waiting += [(inner, used - module.names) for inner in self._starred(module)]

    def _resolved_chunks(self, source: Source, name: str, modules: list[Source]) -> Iterator[Chunk]:
        target = self.resolve(source, name)
        if isinstance(target, Source):
            modules.append(target)
        elif isinstance(target, Chunk):
            yield target
