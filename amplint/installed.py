"""Entry points of installed packages, without `importlib.metadata`, whose import costs more than reading them all."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any

from amplint.records import dataclass

_FILE = "entry_points.txt"
_METADATA = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry point `name`: a module, or with a colon an attribute of it."""

    name: str
    value: str

    def load(self) -> Any:
        """The object. Raises whatever its import raises."""
        place = self.value.partition("[")[0].strip()
        module, _, attributes = place.partition(":")
        found: Any = importlib.import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group; of a package installed twice, those of the first on the search path."""
    if any(map(_is_unusual, sys.path)) or any(_finds_others(finder) for finder in sys.meta_path):
        from importlib.metadata import entry_points

        return [EntryPoint(entry.name, entry.value) for entry in entry_points(group=group)]
    found: dict[str, list[EntryPoint]] = {}
    for folder in dict.fromkeys(sys.path):
        for package, text in _texts(folder or os.curdir):
            found.setdefault(package, list(_listed(text, group)))
    return [entry for entries in found.values() for entry in entries]


def _is_unusual(place: str) -> bool:
    """Whether packages may be installed elsewhere than in a folder: in an archive or an egg."""
    return place.endswith(".egg") or os.path.isfile(place)


def _finds_others(finder: object) -> bool:
    """Whether an import hook provides packages that are in no folder."""
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _texts(folder: str) -> Iterator[tuple[str, str]]:
    """Each package in a folder, and the text of its list of entry points."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if not name.lower().endswith(_METADATA):
            continue
        package = name.partition("-")[0].removesuffix(".egg-info").replace(".", "_").lower()
        try:
            with open(os.path.join(folder, name, _FILE), encoding="utf-8") as file:
                yield package, file.read()
        except (OSError, UnicodeDecodeError):
            yield package, ""


def _listed(text: str, group: str) -> Iterator[EntryPoint]:
    """The entry points in a group of a list."""
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line[1:].partition("]")[0] == group
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield EntryPoint(name.strip(), value.strip())
