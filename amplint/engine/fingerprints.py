"""What tells a finding from others across versions of a file."""

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
    """One word of 32 hexadecimal digits for each of `findings`, all of them different.

    It stays the same while the rule, the file's path from the folder `root` (by default the current one) and the text
    of the line where the finding starts do, wherever that line moves; white space does not matter. Findings that agree
    in all of these are counted, in the order in which they are given. `line_text` is asked for the line of a file name,
    a row and the cell of a notebook, as `reports.context.Sources.line` answers, without its end and None where
    it cannot be read.
    """
    names: dict[str, str] = {}
    begun: dict[tuple[str, str, int, int | None], tuple[str, hashlib.blake2b]] = {}
    seen: Counter[str] = Counter()
    found = []
    for finding in findings:
        place = (finding.code, finding.filename, finding.span.start.row, finding.cell)
        if place not in begun:  # the line can be long, and hold many findings
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
    """`filename` with slashes, from the folder `root` on, the current one by default; absolute if it lies elsewhere."""
    path = os.path.abspath(filename)
    top = os.path.abspath(root or os.curdir)
    inside = os.path.relpath(path, top) if os.path.splitdrive(path)[0] == os.path.splitdrive(top)[0] else os.pardir
    return Path(path if inside.split(os.sep)[0] == os.pardir else inside).as_posix()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
