"""The language server, driven by pygls' own client over the streams of a real process."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

import amplint
from tests.conftest import Command
from tests.editor import Editor, edit_in

TRAIN = """import torch
from torch.nn.utils import clip_grad_norm_


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
CLIP_ROW = 12
UNSCALED = TRAIN.replace("        clip_", "        scaler.unscale_(optimizer)\n        clip_")
HELPER = """import torch


def step(scaler, optimizer, model):
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
UNSCALED_HELPER = HELPER.replace("    torch.nn", "    scaler.unscale_(optimizer)\n    torch.nn")
IMPORTING = """import torch
from helper import step


def train(model, loader, optimizer):
    scaler = torch.amp.GradScaler("cuda")
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
        scaler.scale(loss).backward()
        step(scaler, optimizer, model)
"""
EDITS = int(os.environ.get("AMPLINT_EDITS", "150"))
SEED = int(os.environ.get("AMPLINT_SEED", "5"))
WATCHING = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True)
    )
)
RESOLVING = types.ClientCapabilities(
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            resolve_support=types.ClientCodeActionResolveOptions(properties=["edit"])
        )
    )
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a script."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def codes(diagnostics: Any) -> list[object]:
    """What is found, by its codes."""
    return [diagnostic.code for diagnostic in diagnostics]


def test_findings_come_and_go_while_the_text_changes(folder: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        (found,) = await editor.diagnostics(uri)
        assert found.code == "AMP205"
        assert found.severity is types.DiagnosticSeverity.Error
        assert found.range.start == types.Position(CLIP_ROW - 1, 8)
        assert found.source == "amplint"
        assert found.code_description is not None
        assert found.code_description.href.endswith("/AMP205")
        (step,) = found.related_information or []
        assert step.location.uri == uri
        assert step.location.range.start.line == CLIP_ROW - 2
        at = TRAIN.index("        clip_")
        editor.type(uri, at, at, "        scaler.unscale_(optimizer)\n")
        assert await editor.diagnostics(uri) == ()
        editor.type(uri, 0, 0, "def broken(:\n")
        assert codes(await editor.diagnostics(uri)) == ["AMP001"]
        editor.replace(uri, TRAIN)
        assert codes(await editor.diagnostics(uri)) == ["AMP205"]
        editor.close(uri)
        await editor.until(lambda: not editor.shown[uri].diagnostics)

    edit_in(folder, work)
    assert (folder / "train.py").read_text() == TRAIN


def test_an_unsaved_helper_counts(folder: Path) -> None:
    (folder / "helper.py").write_text(HELPER)
    (folder / "main.py").write_text(IMPORTING)

    async def work(editor: Editor) -> None:
        main = editor.open("main.py")
        assert codes(await editor.diagnostics(main)) == ["AMP205"]
        helper = editor.open("helper.py")
        await editor.diagnostics(helper)
        editor.replace(helper, UNSCALED_HELPER)
        await editor.until(lambda: not editor.shown[main].diagnostics)
        editor.close(helper)
        await editor.until(lambda: codes(editor.shown[main].diagnostics) == ["AMP205"])

    edit_in(folder, work)


def test_files_that_change_on_the_disk_count(folder: Path) -> None:
    (folder / "helper.py").write_text(HELPER)
    (folder / "main.py").write_text(IMPORTING)

    async def work(editor: Editor) -> None:
        registered = asyncio.Event()

        @editor.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            registered.set()

        def changed(name: str, kind: types.FileChangeType = types.FileChangeType.Changed) -> None:
            events = [types.FileEvent(editor.uri(name), kind)]
            editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(events))

        main = editor.open("main.py")
        await editor.diagnostics(main)
        (folder / "helper.py").write_text(UNSCALED_HELPER)
        changed("helper.py")
        await editor.until(lambda: not editor.shown[main].diagnostics)
        (folder / "helper.py").write_text(HELPER)
        changed("helper.py")
        await editor.until(lambda: bool(editor.shown[main].diagnostics))
        (folder / "amplint.toml").write_text('ignore = ["AMP205"]\n')
        changed("amplint.toml", types.FileChangeType.Created)
        await editor.until(lambda: not editor.shown[main].diagnostics)
        (folder / "amplint.toml").write_text("ignore = 5\n")
        changed("amplint.toml")
        await editor.until(lambda: bool(editor.messages))
        assert '"ignore" must be a list of strings' in editor.messages[-1]

    edit_in(folder, work, capabilities=WATCHING)


def test_a_page_to_hover_over(folder: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        document = types.TextDocumentIdentifier(uri)
        place = types.Position(CLIP_ROW - 1, 12)
        found = await editor.client.text_document_hover_async(types.HoverParams(document, place))
        assert found is not None
        assert isinstance(found.contents, types.MarkupContent)
        assert found.contents.value.startswith("**error** AMP205: gradients are clipped")
        assert "## Why is this bad?" in found.contents.value
        elsewhere = types.HoverParams(document, types.Position(0, 0))
        assert await editor.client.text_document_hover_async(elsewhere) is None

    edit_in(folder, work)


@pytest.mark.parametrize("capabilities", [None, RESOLVING], ids=["at once", "when chosen"])
def test_actions(folder: Path, capabilities: types.ClientCapabilities | None) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        offered = await editor.actions(uri, CLIP_ROW)
        assert all((action.edit is None) is (capabilities is not None) for action in offered)
        assert [action.is_preferred for action in offered] == [True, None, None]
        editor.apply((await editor.chosen(uri, CLIP_ROW, "Ignore AMP205")).edit)
        assert "clip_grad_norm_(model.parameters(), 1.0)  # amplint: ignore[AMP205]\n" in editor.texts[uri]
        assert await editor.diagnostics(uri) == ()
        editor.replace(uri, TRAIN)
        editor.apply((await editor.chosen(uri, CLIP_ROW, "AMP205: ")).edit)
        assert editor.texts[uri] == UNSCALED
        assert await editor.diagnostics(uri) == ()
        assert await editor.actions(uri, CLIP_ROW) == []

    edit_in(folder, work, capabilities=capabilities)


def test_an_action_for_an_older_text_does_nothing(folder: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        action = next(action for action in await editor.actions(uri, CLIP_ROW) if action.title.startswith("AMP205"))
        editor.type(uri, 0, 0, "\n\n\n")
        resolved = await editor.client.code_action_resolve_async(action)
        assert resolved.edit is None
        for data in (None, 5, {"uri": uri}, {**action.data, "index": "x"}, {**action.data, "index": 99}):
            strange = types.CodeAction("strange", data=data)
            assert (await editor.client.code_action_resolve_async(strange)).edit is None

    edit_in(folder, work, capabilities=RESOLVING)


def test_everything_fixed_is_what_the_command_makes(folder: Path, amplint: Command) -> None:
    example = (Path(__file__).parents[1] / "examples" / "train.py").read_text()
    (folder / "train.py").write_text(example)
    texts: list[str] = []

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        (action,) = await editor.actions(uri, 1, only=["source.fixAll"])
        assert action.kind == "source.fixAll.amplint"
        editor.apply(action.edit)
        texts.append(editor.texts[uri])

    edit_in(folder, work)
    amplint("--fix", str(folder / "train.py"))
    assert texts == [(folder / "train.py").read_text()]


def test_settings_of_the_client(folder: Path) -> None:
    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        assert await editor.diagnostics(uri) == ()
        change = types.DidChangeConfigurationParams(
            {"amplint": {"ignore": [], "minSeverity": "error", "command": ["x"]}}
        )
        editor.client.workspace_did_change_configuration(change)
        await editor.until(lambda: bool(editor.shown[uri].diagnostics))
        assert not editor.messages
        wrong = types.DidChangeConfigurationParams({"amplint": {"minSeverity": "bad", "extend": "other.toml"}})
        editor.client.workspace_did_change_configuration(wrong)
        await editor.until(lambda: bool(editor.messages))
        assert '"bad" is not a severity' in editor.messages[-1]

    edit_in(folder, work, options={"settings": {"ignore": ["AMP205"]}})


def test_excluded_files_are_left_alone(folder: Path) -> None:
    (folder / "amplint.toml").write_text('exclude = ["vendor/"]\n')
    (folder / "vendor").mkdir()

    async def work(editor: Editor) -> None:
        assert await editor.diagnostics(editor.open("vendor/train.py", TRAIN)) == ()
        assert codes(await editor.diagnostics(editor.open("other.py", TRAIN))) == ["AMP205"]

    edit_in(folder, work)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_columns_and_lines_are_those_of_the_client(folder: Path, end: str) -> None:
    odd = TRAIN.replace("        clip_", "        # \x0c \u2028 \x85 \U0001f525\n        '\U0001f525 \u2028'; clip_")
    odd = odd.replace("\n", end)

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py", odd)
        (found,) = await editor.diagnostics(uri)
        assert found.range.start == types.Position(CLIP_ROW, 16)
        at = odd.index("; clip_")
        editor.type(uri, at, at, "\U0001f525" * 3 + "'")
        editor.type(uri, at, at + 7, "; scaler.unscale_(optimizer)")
        editor.replace(uri, odd)
        editor.type(uri, at, at, "; scaler.unscale_(optimizer)")
        assert await editor.diagnostics(uri) == ()

    edit_in(folder, work)


def test_a_notebook(folder: Path) -> None:
    cells = ["import torch\nfrom torch.nn.utils import clip_grad_norm_", "# A title", TRAIN.partition("\n\n\n")[2]]
    kinds = [types.NotebookCellKind.Code, types.NotebookCellKind.Markup, types.NotebookCellKind.Code]

    async def work(editor: Editor) -> None:
        notebook = editor.uri("train.ipynb")
        uris = [f"vscode-notebook-cell:train.ipynb#{number}" for number in range(len(cells))]
        items = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, cells, strict=True)]
        shown = [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, uris, strict=True)]
        opened = types.NotebookDocument(notebook, "jupyter-notebook", 1, shown)
        editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(opened, items))
        for uri, text in zip(uris, cells, strict=True):
            editor.texts[uri], editor.versions[uri] = text, 1
        (found,) = await editor.diagnostics(uris[2])
        assert found.range.start == types.Position(CLIP_ROW - 5, 8)
        assert await editor.diagnostics(uris[0]) == ()
        action = await editor.chosen(uris[2], CLIP_ROW - 4, "AMP205: ")
        assert action.edit is not None
        (change,) = action.edit.document_changes or []
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.uri == uris[2]

        fresh = types.TextDocumentItem("vscode-notebook-cell:train.ipynb#9", "python", 1, "clip_grad_norm_ = print\n")
        put = types.NotebookCell(types.NotebookCellKind.Code, fresh.uri)
        structure = types.NotebookDocumentCellChangeStructure(
            types.NotebookCellArrayChange(1, 1, [put]), [fresh], [types.TextDocumentIdentifier(uris[1])]
        )
        version = types.VersionedNotebookDocumentIdentifier(2, notebook)
        event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(structure))
        editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(version, event))
        await editor.until(lambda: not editor.shown[uris[2]].diagnostics)

        everything = types.TextDocumentContentChangeWholeDocument("pass\n")
        content = types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(2, fresh.uri), [everything]
        )
        event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[content]))
        editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(version, event))
        await editor.until(lambda: codes(editor.shown[uris[2]].diagnostics) == ["AMP205"])
        gone = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(notebook), [])
        editor.client.notebook_document_did_close(gone)
        await editor.until(lambda: not editor.shown[uris[2]].diagnostics)

    edit_in(folder, work)


def test_text_of_strangers_is_only_text(folder: Path) -> None:
    evil = TRAIN.replace("train(model", "train(model, evil='\x1b[31m<img src=x>'")

    async def work(editor: Editor) -> None:
        for name, text in (("evil.py", evil), ("<b>.py", TRAIN), ("nul.py", "\0"), ("lone.py", "x = '\ud800'\n")):
            for diagnostic in await editor.diagnostics(editor.open(name, text)):
                assert diagnostic.message.replace("\n", "").isprintable()

    edit_in(folder, work)


SNIPPETS = (
    *("x", " ", "\n", "\t", "(", ")", '"', "'", "#", ":", "\\", "é", "\U0001f525", "\x0c", "\u2028", "\r\n", "\r"),
    *("    ", "scaler.unscale_(optimizer)\n", "with torch.no_grad():\n", "if x:\n        ", "import torch\n"),
    *("# amplint: ignore\n", "# coding: latin-1\n", "scaler.update()\n", "\0", "f'{x!r:>{y}}'", "lambda: ", "%magic\n"),
)


def test_random_edits_leave_no_stale_diagnostic(folder: Path) -> None:
    """AMPLINT_EDITS is how many edits there are, AMPLINT_SEED where the random numbers begin."""
    chance = random.Random(SEED)

    async def work(editor: Editor) -> None:
        uri = editor.open("train.py")
        done = 0
        while done < EDITS:
            for _ in range(chance.randint(1, 12)):
                text = editor.texts[uri]
                if chance.random() < 0.1:
                    editor.replace(uri, TRAIN)
                    continue
                start = chance.randint(0, len(text))
                end = min(len(text), start + chance.choice((0, 0, 0, 1, 3, 20)))
                if text[start - 1 : start + 1] != "\r\n" and text[end - 1 : end + 1] != "\r\n":
                    editor.type(uri, start, end, chance.choice(SNIPPETS))
                done += 1
                if chance.random() < 0.05:
                    await editor.actions(uri, chance.randint(1, 20))
            shown = await editor.diagnostics(uri)
            text = editor.texts[uri]
            wanted = amplint.check(text, filename=str(folder / "train.py"))
            assert not editor.messages, (editor.messages, text)
            assert codes(shown) == [finding.code for finding in wanted], text
            rows = [finding.span.start.row - 1 for finding in wanted]
            assert [diagnostic.range.start.line for diagnostic in shown] == rows, text

    edit_in(folder, work)


def test_without_pygls_one_line_says_what_is_missing(amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    result = amplint("server")
    assert result.status == 2
    assert result.err == 'Error: amplint server needs pygls: pip install "amplint[server]"\n'
