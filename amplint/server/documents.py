"""Open documents: scripts and notebooks as the client holds them, saved or not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from lsprotocol import types
from pygls import uris

from amplint.findings import Span
from amplint.notebooks.reading import SUFFIX, cells_of
from amplint.records import dataclass
from amplint.server.texts import Text
from amplint.source.encoding import SourceError, decode, encode

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True)
class Part:
    """A unit of editing: a script, or a notebook cell, which may hold no code."""

    uri: str
    version: int
    text: Text
    is_code: bool = True


@dataclass(frozen=True)
class Document:
    """A snapshot of a script, which has one part, or a notebook, whose parts are its cells.

    `path` is its location, or the one it would be saved at; `serial` grows with every change to any document.
    """

    uri: str
    path: str
    parts: tuple[Part, ...] = field(repr=False)
    is_notebook: bool
    serial: int

    @property
    def raw(self) -> bytes:
        """The content of the file once it is saved."""
        if not self.is_notebook:
            return _bytes(self.parts[0].text.content)
        cells: list[dict[str, Any]] = [
            {"cell_type": "code" if part.is_code else "markdown", "metadata": {}, "source": part.text.content}
            for part in self.parts
        ]
        return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()

    def part(self, span: Span) -> Part | None:
        """The part that contains `span`."""
        number = span.cell or 1
        return self.parts[number - 1] if number <= len(self.parts) else None

    def range(self, span: Span) -> types.Range:
        """`span` in the client's units."""
        part = self.part(span)
        if part is None:
            return types.Range(types.Position(0, 0), types.Position(0, 0))
        return types.Range(part.text.position(span.start), part.text.position(span.end))

    def edit(self, after: bytes) -> types.WorkspaceEdit | None:
        """The edit that changes the file to `after`; None if nothing changes or `after` cannot be decoded."""
        changes: list[types.TextDocumentEdit] = []
        for part, new in self._texts(after):
            if new != part.text.content:
                document = types.OptionalVersionedTextDocumentIdentifier(uri=part.uri, version=part.version)
                changes.append(types.TextDocumentEdit(document, part.text.edits(new)))
        return types.WorkspaceEdit(document_changes=changes) if changes else None

    def _texts(self, after: bytes) -> Iterable[tuple[Part, str]]:
        if self.is_notebook:
            cells = cells_of(self.path, after) or {}
            return [(self.parts[number - 1], source) for number, source in cells.items()]
        try:
            text = decode(after)[0]
        except SourceError:
            return []
        mark = _BYTE_ORDER_MARK if self.parts[0].text.content.startswith(_BYTE_ORDER_MARK) else ""
        return [(self.parts[0], mark + text)]


def path_of(uri: str, *, is_notebook: bool = False) -> str:
    """The absolute path of the document at `uri`; for an unsaved one, a path in the current folder."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    if path is None:
        name = "".join(letter if letter.isalnum() else "_" for letter in uri)[-100:]
        return os.path.abspath(name + (SUFFIX if is_notebook else ".py"))
    return os.path.normpath(path)


def _bytes(text: str) -> bytes:
    try:
        if text.startswith(_BYTE_ORDER_MARK):
            return encode(text[1:], "utf-8-sig")
        return encode(text)
    except SourceError:
        return text.encode("utf-8", "surrogatepass")
