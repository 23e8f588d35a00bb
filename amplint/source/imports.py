"""A file's imports and top-level bindings, read from its text without parsing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from amplint.records import dataclass
from amplint.regex import regex

_STATEMENT = regex(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]*)[ \t]*import[ \t]*"
    r"(?P<names>\([^()#]*(?:#[^\n]*\n[^()#]*){0,999}\)|(?:[^\\\n;#]|\\\r?\n)*)|import[ \t]+(?P<modules>[^\n;#]+))",
    re.MULTILINE,
)
_COMMENT = regex(r"#[^\n]*")
_DEFINED = regex(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)
_ASSIGNED = regex(r"^([A-Za-z_]\w*)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Import:
    """A name bound by an import: `bound` refers to `name` of `module`, or to the module if `name` is empty.

    For `from module import *` both are `*`; `import a.b` yields two, bound to `a.b` and to `a`. Relative modules begin
    with their dots.
    """

    module: str
    name: str
    bound: str


def imports(text: str) -> Iterator[Import]:
    """The imports anywhere in `text`, lookalikes in strings included."""
    for found in _STATEMENT.finditer(text):
        module, names, modules = found["module"], found["names"], found["modules"]
        if names is not None:
            for name, bound in _aliases(names.strip("() \t\r\n")):
                yield Import(module, name, bound or name)
            continue
        for name, bound in _aliases(modules):
            yield Import(name, "", bound or name)
            if not bound and "." in name:
                root = name.partition(".")[0]
                yield Import(root, "", root)


def assigned(text: str) -> frozenset[str]:
    """The variables assigned in `text` without indentation."""
    return frozenset(_ASSIGNED.findall(text))


def defined(text: str) -> frozenset[str]:
    """The functions and classes defined in `text` without indentation, lookalikes in strings included."""
    return frozenset(_DEFINED.findall(text))


def _aliases(listed: str) -> Iterator[tuple[str, str]]:
    for item in _COMMENT.sub("", listed).replace("\\", " ").split(","):
        words = item.split()
        if len(words) == 1:
            yield words[0], ""
        elif len(words) == 3 and words[1] == "as":
            yield words[0], words[2]
