"""Lookups in the tree around a file, recorded so that they can be repeated."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from amplint.engine.modules.folders import OUTSIDE
from amplint.engine.modules.query import Query

if TYPE_CHECKING:
    from amplint.engine.modules.modules import Modules
    from amplint.source.configs.file import ConfigFile
    from amplint.source.source import Source
    from amplint.torchlib.versions import Wanted

Answers = Mapping[str, Mapping[str, tuple[str, str]]]
"""Path of the importer -> query -> path of the answer and digest of its content (see `Modules.answer`)."""

_SEARCHES = frozenset(
    {Query.TRAINED, Query.KERNELS, Query.MODEL_IN_REGION, Query.SETS, Query.SWITCHES}
    | {Query.MENTIONS, Query.USES, Query.UNUSED, Query.UNCALLED, Query.IMPORTERS}
)
"""Queries that read all files of a project."""
_IN_PROJECT = _SEARCHES | {Query.UNRESOLVED, Query.PRECISIONS, Query.LAUNCH}
"""Queries whose answers a project's fingerprint holds."""
_PROJECT = f"{Query.PROJECT.value} "


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
        if not source.path or module.partition(".")[0] in OUTSIDE:
            return None
        place = self._ask(source, Query.MODULE, module)
        if not place:
            return self._modules.contents.stand_in(module)
        return self._main if place == self._main.path else self._modules.contents.source(place)

    def config(self, source: Source, name: str) -> ConfigFile | None:
        """The configuration file that `source` names by a relative path."""
        place = self._ask(source, Query.FILE, name) if source.path else ""
        return self._modules.contents.config(place) if place else None

    def launched_by(self, source: Source) -> ConfigFile | None:
        """The configuration beside `source` that `accelerate launch` reads."""
        place = self._ask(source, Query.LAUNCH) if source.path else ""
        return self._modules.contents.config(place) if place else None

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
        found = [self._modules.contents.source(line.partition("\t")[0]) for line in told.splitlines() if told != "?"]
        return None if told == "?" or None in found else [one for one in found if one is not None]

    def is_unused(self, source: Source, name: str) -> bool:
        """Whether the project of `source` cannot be installed, and only defines a name."""
        return bool(source.path and self._ask(source, Query.UNUSED, name))

    def is_uncalled(self, source: Source, name: str) -> bool:
        """Whether nothing in the project of `source`, which cannot be installed, uses a method of this name."""
        return bool(source.path and self._ask(source, Query.UNCALLED, name))

    def wanted(self, source: Source, package: str) -> Wanted | None:
        """The versions of `package` that the project of `source` requires."""
        if package in self._libraries or not source.path:
            return self._libraries.get(package)
        self._ask(source, Query.VERSION, package)
        return self._modules.required.wanted(source.path, package)

    def _ask(self, source: Source, query: Query, subject: str = "") -> str:
        question = f"{query.value} {subject}"
        place, content = self._modules.answer(source.path, question)
        if place != self._main.path:
            self._asked.setdefault(source.path, {})[question] = place, content
        return place

    def answers(self) -> Answers:
        """Each lookup of the analysis, with its answer, and the fingerprints of projects that were searched."""
        for importer, questions in self._asked.items():
            if any(_query(question) in _SEARCHES for question in questions):
                questions[_PROJECT] = self._modules.answer(importer, _PROJECT)
        return self._asked


def is_still_valid(modules: Modules, asked: Answers) -> bool:
    """Whether the lookups `asked` have the same answers now."""
    return all(_hold(modules, importer, questions) for importer, questions in asked.items())


def _hold(modules: Modules, importer: str, questions: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the questions of one importer have the same answers, of which its project's fingerprint holds some."""
    _, project = questions.get(_PROJECT, ("", ""))
    held = _IN_PROJECT if project and modules.answer(importer, _PROJECT)[1] == project else frozenset()
    return all(
        modules.answer(importer, question) == (place, content)
        for question, (place, content) in questions.items()
        if _query(question) not in held and question != _PROJECT
    )


def _query(question: str) -> str:
    return question.partition(" ")[0]
