"""The texts of the values that a file assigns to its names."""

from __future__ import annotations

from amplint.regex import regex
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source

_GIVEN = regex(r"(?m)^[ \t]*((?:[\w.]+,[ \t]*)*[\w.]+)[ \t]*(?::[^=\n]+)?=(?!=)[ \t]*([^\n]+)")
"""A statement or an argument on a line of its own: the targets, and the value."""
_PASSED = regex(r"[(,][ \t]*(\w+)=([A-Za-z_][\w.]*)[ \t]*(?=[,)])")
"""A keyword argument, or a default, within a line that is a name."""
_RETURNED = regex(r"(?m)^[ \t]*(?:def (\w+)\(|return\b[ \t]*([^\n]+))")


@cached_per_file
def assigned_texts(source: Source) -> dict[str, list[str]]:
    """Variable, attribute, keyword or function -> the values that `source` assigns to it or it returns."""
    found: dict[str, list[str]] = {}
    for targets, value in _GIVEN.findall(source.text):
        for target in targets.split(","):
            last = target.rpartition(".")[2].strip()
            found.setdefault(target.strip(), []).append(value)
            if value.strip() != last:
                found.setdefault(last, []).append(value)
    function = ""
    for name, value in _RETURNED.findall(source.text):
        function = name or function
        if value:
            found.setdefault(function, []).append(value)
    return found


@cached_per_file
def passed_names(source: Source) -> dict[str, list[str]]:
    """Keyword -> the names that calls of `source` pass for it."""
    found: dict[str, list[str]] = {}
    for keyword, name in _PASSED.findall(source.text):
        found.setdefault(keyword, []).append(name)
    return found
