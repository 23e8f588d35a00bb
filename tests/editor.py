"""An editor for tests of the language server: pygls' client over the streams of a real process, and what it shows."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient

TIMEOUT = 60


class Editor:
    """Keeps documents in step with a server, and the diagnostics that it sends."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.shown: dict[str, types.PublishDiagnosticsParams] = {}
        self.messages: list[str] = []
        self._news = asyncio.Event()

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: types.PublishDiagnosticsParams) -> None:
            self.shown[params.uri] = params
            self._news.set()

        @client.feature(types.WINDOW_SHOW_MESSAGE)
        def said(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)
            self._news.set()

    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return uris.from_fs_path(str(self.folder / name)) or ""

    def open(self, name: str, text: str | None = None) -> str:
        """Open a file, with another `text` than its own where one is given."""
        uri = self.uri(name)
        self.texts[uri] = (self.folder / name).read_text() if text is None else text
        self.versions[uri] = 1
        item = types.TextDocumentItem(uri, "python", 1, self.texts[uri])
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def type(self, uri: str, start: int, end: int, text: str) -> None:
        """Replace the characters from offset `start` to `end`."""
        before = self.texts[uri]
        self.texts[uri] = before[:start] + text + before[end:]
        place = types.Range(self.position(before, start), self.position(before, end))
        self._changed(uri, types.TextDocumentContentChangePartial(place, text))

    def replace(self, uri: str, text: str) -> None:
        """Replace the whole text."""
        self.texts[uri] = text
        self._changed(uri, types.TextDocumentContentChangeWholeDocument(text))

    def close(self, uri: str) -> None:
        """Close a document without saving it."""
        del self.texts[uri]
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    async def diagnostics(self, uri: str) -> Sequence[types.Diagnostic]:
        """What the server says of the latest text."""
        await self.until(lambda: uri in self.shown and self.shown[uri].version == self.versions.get(uri))
        return self.shown[uri].diagnostics

    def cpu_seconds(self) -> float:
        """What the server has used so far. Linux only."""
        process = self.client._server
        assert process is not None
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something that the server has sent makes `holds` true."""
        async with asyncio.timeout(TIMEOUT) if sys.version_info >= (3, 11) else _endless():
            while not holds():
                self._news.clear()
                await self._news.wait()

    async def actions(self, uri: str, row: int, only: list[str] | None = None) -> list[types.CodeAction]:
        """The code actions on a line, which counts from 1."""
        place = types.Range(types.Position(row - 1, 0), types.Position(row - 1, 0))
        context = types.CodeActionContext([], only=only)  # type: ignore[arg-type]
        document = types.TextDocumentIdentifier(uri)
        found = await self.client.text_document_code_action_async(types.CodeActionParams(document, place, context))
        return [action for action in found or [] if isinstance(action, types.CodeAction)]

    async def chosen(self, uri: str, row: int, title: str) -> types.CodeAction:
        """The one action on a line whose title holds `title`, with its edit."""
        (action,) = (action for action in await self.actions(uri, row) if title in action.title)
        return action if action.edit is not None else await self.client.code_action_resolve_async(action)

    def apply(self, edit: types.WorkspaceEdit | None) -> None:
        """Make the changes of `edit`, which must be about the present versions."""
        assert edit is not None
        for change in edit.document_changes or []:
            assert isinstance(change, types.TextDocumentEdit)
            uri = change.text_document.uri
            assert change.text_document.version == self.versions[uri]
            before = self.texts[uri]
            for one in reversed(change.edits):
                assert isinstance(one, types.TextEdit)
                start, end = (self.offset(before, place) for place in (one.range.start, one.range.end))
                self.type(uri, start, end, one.new_text)

    @staticmethod
    def position(text: str, offset: int) -> types.Position:
        """An offset as the protocol counts: in UTF-16."""
        rows = text[:offset].replace("\r\n", "\n").replace("\r", "\n").split("\n")
        return types.Position(len(rows) - 1, len(rows[-1].encode("utf-16-le", "surrogatepass")) // 2)

    @staticmethod
    def offset(text: str, place: types.Position) -> int:
        """A position in a text whose lines end with `\\n`, as an offset."""
        rows = text.split("\n")
        before = rows[place.line].encode("utf-16-le", "surrogatepass")[: 2 * place.character]
        return sum(len(row) + 1 for row in rows[: place.line]) + len(before.decode("utf-16-le", "surrogatepass"))

    def _changed(self, uri: str, change: types.TextDocumentContentChangeEvent) -> None:
        self.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))


def edit_in(
    folder: Path,
    work: Callable[[Editor], Awaitable[None]],
    options: dict[str, Any] | None = None,
    capabilities: types.ClientCapabilities | None = None,
) -> None:
    """Do `work` in an editor for `folder`, whose server ends well."""
    asyncio.run(_edit(folder, work, options, capabilities or types.ClientCapabilities()))


async def _edit(
    folder: Path,
    work: Callable[[Editor], Awaitable[None]],
    options: dict[str, Any] | None,
    capabilities: types.ClientCapabilities,
) -> None:
    async with _started(folder, options, capabilities) as editor:
        await work(editor)


@asynccontextmanager
async def _started(
    folder: Path, options: dict[str, Any] | None, capabilities: types.ClientCapabilities
) -> AsyncIterator[Editor]:
    client = LanguageClient("amplint-tests", "1")
    editor = Editor(client, folder)
    await client.start_io(sys.executable, "-m", "amplint", "server", cwd=str(folder), env=dict(os.environ))
    await client.initialize_async(
        types.InitializeParams(
            capabilities=capabilities,
            process_id=os.getpid(),
            root_uri=editor.uri(""),
            initialization_options=options,
        )
    )
    client.initialized(types.InitializedParams())
    yield editor
    await client.shutdown_async(None)
    client.exit(None)
    process = client._server
    assert process is not None
    await asyncio.wait_for(process.wait(), TIMEOUT)
    assert process.returncode == 0, process.returncode


@asynccontextmanager
async def _endless() -> AsyncIterator[None]:
    yield
