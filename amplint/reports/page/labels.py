"""Names of files for a page that is read elsewhere: short, and each of one file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from amplint.trace.packages import packaged


def labels(filenames: Iterable[str]) -> dict[str, str]:
    """A label for each file: from the current folder on, from its package's, or from the folder that the rest share.

    Where two files come to the same label they keep their whole paths.
    """
    paths = {name: os.path.normpath(name) for name in filenames if name}
    own = [path for path in paths.values() if _inside(path) is None and not packaged(path)]
    folder = os.path.commonpath([os.path.dirname(path) for path in own]) if own and all(map(os.path.isabs, own)) else ""
    found = {name: _label(path, folder) for name, path in paths.items()}
    times = Counter(found.values())
    return {name: label if times[label] == 1 else paths[name] for name, label in found.items()}


def _label(path: str, folder: str) -> str:
    inside = _inside(path)
    if inside is not None:
        return inside
    if packaged(path):
        return packaged(path)
    return os.path.relpath(path, folder) if folder else path


def _inside(path: str) -> str | None:
    """`path` from the current folder on, None where it does not lie in it."""
    relative = os.path.relpath(path)
    return None if relative.split(os.sep)[0] == os.pardir else relative
