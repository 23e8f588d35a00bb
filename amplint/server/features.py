"""The requests and notifications of the protocol that the server handles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from lsprotocol import types

from amplint.engine.diagnostics import ALWAYS_ON
from amplint.findings import Applicability, Finding
from amplint.rule import Registry
from amplint.server.documents import Document, path_of
from amplint.server.messages import diagnostic, hover
from amplint.server.server import Server, Wish

FIX_ALL = "source.fixAll.amplint"
_WATCHED = ("**/*.py", "**/pyproject.toml", "**/amplint.toml")
_SECTION = "amplint"
_ACTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL], resolve_provider=True)


def server(registry: Registry) -> Server:
    """A server that lints with the rules of `registry`."""
    made = Server(registry)
    _follow_documents(made)
    _follow_settings(made)
    _answer(made)
    return made


def _follow_documents(made: Server) -> None:
    @made.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        text = params.text_document
        made.open(text.uri, [(text.uri, text.version, text.text, True)])

    @made.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        made.close(params.text_document.uri)

    @made.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        if not _watches(made):
            made.refresh()

    @made.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def notebook_did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        texts = {text.uri: text for text in params.cell_text_documents}
        cells = [
            (text.uri, text.version, text.text, cell.kind == types.NotebookCellKind.Code)
            for cell in params.notebook_document.cells
            if (text := texts.get(cell.document)) is not None
        ]
        made.open(params.notebook_document.uri, cells, is_notebook=True)

    @made.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def notebook_did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        made.close(params.notebook_document.uri)


def _follow_settings(made: Server) -> None:
    @made.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        made.configure(made.options)
        if _watches(made):
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            kind = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration("amplint-files", kind, options)
            await made.client_register_capability_async(types.RegistrationParams([registration]))
        await ask_settings()

    @made.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        given = params.initialization_options
        made.options = given.get("settings", given) if isinstance(given, dict) else {}

    @made.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        if isinstance(params.settings, dict) and isinstance(params.settings.get(_SECTION), dict):
            made.configure(params.settings[_SECTION])
        else:
            await ask_settings()

    @made.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_watched_files(params: types.DidChangeWatchedFilesParams) -> None:
        for change in params.changes:
            path = path_of(change.uri)
            if change.type is not types.FileChangeType.Changed or path.endswith(".toml"):
                made.refresh()
                return
            made.forget(path)

    async def ask_settings() -> None:
        workspace = made.client_capabilities.workspace
        if workspace is not None and workspace.configuration:
            items = [types.ConfigurationItem(section=_SECTION)]
            answers = await made.workspace_configuration_async(types.ConfigurationParams(items))
            if answers and isinstance(answers[0], dict):
                made.configure(answers[0])

    @made.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        made.was_shut_down = True


def _answer(made: Server) -> None:
    @made.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(params: types.HoverParams) -> types.Hover | None:
        found = await made.findings(made.holder(params.text_document.uri))
        if found is None:
            return None
        document, findings = found
        place = types.Range(params.position, params.position)
        inside = list(_at(document, findings, params.text_document.uri, place))
        return hover(max(inside, key=lambda one: one[1].severity)[1], document, made.registry) if inside else None

    @made.feature(types.TEXT_DOCUMENT_CODE_ACTION, _ACTIONS)
    async def code_actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        uri = params.text_document.uri
        found = await made.findings(made.holder(uri))
        if found is None:
            return []
        document, findings = found
        offered = _offered(made, document, findings, uri, params)
        if not _resolves(made):
            for action in offered:
                if (wish := _wish(action.data)) is not None:
                    action.edit = await made.edit(wish)
            offered = [action for action in offered if action.edit is not None]
        return offered

    @made.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(action: types.CodeAction) -> types.CodeAction:
        if (wish := _wish(action.data)) is not None:
            action.edit = await made.edit(wish)
        return action


def _offered(
    made: Server, document: Document, findings: list[Finding], uri: str, params: types.CodeActionParams
) -> list[types.CodeAction]:
    """The actions for the findings in the range, without their edits."""
    only = params.context.only
    actions: list[types.CodeAction] = []

    def offer(title: str, kind: str, what: str, index: int = -1, *, preferred: bool = False) -> None:
        if only is None or any(kind == wanted or kind.startswith(f"{wanted}.") for wanted in only):
            data = asdict(Wish(document.uri, document.serial, what, index))
            about = [diagnostic(findings[index], document, made.registry)] if index >= 0 else None
            actions.append(types.CodeAction(title, kind, about, preferred or None, data=data))

    inside = list(_at(document, findings, uri, params.range))
    for index, finding in inside:
        if (fix := finding.fix) is not None:
            safe = fix.applicability is Applicability.SAFE
            doubt = "" if safe else " (unsafe: may change results)"
            offer(f"{finding.code}: {fix.message}{doubt}", types.CodeActionKind.QuickFix, "fix", index, preferred=safe)
    ignorable = {finding.code: index for index, finding in reversed(inside) if finding.code not in ALWAYS_ON}
    for code, index in sorted(ignorable.items()):
        offer(f"Ignore {code} on this line", types.CodeActionKind.QuickFix, "ignore", index)
    if any(finding.fix is not None for finding in findings):
        offer("amplint: fix everything that can be fixed safely", FIX_ALL, "all")
    return actions


def _at(document: Document, findings: list[Finding], uri: str, place: types.Range) -> Iterator[tuple[int, Finding]]:
    """The findings, with their numbers, on the lines of `place` in the part at `uri`."""
    for index, finding in enumerate(findings):
        part = document.part(finding.span)
        where = document.range(finding.span)
        if part is not None and part.uri == uri and _overlap(where, place):
            yield index, finding


def _overlap(one: types.Range, other: types.Range) -> bool:
    return one.start.line <= other.end.line and other.start.line <= one.end.line


def _watches(made: Server) -> bool:
    """Whether the client reports files changed outside of it."""
    workspace = made.client_capabilities.workspace
    watched = workspace.did_change_watched_files if workspace is not None else None
    return watched is not None and watched.dynamic_registration is True


def _resolves(made: Server) -> bool:
    """Whether the client requests the edit of an action when it is chosen."""
    text = made.client_capabilities.text_document
    actions = text.code_action if text is not None else None
    support = actions.resolve_support if actions is not None else None
    return support is not None and "edit" in support.properties


def _wish(data: Any) -> Wish | None:
    """The data of an action as returned by the client, None if it is malformed."""
    kinds = {"uri": str, "serial": int, "what": str, "index": int}
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        return None
    return Wish(**data) if all(isinstance(data[name], kind) for name, kind in kinds.items()) else None
