"""The parts of f-strings: `ast` has no positions for their text, and wrong ones before Python 3.12."""

from __future__ import annotations

from typing import NamedTuple

from amplint.regex import regex

_PREFIX = regex(r"(?:\W|^)([rRbBuUfF]{1,2})\Z")
_STOP = regex(r"[\"'#()\[\]{}!:=]")
_CONVERSION = regex(r"[ \t\f\r\n]*!([rsa])[ \t\f\r\n]*")
_SHOWS = regex(r"=[ \t\f\r\n]*(?=[!:}])")
_NAMED = regex(r"\\N\{[^}\"']*\}")


class Literal(NamedTuple):
    """Text from `start` to `end`."""

    start: int
    end: int


class Field(NamedTuple):
    """A replacement field: the expression from `start` to `end`, the braces from `opened` to `closed`."""

    opened: int
    start: int
    end: int
    conversion: str | None
    spec: list[Literal | Field] | None
    closed: int


def scan(text: str, start: int, quote: str, raw: bool, inside: bool = False) -> tuple[list[Literal | Field], int]:
    """The parts of an f-string whose text begins at `start`, and the offset after its closing `quote`.

    With `inside` it is a field's format spec, up to the brace that closes the field.
    """
    parts: list[Literal | Field] = []
    place = begun = start
    while place < len(text):
        sign = text[place]
        if text.startswith(quote, place) or (inside and sign == "}"):
            break
        if sign == "\\":
            named = None if raw else _NAMED.match(text, place)
            place = named.end() if named else place + (1 if text[place + 1 : place + 2] in "{}" else 2)
        elif text.startswith(("{{", "}}"), place) and not inside:
            place += 2
        elif sign == "{":
            if begun < place:
                parts.append(Literal(begun, place))
            field = _field(text, place, quote, raw)
            parts.append(field)
            place = begun = field.closed
        else:
            place += 1
    if begun < place:
        parts.append(Literal(begun, place))
    return parts, place + (0 if inside else len(quote))


def _field(text: str, opened: int, quote: str, raw: bool) -> Field:
    place, depth = opened + 1, 0
    conversion: str | None = None
    end = -1
    while True:
        found = _STOP.search(text, place)
        if found is None:
            return Field(opened, opened + 1, len(text), None, None, len(text))
        sign, place = found.group(), found.start()
        if sign in "\"'":
            place = _skip(text, place)
        elif sign == "#":
            place = _line_end(text, place)
        elif sign in "([{":
            place, depth = place + 1, depth + 1
        elif depth and sign in ")]}":
            place, depth = place + 1, depth - 1
        elif depth or sign in ")]":
            place += 1
        elif sign == "=" and text[place - 1] not in "=!<>" and (shown := _SHOWS.match(text, place)):
            end = place
            place = shown.end()
            break
        elif sign == "=" or text.startswith("!=", place):
            place += 2 if sign == "!" else 1
        else:
            break
    if end < 0:
        end = place
    converted = _CONVERSION.match(text, place)
    if converted:
        conversion, place = converted.group(1), converted.end()
    spec = None
    if text[place : place + 1] == ":":
        spec, place = scan(text, place + 1, quote, raw, inside=True)
    start = opened + 1
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return Field(opened, start, end, conversion, spec, place + 1)


def _skip(text: str, place: int) -> int:
    """The offset after the string whose quote is at `place`."""
    opening = _PREFIX.search(text, max(0, place - 3), place)
    prefix = opening.group(1).lower() if opening else ""
    quote = text[place] * 3 if text.startswith(text[place] * 3, place) else text[place]
    place += len(quote)
    if "f" in prefix:
        return scan(text, place, quote, "r" in prefix)[1]
    while place < len(text) and not text.startswith(quote, place):
        place += 2 if text[place] == "\\" else 1
    return place + len(quote)


def _line_end(text: str, place: int) -> int:
    while place < len(text) and text[place] not in "\r\n":
        place += 1
    return place
