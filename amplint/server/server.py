"""The server: receives documents, publishes diagnostics, and computes code actions on request.

One thread does all linting sequentially, while the event loop receives changes. A lint of outdated text is not started,
or its result is dropped: published diagnostics are always those of the latest text.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from amplint import __version__
from amplint.engine.config import ConfigError
from amplint.engine.diagnostics import describe
from amplint.findings import Finding
from amplint.records import dataclass
from amplint.reports.text import one_line
from amplint.rule import Registry
from amplint.server.checker import Checker
from amplint.server.documents import Document, Part, path_of
from amplint.server.messages import diagnostic
from amplint.server.texts import Text

_IDLE_SECONDS = 0.1
"""How long nothing is typed before a document is linted."""
_CLIENTS = frozenset({"command", "trace"})
"""Settings that are for the client itself: what starts the server, and what it logs."""
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(
            notebook=types.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
            cells=[types.NotebookCellLanguage("python")],
        )
    ],
    save=False,
)

Result = TypeVar("Result")


@dataclass(frozen=True)
class Wish:
    """A code action on a document as it was at `serial`.

    `what` is `fix` or `ignore`, for the finding with the number `index`, or `all` for all safe fixes.
    """

    uri: str
    serial: int
    what: str
    index: int


class _Protocol(LanguageServerProtocol):
    """Leaves text changes to `Server`: pygls splits lines as `str.splitlines` does, which clients do not."""

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        """Apply the changes of a script."""
        self._server.change(params)  # type: ignore[attr-defined]

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Apply the changes of a notebook."""
        self._server.change_notebook(params)  # type: ignore[attr-defined]


class Server(LanguageServer):
    """Tracks the documents of one client."""

    def __init__(self, registry: Registry) -> None:
        super().__init__(
            "amplint", __version__, types.TextDocumentSyncKind.Incremental, _NOTEBOOKS, protocol_cls=_Protocol
        )
        self.registry = registry
        self._checker = Checker(registry)
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="amplint-lint")
        self._documents: dict[str, Document] = {}
        self._found: dict[str, tuple[int, list[Finding]]] = {}
        self._lints: dict[str, asyncio.Task[None]] = {}
        self._changed: set[str] = set()
        self._serial = 0
        self._last_message = ""
        self.options: object = {}
        self.was_shut_down = False

    def open(self, uri: str, parts: Iterable[tuple[str, int, str, bool]], *, is_notebook: bool = False) -> None:
        """The client opened a document; for each part its URI, version, text, and whether it is code."""
        made = tuple(Part(part, version, self._text(text), code) for part, version, text, code in parts)
        self._update(Document(uri, path_of(uri, is_notebook=is_notebook), made, is_notebook, 0), now=True)

    def change(self, params: types.DidChangeTextDocumentParams) -> None:
        """The client changed a script."""
        document = self._documents.get(params.text_document.uri)
        if document is not None:
            part = _with_changes(document.parts[0], params.text_document.version, params.content_changes)
            self._update(replace(document, parts=(part,)))

    def change_notebook(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """The client changed a notebook: its cells, or their contents."""
        document = self._documents.get(params.notebook_document.uri)
        cells = params.change.cells
        if document is None or cells is None:
            return
        parts = list(document.parts)
        if (structure := cells.structure) is not None:
            known = {part.uri: part for part in parts}
            opened = {text.uri: text for text in structure.did_open or ()}
            put: list[Part] = []
            for cell in structure.array.cells or ():
                code = cell.kind == types.NotebookCellKind.Code
                if (text := opened.get(cell.document)) is not None:
                    put.append(Part(text.uri, text.version, self._text(text.text), code))
                elif cell.document in known:
                    put.append(replace(known[cell.document], is_code=code))
            start = structure.array.start
            parts[start : start + structure.array.delete_count] = put
            for closed in structure.did_close or ():
                self._publish(closed.uri, [])
        for content in cells.text_content or ():
            uri, version = content.document.uri, content.document.version
            parts = [_with_changes(part, version, content.changes) if part.uri == uri else part for part in parts]
        self._update(replace(document, parts=tuple(parts)))

    def close(self, uri: str) -> None:
        """The client closed a document: the file on disk applies again."""
        document = self._documents.pop(uri, None)
        if document is None:
            return
        self._found.pop(uri, None)
        self._changed.discard(uri)
        if (lint := self._lints.pop(uri, None)) is not None:
            lint.cancel()
        for part in document.parts:
            self._publish(part.uri, [])
        if not document.is_notebook:
            self._worker.submit(self._checker.put, document.path, None)
        self.lint_again()

    def configure(self, options: object) -> None:
        """Apply the client's settings `options`, with names in camel or kebab case."""
        if isinstance(options, dict):
            names = {name: re.sub("[A-Z]", lambda found: f"-{found.group().lower()}", str(name)) for name in options}
            given = {name: value for name, value in options.items() if value not in (None, "") and name not in _CLIENTS}
            table = {names[name]: value for name, value in given.items()}
            self._worker.submit(self._configure, table, asyncio.get_running_loop())

    def refresh(self) -> None:
        """Reread all files: some were created or deleted, or their settings changed."""
        self._worker.submit(self._checker.refresh)
        self.lint_again()

    def forget(self, path: str) -> None:
        """Drop the cached content of a file that changed on disk."""
        self._worker.submit(self._checker.forget, path)
        self.lint_again()

    def lint_again(self, besides: str = "") -> None:
        """Lint all documents but one: their imports, or their settings, may have changed."""
        for uri in self._documents:
            if uri != besides:
                self._lint_soon(uri, now=True)

    async def findings(self, uri: str) -> tuple[Document, list[Finding]] | None:
        """A document and its findings, once its latest text is linted; None if it is not open."""
        while (document := self._documents.get(uri)) is not None:
            serial, found = self._found.get(uri, (-1, []))
            if serial == document.serial:
                return document, found
            await asyncio.wait([self._lints.get(uri) or self._lint_soon(uri, now=True)])
        return None

    async def work(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """`function(*arguments)`, run in the linting thread."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    def holder(self, uri: str) -> str:
        """The document that contains a script or notebook cell."""
        held = (document.uri for document in self._documents.values() for part in document.parts if part.uri == uri)
        return next(held, uri)

    async def edit(self, wish: Wish) -> types.WorkspaceEdit | None:
        """The edit of the action `wish`; None if the document has changed since, or there is nothing to do."""
        found = await self.findings(wish.uri)
        if found is None or found[0].serial != wish.serial:
            return None
        document, findings = found
        after: bytes | None = None
        if wish.what == "all":
            after = await self.work(self._checker.repaired, document)
        elif 0 <= wish.index < len(findings):
            make = self._checker.fixed if wish.what == "fix" else self._checker.silenced
            after = await self.work(make, document, findings[wish.index])
        return None if after is None else document.edit(after)

    def show_message(self, message: str) -> None:
        """Show one line to the user, unless it repeats the last one."""
        if message != self._last_message:
            self._last_message = message
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"amplint: {one_line(message)}"))

    def _text(self, content: str) -> Text:
        return Text(content, types.PositionEncodingKind(self.workspace.position_encoding or "utf-16").value)

    def _configure(self, table: dict[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._checker.configure(table)
        except ConfigError as failure:
            loop.call_soon_threadsafe(self.show_message, str(failure))
        loop.call_soon_threadsafe(self.lint_again)

    def _update(self, document: Document, *, now: bool = False) -> None:
        self._serial += 1
        document = replace(document, serial=self._serial)
        self._documents[document.uri] = document
        if not document.is_notebook:
            self._worker.submit(self._checker.put, document.path, document.raw)
        self._changed.add(document.uri)
        self._lint_soon(document.uri, now=now)

    def _lint_soon(self, uri: str, *, now: bool = False) -> asyncio.Task[None]:
        """Lint a document after a pause in typing and, if it changed, then the other documents."""
        if (lint := self._lints.get(uri)) is not None:
            lint.cancel()
        self._found.pop(uri, None)
        self._lints[uri] = asyncio.get_running_loop().create_task(self._lint(uri, 0 if now else _IDLE_SECONDS))
        return self._lints[uri]

    async def _lint(self, uri: str, delay: float) -> None:
        await asyncio.sleep(delay)
        document = self._documents.get(uri)
        if document is None:
            return
        shown: list[list[types.Diagnostic]] = [[] for _ in document.parts]
        found: list[Finding] = []
        try:
            found, shown = await self.work(self._checked, document)
        except ConfigError as failure:
            self.show_message(str(failure))
        except Exception as failure:
            self.show_message(f"{document.path} could not be linted, please report it: {describe(failure)}")
        if self._documents.get(uri) is not document:
            return
        self._found[uri] = document.serial, found
        for part, diagnostics in zip(document.parts, shown, strict=True):
            self._publish(part.uri, diagnostics, part.version)
        if uri in self._changed:
            self._changed.remove(uri)
            self.lint_again(besides=uri)

    def _checked(self, document: Document) -> tuple[list[Finding], list[list[types.Diagnostic]]]:
        """The findings in a document, and the diagnostics of each part."""
        found = self._checker.check(document)
        inside = ([one for one in found if document.part(one.span) is part] for part in document.parts)
        return found, [[diagnostic(one, document, self.registry) for one in some] for some in inside]

    def _publish(self, uri: str, diagnostics: Sequence[types.Diagnostic], version: int | None = None) -> None:
        params = types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics, version=version)
        self.text_document_publish_diagnostics(params)


def _with_changes(part: Part, version: int, changes: Iterable[types.TextDocumentContentChangeEvent]) -> Part:
    text = part.text
    for change in changes:
        text = text.changed(change)
    return replace(part, version=version, text=text)
