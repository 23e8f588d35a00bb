"""Everything that the analysis of a file asks of the tree around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amplint.engine.modules.absent import Absent
from amplint.engine.modules.contents import Contents
from amplint.engine.modules.evidence import Evidence
from amplint.engine.modules.fingerprint import Fingerprints
from amplint.engine.modules.folders import Folders
from amplint.engine.modules.mentions import Mentions
from amplint.engine.modules.query import Query
from amplint.engine.modules.required import Required


class Modules:
    """The tree around files: contents, folders, and what is derived of them, each computed once during one run.

    `contents` are those of the disk by default.
    """

    def __init__(self, contents: Contents | None = None) -> None:
        self.contents = contents or Contents()
        self.folders = Folders(self.contents)
        self.mentions = Mentions(self.contents, self.folders)
        self.evidence = Evidence(self.contents, self.folders, self.mentions)
        self.required = Required(self.contents, self.folders)
        self.absent = Absent(self.contents, self.folders, self.mentions)
        self.fingerprints = Fingerprints(self.contents, self.folders, self.mentions)

    def answer(self, importer: str, question: str) -> tuple[str, str]:
        """The answer to a query of `importer`, with its subject behind a space: a place, and a digest of its content.

        An answer in words has no digest; both are empty where there is no answer.
        """
        query, _, subject = question.partition(" ")
        if query in _PLACES:
            place = _PLACES[query](self, importer, subject)
            return (place, self.contents.digest(place)) if place is not None else ("", "")
        if query == Query.VERSION:
            wanted = self.required.wanted(importer, subject)
            return (wanted.place, str(wanted)) if wanted is not None else ("", "")
        if query == Query.PROJECT:
            return "", self.fingerprints.of(importer)
        return _WORDS[query](self, importer, subject), ""

    def forget(self, path: str) -> None:
        """Drop the cached content of a file that has changed, and what is derived of contents."""
        self.contents.forget(path)
        for part in (self.mentions, self.evidence, self.required, self.absent, self.fingerprints):
            part.forget()

    def amend(self, path: str, raw: bytes) -> None:
        """Take `raw` for the content of a file from here on."""
        self.forget(path)
        self.contents.amend(path, raw)


def _importers(modules: Modules, importer: str, name: str) -> str:
    """The importers of a name in lines, each with the digest of its content; a question mark if they are not known."""
    paths = modules.mentions.importers(importer, name)
    return "?" if paths is None else "\n".join(f"{path}\t{modules.contents.digest(path)}" for path in paths)


_PLACES: Mapping[str, Callable[[Modules, str, str], str | None]] = {
    Query.MODULE: lambda modules, importer, module: modules.folders.place(importer, module),
    Query.FILE: lambda modules, importer, name: modules.folders.file(importer, name),
    Query.LAUNCH: lambda modules, importer, _: modules.evidence.launched_by(importer),
}
_WORDS: Mapping[str, Callable[[Modules, str, str], str]] = {
    Query.UNRESOLVED: lambda modules, importer, _: modules.absent.unresolved(importer) or "",
    Query.PRECISIONS: lambda modules, importer, _: " ".join(sorted(modules.evidence.precisions(importer))),
    Query.TRAINED: lambda modules, importer, _: " ".join(
        one or "?" for one in sorted(modules.evidence.trained(importer))
    ),
    Query.KERNELS: lambda modules, importer, _: modules.evidence.kernels_beside(importer) or "",
    Query.MODEL_IN_REGION: lambda modules, importer, _: modules.evidence.model_in_region(importer) or "",
    Query.SETS: lambda modules, importer, name: name if modules.mentions.sets(importer, name) else "",
    Query.SWITCHES: lambda modules, importer, name: name if modules.mentions.switched_on(importer, name) else "",
    Query.UNUSED: lambda modules, importer, name: name if modules.mentions.unused(importer, name) else "",
    Query.UNCALLED: lambda modules, importer, name: name if modules.mentions.uncalled(importer, name) else "",
    Query.IMPORTERS: _importers,
    Query.MENTIONS: lambda modules, importer, name: (
        name if modules.mentions.mentioned_elsewhere(importer, name) else ""
    ),
    Query.USES: lambda modules, importer, name: name if modules.mentions.used_elsewhere(importer, name) else "",
}
