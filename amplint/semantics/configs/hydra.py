"""Hydra's composition of the files in a folder: a primary file, and those in its defaults list."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from amplint.regex import regex
from amplint.semantics.configs.display import Reader, get
from amplint.semantics.values.values import NONE, Const, Items, Unknown, Value
from amplint.source.configs.file import ConfigFile

DEFAULTS, SELF = "defaults", "_self_"
_PACKAGE = regex(r"#\s*@package\s+(\S+)")
_GLOBAL = frozenset({"_global_", "_here_"})
_DEEPEST = 5

Load = Callable[[str], "ConfigFile | None"]


class Hydra:
    """Composes files of the folder `root`, which `load` reads by their paths."""

    def __init__(self, load: Load, reader: Reader, root: str) -> None:
        self._load = load
        self._reader = reader
        self._root = root

    def composed(self, name: str) -> Items | None:
        """The settings of the primary file `name`; None if not all of them are known."""
        made = self._composed(name, "", 0)
        whole = self._reader.resolved(made[1]) if made is not None else None
        return whole if isinstance(whole, Items) else None

    def _composed(self, name: str, group: str, depth: int) -> tuple[str, Items] | None:
        """The package and the settings of a file of a group."""
        stem = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
        file = self._load(posixpath.join(self._root, group, stem)) if depth < _DEEPEST else None
        value = self._reader.value(file.root) if file is not None else None
        if file is None or not isinstance(value, Items) or value.keys is None:
            return None
        own = _without(value, DEFAULTS)
        entries = get(value, DEFAULTS)
        result, met_self = Items((), ()), False
        for entry in entries.values if isinstance(entries, Items) else ():
            if entry == Const(SELF):
                result, met_self = merged(result, own), True
                continue
            part = self._entry(entry, group, depth)
            if part is None:
                return None
            result = merged(result, part)
        if not met_self:
            if _overlaps(result, own):
                return None  # the precedence depends on the version of Hydra
            result = merged(result, own)
        package = _PACKAGE.search(file.text.lstrip()[:200])
        return (package[1] if package is not None else group.replace("/", ".")), result

    def _entry(self, entry: Value, group: str, depth: int) -> Items | None:
        """The settings that one entry of a defaults list adds."""
        if isinstance(entry, Const) and isinstance(entry.value, str):
            inner = "" if entry.value.startswith("/") else group
            return self._placed(entry.value.removeprefix("/"), inner, None, depth)
        if not isinstance(entry, Items) or entry.keys is None or len(entry.keys) != 1:
            return None
        key, chosen = entry.keys[0], entry.values[0]
        if not isinstance(key, Const) or not isinstance(key.value, str):
            return None
        words = key.value.split()
        if "override" in words[:-1] or chosen == NONE:
            return Items((), ())
        named, _, package = words[-1].partition("@")
        if isinstance(chosen, Unknown):
            return Items((), ())  # the command line has to choose
        if not isinstance(chosen, Const) or not isinstance(chosen.value, str):
            return None
        inner = named[1:] if named.startswith("/") else posixpath.join(group, named)
        found = self._placed(chosen.value, inner, package or None, depth)
        return Items((), ()) if found is None and "optional" in words else found

    def _placed(self, name: str, group: str, package: str | None, depth: int) -> Items | None:
        made = self._composed(name, group, depth + 1)
        if made is None:
            return None
        where = package if package is not None else made[0]
        result = made[1]
        for part in reversed([part for part in where.split(".") if part] if where not in _GLOBAL else []):
            result = Items((result,), (Const(part),))
        return result


def merged(first: Items, second: Items) -> Items:
    """The merge of both dictionaries, in which the second one takes precedence."""
    table = dict(_pairs(first))
    for key, value in _pairs(second):
        known = table.get(key)
        both = isinstance(known, Items) and isinstance(value, Items)
        if both and known.keys is not None and value.keys is not None:  # type: ignore[union-attr]
            table[key] = merged(known, value)  # type: ignore[arg-type]
        else:
            table[key] = value
    return Items(tuple(table.values()), tuple(table))


def _pairs(settings: Items) -> Iterator[tuple[Value, Value]]:
    return zip(settings.keys or (), settings.values, strict=bool(settings.keys))


def _without(settings: Items, name: str) -> Items:
    kept = [(key, value) for key, value in _pairs(settings) if key != Const(name)]
    return Items(tuple(value for _, value in kept), tuple(key for key, _ in kept))


def _overlaps(first: Items, second: Items) -> bool:
    table = dict(_pairs(first))
    for key, value in _pairs(second):
        known = table.get(key)
        if isinstance(known, Items) and isinstance(value, Items):
            if _overlaps(known, value):
                return True
        elif known is not None and known != value:
            return True
    return False
