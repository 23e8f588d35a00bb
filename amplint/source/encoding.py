"""Decoding and encoding of Python files."""

from __future__ import annotations

import io
import tokenize

from amplint.findings import Position


class SourceError(Exception):
    """The file cannot be analysed; `position` is the place, the start of the file if it is unknown."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position or Position(1, 1)


def decode(raw: bytes) -> tuple[str, str]:
    """The text of a Python file and the name of its encoding, by PEP 263.

    A byte order mark is dropped and the encoding then is `utf-8-sig`, so that encoding the text again restores it.
    Raises SourceError for undecodable bytes, NUL bytes, and an encoding that is unknown or no text encoding.
    """
    if b"\0" in raw:
        row = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise SourceError("the file contains NUL bytes; Python cannot run it", Position(row, 1))
    encoding = _declared(raw)
    try:
        return raw.decode(encoding), encoding
    except UnicodeDecodeError as failure:
        row = raw.count(b"\n", 0, failure.start) + 1
        raise SourceError(f"the bytes are not valid {failure.encoding}", Position(row, 1)) from None
    except (LookupError, ValueError) as failure:
        raise SourceError(f"the text cannot be decoded: {failure}") from None


def encode(text: str, encoding: str | None = None) -> bytes:
    """The bytes of a Python file with this text, in `encoding` or else the one that it declares. Raises SourceError."""
    name = encoding or _declared(text.encode(errors="surrogatepass"))
    try:
        return text.encode(name)
    except (LookupError, ValueError) as failure:
        row = text.count("\n", 0, failure.start) + 1 if isinstance(failure, UnicodeEncodeError) else 1
        raise SourceError(f"the text cannot be written in {name}", Position(row, 1)) from None


def rewritten(raw: bytes, text: str) -> bytes | None:
    """The Python file `raw` with another `text`; None if it cannot be written in the encoding of the file.

    Python accepts codecs that decode different bytes to the same text, such as `unicode_escape` and `utf-7`. Rewriting
    would lose the original spelling, so such files are not rewritten, nor texts that decode differently.
    """
    try:
        before, encoding = decode(raw)
        after = encode(text, encoding)
        return after if encode(before, encoding) == raw and decode(after) == (text, encoding) else None
    except SourceError:
        return None


def shown_text(raw: bytes) -> str:
    """The text of a Python file for display: undecodable bytes are replaced."""
    try:
        return decode(raw)[0]
    except SourceError:
        return raw.decode(errors="replace")


def _declared(raw: bytes) -> str:
    """The name of the encoding by the byte order mark and the first two lines. Raises SourceError."""
    try:
        return tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
    except SyntaxError as failure:
        raise SourceError(f"the text cannot be decoded: {failure.msg}") from None
