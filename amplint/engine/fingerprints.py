"""Fingerprints: identifiers of findings that are stable across versions of a file."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from amplint.findings import Finding

_DIGEST_BYTES = 16


def fingerprints(
    findings: Sequence[Finding], line_text: Callable[[str, int, int | None], str | None], root: str | None = None
) -> list[str]:
    """A distinct identifier of 32 hexadecimal digits for each of `findings`.

    It is a function of the rule, the file's path relative to `root` (default: the current folder) and the text of the
    line where the finding starts, ignoring white space: it survives moving the line. Findings equal in all of these are
    numbered in the given order. `line_text(filename, row, cell)` returns a line without its line break, None if it
    cannot be read, as `reports.context.Sources.line` does.
    """
    names: dict[str, str] = {}
    begun: dict[tuple[str, str, int, int | None], tuple[str, hashlib.blake2b]] = {}
    seen: Counter[str] = Counter()
    found = []
    for finding in findings:
        place = (finding.code, finding.filename, finding.span.start.row, finding.cell)
        if place not in begun:  # the line can be long and hold many findings
            if finding.filename not in names:
                names[finding.filename] = from_root(finding.filename, root)
            line = " ".join((line_text(*place[1:]) or "").split())
            content = "\0".join([finding.code, names[finding.filename], line])
            begun[place] = content, hashlib.blake2b(_bytes(content), digest_size=_DIGEST_BYTES)
        content, digest = begun[place]
        digest = digest.copy()
        digest.update(_bytes(f"\0{seen[content]}"))
        found.append(digest.hexdigest())
        seen[content] += 1
    return found


def from_root(filename: str, root: str | None = None) -> str:
    """`filename` relative to `root` (default: the current folder), with slashes; absolute if it lies outside."""
    path = os.path.abspath(filename)
    top = os.path.abspath(root or os.curdir)
    inside = os.path.relpath(path, top) if os.path.splitdrive(path)[0] == os.path.splitdrive(top)[0] else os.pardir
    return Path(path if inside.split(os.sep)[0] == os.pardir else inside).as_posix()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
