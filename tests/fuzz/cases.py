"""Files made at random: each way takes numbers and gives the bytes of a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from benchmarks.doublings import SHAPES
from tests.chance import Numbers
from tests.fuzz.corpus import pick
from tests.fuzz.trees import mutant, pared

Way = Callable[[Numbers], bytes]

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_ODD = (
    *(
        "é",
        "\ufb01",
        "\U0001d431",
        "\u202e",
        "\u2028",
        "\x0c",
        "\x1b[31m",
        "\0",
        "\\",
        "'''",
        'f"{',
        "}",
        "(",
        "]",
        "#",
        ":",
        ":=",
        "@",
    ),
    *("lambda: ", "await ", "yield ", "async ", "match ", "*", "**", "...", "0x_f", "1e999", "1_000", "b'\\xff'", ";"),
    *("# noqa: AMP", "# amplint: ignore[", "::error::x", "##[error]", "%time ", "!ls", "print x", "exec 'a'", "<>"),
)
_COOKIES = (
    *(
        "utf-8",
        "latin-1",
        "cp1252",
        "euc-jp",
        "rot13",
        "hex",
        "zlib",
        "punycode",
        "undefined",
        "utf_16",
        "utf-7",
        "none",
    ),
    *("unicode_escape", "idna", "base64", "quopri", "uu", "shift_jis", "mbcs", "ascii", "big5"),
)
_MAGICS = ("%time x = 1", "%%time", "%%bash", "!ls -l", "!!ls", "?x", "x?", "x??", "%load_ext a", "%matplotlib inline")
_ENDS = ("\n", "\r\n", "\r", "\n\r", "\x0c\n", "\u2028", "\x85", "")


def flipped(numbers: Numbers) -> bytes:
    """Bytes that are changed, left out, doubled or put in."""
    raw = bytearray(pick(numbers).encode())
    for _ in range(1 + numbers(7)):
        if not raw:
            break
        at = numbers(len(raw) - 1)
        kind = numbers(3)
        if kind == 0:
            raw[at] = numbers(255)
        elif kind == 1:
            del raw[at : at + 1 + numbers(40)]
        elif kind == 2:
            raw[at:at] = raw[max(0, at - numbers(200)) : at]
        else:
            raw[at:at] = bytes(numbers(255) for _ in range(1 + numbers(3)))
    return bytes(raw)


def tokens(numbers: Numbers) -> bytes:
    """Tokens that are left out, doubled, exchanged or replaced."""
    found = _TOKEN.findall(pick(numbers))
    for _ in range(1 + numbers(7)):
        at = numbers(len(found) - 1)
        other = numbers(len(found) - 1)
        kind = numbers(4)
        if kind == 0:
            found[at] = ""
        elif kind == 1:
            found[at] += found[at]
        elif kind == 2:
            found[at], found[other] = found[other], found[at]
        elif kind == 3:
            found[at] = found[other]
        else:
            found[at] = _ODD[numbers(len(_ODD) - 1)]
    return "".join(found).encode(errors="surrogatepass")


def lines(numbers: Numbers) -> bytes:
    """Lines that are moved, left out, doubled, indented or taken from another file."""
    found = pick(numbers).splitlines(keepends=True)
    others = pick(numbers).splitlines(keepends=True)
    for _ in range(1 + numbers(7)):
        at = numbers(len(found) - 1)
        kind = numbers(5)
        if kind == 0 and len(found) > 1:
            del found[at]
        elif kind == 1:
            found.insert(numbers(len(found)), found[at])
        elif kind == 2:
            found[at] = ("    ", "\t", " ", "\x0c", "  \t")[numbers(4)] + found[at]
        elif kind == 3:
            found[at] = found[at].removeprefix("    ")
        elif kind == 4:
            found[at:at] = others[(start := numbers(len(others) - 1)) : start + 1 + numbers(9)]
        else:
            found[at] = found[at].rstrip("\n") + _ODD[numbers(len(_ODD) - 1)] + "\n"
    return "".join(found).encode(errors="surrogatepass")


def encodings(numbers: Numbers) -> bytes:
    """Byte order marks, declarations of encodings that are right or wrong, and other ends of lines."""
    text = pick(numbers).replace("\n", _ENDS[numbers(len(_ENDS) - 1)])
    cookie = _COOKIES[numbers(len(_COOKIES) - 1)]
    head = (
        "",
        f"# coding: {cookie}\n",
        f"#!/usr/bin/python\n# -*- coding: {cookie} -*-\n",
        f"\n\n# coding: {cookie}\n",
    )
    mark = (b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")[numbers(4)]
    written = ("utf-8", cookie, "utf-16", "latin-1", "utf-8-sig")[numbers(4)]
    whole = head[numbers(3)] + text + ("x = 1  # noqa: AMP205 é\n" if numbers(1) else "")
    try:
        return mark + whole.encode(written)
    except (LookupError, ValueError):
        return mark + whole.encode()


def trees(numbers: Numbers) -> bytes:
    """A program whose tree has been changed; it is always one that Python can parse."""
    return mutant(pick(numbers), pick(numbers), numbers).encode()


def pieces(numbers: Numbers) -> bytes:
    """A program whose calls, displays, targets, parameters and literals have been changed; Python can parse it."""
    return pared(pick(numbers), numbers).encode(errors="surrogatepass")


def notebooks(numbers: Numbers) -> bytes:
    """A program in cells, with magics, cells of other kinds and keys that are missing or wrong in a few places."""
    rest = pick(numbers).splitlines(keepends=True)
    cells: list[dict[str, object]] = []
    while rest:
        size = 1 + numbers(29)
        taken, rest = rest[:size], rest[size:]
        if numbers(9) == 0:
            taken.insert(numbers(len(taken)), _MAGICS[numbers(len(_MAGICS) - 1)] + "\n")
        source: object = "".join(taken) if numbers(1) else taken
        kind = ("code", "code", "code", "code", "markdown", "raw", "")[numbers(6)]
        cells.append({"cell_type": kind, "metadata": {}, "outputs": [], "execution_count": None, "source": source})
    page: dict[str, object] = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": numbers(5)}
    for _ in range(numbers(2)):
        place = page if numbers(3) == 0 else cells[numbers(len(cells) - 1)]
        key = list(place)[numbers(len(place) - 1)] if place else "id"
        if numbers(2) == 0:
            place.pop(key, None)
        else:
            place[key] = (None, 1, "", [], {}, [None], ["x\n", 1], "\x1b[31m", True)[numbers(8)]
    raw = json.dumps(page, indent=numbers(2) or None, ensure_ascii=bool(numbers(1))).encode(errors="surrogatepass")
    if numbers(9) == 0:
        at = numbers(len(raw) - 1)
        raw = raw[:at] + bytes([numbers(255)]) + raw[at + numbers(30) :]
    return raw


def shapes(numbers: Numbers) -> bytes:
    """Much of one thing."""
    names = list(SHAPES)
    shape = SHAPES[names[numbers(len(names) - 1)]]
    return shape.text(1 + numbers(4 * shape.first)).encode(errors="surrogatepass")


WAYS: dict[str, Way] = {
    "bytes": flipped,
    "tokens": tokens,
    "lines": lines,
    "encodings": encodings,
    "trees": trees,
    "pieces": pieces,
    "shapes": shapes,
}
