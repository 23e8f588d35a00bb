"""Converting what a file holds: bytes to bytes."""

from __future__ import annotations

from dataclasses import replace

from amplint.codemods import convert
from amplint.codemods.conversion import Conversion, Remark, Wish
from amplint.source.encoding import SourceError, decode, encode


def convert_bytes(raw: bytes, wish: Wish, path: str) -> tuple[Conversion, bytes]:
    """The conversion of a file and its new content, in the encoding that it had; any bytes can be handed in."""
    try:
        text, encoding = decode(raw)
    except SourceError as failure:
        return Conversion("", refused=(Remark(failure.position.row, failure.message),)), raw
    conversion = convert(text, wish, path)
    try:
        return conversion, encode(conversion.text, encoding) if conversion.text != text else raw
    except SourceError:
        refused = (Remark(1, f"the result cannot be written in {encoding}"),)
        return replace(conversion, text=text, done=(), refused=refused, left=()), raw
