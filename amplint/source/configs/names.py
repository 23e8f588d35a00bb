"""The names of configuration files, and those that a script mentions."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.regex import regex

JSON = (".json",)
YAML = (".yaml", ".yml")
SUFFIXES = (*JSON, *YAML)
_SIGNS = (b".json", b".yaml", b".yml")
_NAMED = regex(rb"""["']/?((?:[\w.-]+/)*[\w.-]+\.(?:json|ya?ml))["']""")
_READS = (*_SIGNS, b"hydra", b"Accelerator(")
MOST_NAMED = 30
"""The limit of names taken from a script."""


def is_config(path: str) -> bool:
    """Whether the file at `path` is a configuration file, by its name."""
    return path.endswith(SUFFIXES)


def reads_settings(raw: bytes) -> bool:
    """Whether a script may read configuration files, by its words."""
    return any(word in raw for word in _READS)


def named(raw: bytes) -> Iterator[str]:
    """The relative paths of configuration files among a script's strings, each once."""
    if not any(sign in raw for sign in _SIGNS):
        return
    found = dict.fromkeys(match[1] for match in _NAMED.finditer(raw))
    for _, name in zip(range(MOST_NAMED), found, strict=False):
        yield name.decode(errors="replace")
