"""One file as amplint sees it: decoded text, and a concrete syntax tree that grows only where something looks.

Building a libcst tree costs about twelve times what `ast.parse` does, so the file is first cut into chunks, one for
each top-level function or class and one for each short run of other statements between them. A chunk's tree is built
when it is asked for.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from amplint.findings import Position, Span
from amplint.source.encoding import SourceError, decode
from amplint.source.imports import Import, assigned, imports
from amplint.source.tree import children

if TYPE_CHECKING:
    from amplint.source.positions import Positions

RUN_ROWS = 200
WORD = re.compile(r"[A-Za-z_]\w*")
NEWLINE = re.compile(r"\r\n|\r|\n")
_LIMITS = re.compile("too many|Exceeds the limit")
"""What Python says of a file that its own limits keep from running: too deep, or with an endless number in it."""
_TOLD = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|^[ \t]*#.*$', re.MULTILINE)


class ForeignNode(Exception):
    """A node is not of this file."""


class Chunk:
    """A top-level function or class, or a run of other top-level statements.

    `source` is the file, `name` the function's or class's name, None for a run. Rows are 1-based and inclusive.
    """

    def __init__(self, source: Source, text: str, first_row: int, name: str | None) -> None:
        self.source = source
        self.text = text
        self.first_row = first_row
        self.name = name

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The names and keywords in the text, those in strings and comments included."""
        return frozenset(WORD.findall(self.text))

    @functools.cached_property
    def code(self) -> str:
        """The text without long strings, as documentation is, and without lines that are comments."""
        return _TOLD.sub(" ", self.text)

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """The words of `code`."""
        return frozenset(WORD.findall(self.code))

    @functools.cached_property
    def is_class(self) -> bool:
        """Whether it is a class."""
        heads = (line for line in self.text.splitlines() if line[:1] not in ("@", "#", " ", "\t", ")"))
        return self.name is not None and any(line.startswith("class ") for line in heads)

    @functools.cached_property
    def module(self) -> cst.Module:
        """The tree. Raises SourceError when libcst cannot build it."""
        return _parse(self.text, self.first_row)

    @functools.cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Parent of every node below `module`."""
        found: dict[cst.CSTNode, cst.CSTNode] = {}
        todo: list[cst.CSTNode] = [self.module]
        while todo:
            node = todo.pop()
            for child in children(node):
                found[child] = node
                todo.append(child)
        return found

    @functools.cached_property
    def _positions(self) -> Positions:
        from amplint.source.positions import Positions

        return Positions(self.module, NEWLINE.split(self.text), self.parents)

    def span(self, node: cst.CSTNode, near: cst.CSTNode | None = None) -> Span:
        """Where `node`, or what has no parent but stands `near` one that has, is in the file."""
        row, column, last_row, last_column = self._positions.find(node, near)
        above = self.first_row - 1
        return Span(Position(row + above, column + 1), Position(last_row + above, last_column + 1))

    @property
    def grown(self) -> bool:
        """Whether the tree has been built."""
        return "module" in self.__dict__


class Source:
    """A decoded file cut into chunks. Raises SourceError when it is not Python.

    `path` is the absolute path of the file, empty for text that is in no file.
    """

    def __init__(self, filename: str, text: str, path: str = "") -> None:
        self.filename = filename
        self.text = text
        self.path = path
        self.chunks = list(_cut(self))

    @classmethod
    def from_bytes(cls, filename: str, raw: bytes, path: str = "") -> Source:
        """Decode and cut. Raises SourceError."""
        return cls(filename, decode(raw)[0], path)

    @functools.cached_property
    def definitions(self) -> dict[str, Chunk]:
        """Name -> chunk of the top-level functions and classes, and of the runs that assign to a variable."""
        found: dict[str, Chunk] = {}
        for chunk in self.chunks:
            if chunk.name is None:
                found.update(dict.fromkeys(assigned(chunk.text), chunk))
        return found | {chunk.name: chunk for chunk in self.chunks if chunk.name is not None}

    @functools.cached_property
    def imports(self) -> dict[str, Import]:
        """Bound name -> import, the first one of each name."""
        found: dict[str, Import] = {}
        for one in imports(self.text):
            if one.name != "*":
                found.setdefault(one.bound, one)
        return found

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every name that the file binds at its top level or imports anywhere; `a.b` for `import a.b`."""
        return frozenset([*self.definitions, *self.imports])

    @functools.cached_property
    def dotted(self) -> tuple[str, ...]:
        """The modules of `import a.b`."""
        return tuple(name for name in self.imports if "." in name)

    @functools.cached_property
    def star_imports(self) -> tuple[str, ...]:
        """The modules that everything is imported from."""
        return tuple(one.module for one in imports(self.text) if one.name == "*")

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines without their ends; line `n` of a report is `lines[n - 1]`."""
        return NEWLINE.split(self.text)

    @functools.cached_property
    def newline(self) -> str:
        """The line end the file uses first, `\\n` for a file of one line."""
        found = NEWLINE.search(self.text)
        return found.group() if found else "\n"

    def chunk_of(self, node: cst.CSTNode) -> Chunk:
        """The chunk whose tree holds `node`. Raises ForeignNode for a node of another file."""
        for chunk in self.chunks:
            if chunk.grown and (node is chunk.module or node in chunk.parents):
                return chunk
        raise ForeignNode(type(node).__name__)

    def owns(self, node: cst.CSTNode) -> bool:
        """Whether `node` belongs to a tree of this file."""
        return any(chunk.grown and (node is chunk.module or node in chunk.parents) for chunk in self.chunks)

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands in the file."""
        return self.chunk_of(node).span(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node that directly holds `node`, None for a chunk's module."""
        return self.chunk_of(node).parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around `node`, nearest first."""
        parents = self.chunk_of(node).parents
        while (above := parents.get(node)) is not None:
            yield above
            node = above


def _cut(source: Source) -> Iterator[Chunk]:
    text = source.text
    lines = NEWLINE.split(text)
    outline = _outline(text, lines)
    if outline is None:
        yield Chunk(source, text, 1, None)
        return
    ends = [found.end() for found in NEWLINE.finditer(text)] + [len(text)]
    starts = [0, *ends]
    runs: list[list[int]] = []
    names: list[str | None] = []
    for first, last, name in outline:
        if runs and first <= runs[-1][1]:
            runs[-1][1], names[-1] = max(last, runs[-1][1]), None
        elif runs and name is None and names[-1] is None and last - runs[-1][0] < RUN_ROWS:
            runs[-1][1] = last
        else:
            runs.append([first, last])
            names.append(name)
    for (first, last), name in zip(runs, names, strict=True):
        yield Chunk(source, text[starts[first - 1] : ends[min(last, len(lines)) - 1]], first, name)


def _outline(text: str, lines: list[str]) -> list[tuple[int, int, str | None]] | None:
    """First row, last row and name of each top-level statement, or None when only libcst knows this syntax."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except SyntaxError as failure:
        if not _LIMITS.match(str(failure.msg)):
            _parse(text, 1)
            return None
        raise SourceError(str(failure.msg), Position(failure.lineno or 1, failure.offset or 1)) from None
    except (RecursionError, MemoryError, ValueError) as failure:
        raise SourceError(f"too deeply nested to be parsed ({type(failure).__name__})") from None
    found: list[tuple[int, int, str | None]] = []
    for node in body:
        definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        decorators = [d.lineno for d in node.decorator_list] if definition else []  # type: ignore[attr-defined]
        name = node.name if definition else None  # type: ignore[attr-defined]
        first = min([node.lineno, *decorators])
        while decorators and first > 1 and not lines[first - 1].lstrip().startswith("@"):
            first -= 1  # the decorator stands in parentheses that open further up
        found.append((first, node.end_lineno or node.lineno, name))
    return found


def _parse(text: str, first_row: int) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as failure:
        message = failure.message.partition("\n")[0].removeprefix("parser error: ")
        place = Position(max(1, failure.raw_line) + first_row - 1, failure.raw_column + 1)
        raise SourceError(f"syntax error: {message}", place) from None
    except RecursionError:
        raise SourceError("too deeply nested to be parsed", Position(first_row, 1)) from None
