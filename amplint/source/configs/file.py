"""A configuration file as a source whose only expression is the display of its content."""

from __future__ import annotations

import functools

from amplint.source import syntax as cst
from amplint.source.configs.names import JSON
from amplint.source.encoding import SourceError, decode
from amplint.source.imports import Import
from amplint.source.source import Chunk, Source

MOST_BYTES = 200_000
"""The size in bytes beyond which a file is data."""


class ConfigFile(Source):
    """A configuration file; `root` is its content. Raises SourceError if it cannot be parsed.

    Its nodes are those of a Python file, so that code that reads dicts of scripts reads these, too.
    """

    def __init__(self, filename: str, text: str, path: str = "") -> None:
        super().__init__(filename, text, path, followed=True)
        if filename.endswith(JSON):
            from amplint.source.configs.json_text import read
        else:
            try:
                from amplint.source.configs.yaml_text import read
            except ModuleNotFoundError:  # the site's playground has no PyYAML
                raise SourceError("YAML cannot be read here") from None
        self.root = read(self.layout)
        chunk = Chunk(self, text, 1, None, [])
        statement = cst.SimpleStatementLine([cst.Expr(self.root)])
        statement.at = statement.body[0].at = self.root.at
        chunk.module = cst.Module([statement])
        chunk.module.at = self.root.at
        self.chunks = [chunk]

    @classmethod
    def of(cls, filename: str, raw: bytes, path: str = "") -> ConfigFile:
        """Decode and parse. Raises SourceError."""
        if len(raw) > MOST_BYTES:
            raise SourceError(f"it is larger than {MOST_BYTES:,} bytes")
        return cls(filename, decode(raw)[0], path)

    @functools.cached_property
    def imports(self) -> dict[str, Import]:
        """Empty."""
        return {}

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Empty."""
        return frozenset()

    @functools.cached_property
    def star_imports(self) -> tuple[str, ...]:
        """Empty."""
        return ()
