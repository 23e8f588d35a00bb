"""Short, unambiguous file names for a page read elsewhere."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

from amplint.trace.packages import package_path


def labels(filenames: Iterable[str]) -> dict[str, str]:
    """A label for each file: relative to the current folder, to its package's, or to the others' common folder.

    Files whose labels would collide keep their absolute paths.
    """
    paths = {name: os.path.normpath(name) for name in filenames if name}
    own = [path for path in paths.values() if _inside(path) is None and not package_path(path)]
    folder = os.path.commonpath([os.path.dirname(path) for path in own]) if own and all(map(os.path.isabs, own)) else ""
    found = {name: _label(path, folder) for name, path in paths.items()}
    times = Counter(found.values())
    return {name: label if times[label] == 1 else paths[name] for name, label in found.items()}


def _label(path: str, folder: str) -> str:
    inside = _inside(path)
    if inside is not None:
        return inside
    if package_path(path):
        return package_path(path)
    return os.path.relpath(path, folder) if folder else path


def _inside(path: str) -> str | None:
    """`path` relative to the current folder, None if it is outside."""
    relative = os.path.relpath(path)
    return None if relative.split(os.sep)[0] == os.pardir else relative
