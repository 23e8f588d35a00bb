"""A linted file: decoded text, and a syntax tree built on demand.

Python's own `ast` parses the file once. It is then cut into chunks: one per top-level function or class, and one per
short run of other statements between them. A chunk's tree of `syntax` nodes is built from the `ast` on demand; libcst's
tree, which costs about twelve times what `ast.parse` does, only where white space or punctuation is needed.
"""

from __future__ import annotations

import ast
import bisect
import functools
import re
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from amplint.findings import Position, Span
from amplint.regex import regex
from amplint.source import syntax as cst
from amplint.source.encoding import SourceError, decode
from amplint.source.imports import Import, assigned, defined, imports
from amplint.source.layout import NEWLINE as NEWLINE
from amplint.source.layout import Layout
from amplint.source.lower import Lowering
from amplint.source.places import Places, Range
from amplint.source.tree import children, walk

if TYPE_CHECKING:
    import libcst

RUN_ROWS = 200
WORD = regex(r"[A-Za-z_]\w*")
_LIMITS = regex("too many|Exceeds the limit")
"""Python's messages for a file beyond its own limits: nested too deeply, or with too long a number."""
_MARK = "\ufeff"
"""A second byte order mark, which only libcst would skip."""
_TOLD = regex(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|^[ \t]*#.*$', re.MULTILINE)


_OF_TREES = ("module", "parents", "_places", "_concrete")
"""The attributes of a chunk that depend on its tree."""


class ForeignNode(Exception):
    """A node belongs to another file."""


class Chunk:
    """A top-level function or class, or a run of other top-level statements.

    `source` is the file, `name` the function's or class's name, None for a run. Rows are 1-based and inclusive.
    `statements` are the `ast` of the text, None if only libcst can parse it.
    """

    def __init__(
        self, source: Source, text: str, first_row: int, name: str | None, statements: list[ast.stmt] | None
    ) -> None:
        self._source = weakref.ref(source)
        self.text = text
        self.first_row = first_row
        self.name = name
        self._statements = statements
        self._only_concrete = statements is None
        self.of_text: dict[Callable[..., Any], Any] = {}
        """The results of `per_chunk` functions."""
        self.of_tree: dict[Callable[..., Any], Any] = {}
        """The results of `per_tree` functions, valid as long as the tree."""

    @property
    def source(self) -> Source:
        """The file; it owns its chunks, which hold a weak reference to it."""
        source = self._source()
        assert source is not None, "the file of a chunk is gone"
        return source

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The names and keywords in the text, including those in strings and comments."""
        return _words(self.text)

    @functools.cached_property
    def code(self) -> str:
        """The text without long strings, such as documentation, and without comment lines."""
        return _TOLD.sub(" ", self.text)

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """The words of `code`."""
        return self.words if self.code == self.text else _words(self.code)

    @functools.cached_property
    def is_class(self) -> bool:
        """Whether it is a class."""
        heads = (line for line in self.text.splitlines() if line.startswith(("class ", "def ", "async ")))
        return self.name is not None and next(heads, "").startswith("class ")

    @functools.cached_property
    def module(self) -> cst.Module:
        """The tree. Raises SourceError if it cannot be built."""
        if self._only_concrete:
            from amplint.source.concrete import lowered

            return lowered(self.text, self.source.layout)
        statements, self._statements = self._statements, None
        try:
            if statements is None:
                statements = _parsed("\n" * (self.first_row - 1) + self.text)
            return Lowering(self.source.layout).module(statements)
        except RecursionError:
            raise SourceError("too deeply nested to be parsed", Position(self.first_row, 1)) from None

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
    def _places(self) -> Places:
        return Places(self.source.layout, self.parents)

    def span(self, node: cst.CSTNode) -> Span:
        """The range of `node` in the file, without parentheses around it."""
        return self.source.span_of(self._places.find(node))

    def range(self, node: cst.CSTNode) -> Range:
        """The offsets of `node` in the text of the file, without parentheses around it."""
        return self._places.find(node)

    def outer_span(self, node: cst.CSTNode) -> Span:
        """The range of `node` in the file, including its own parentheses."""
        return self.source.span_of(self._places.outer(node))

    def parentheses(self, node: cst.CSTNode) -> list[tuple[Span, Span]]:
        """The pairs of parentheses around `node` that are its own, innermost first."""
        sign = self.source.span_of
        return [(sign((one, one + 1)), sign((other, other + 1))) for one, other in self._places.parentheses(node)]

    @functools.cached_property
    def default_indent(self) -> str:
        """The indentation of the first block, four spaces if there is none."""
        block = next((node for node in walk(self.module) if isinstance(node, cst.IndentedBlock)), None)
        if block is None:
            return " " * 4
        inner, outer = (self._indentation(node) for node in (block.body[0], self.parents[block]))
        return inner[len(outer) :]

    def _indentation(self, node: cst.CSTNode) -> str:
        line = self.source.lines[self.span(node).start.row - 1]
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    @functools.cached_property
    def _concrete(self) -> dict[cst.CSTNode, libcst.CSTNode]:
        from amplint.source.concrete import pairs, parse

        return dict(pairs(self.module, parse(self.text, self.first_row)))

    def concrete(self, node: cst.CSTNode) -> libcst.CSTNode:
        """The node of libcst's tree of this chunk for the same code as `node`. Raises SourceError."""
        return self._concrete[node]

    @property
    def has_tree(self) -> bool:
        """Whether the tree has been built."""
        return "module" in self.__dict__

    def prune(self) -> None:
        """Discard the tree and the `ast`; both are rebuilt on demand."""
        self._statements = None
        self.of_tree.clear()
        for name in _OF_TREES:
            self.__dict__.pop(name, None)


class Source:
    """A decoded file, cut into chunks. Raises SourceError if it is not Python.

    `path` is the absolute path of the file, empty for text that is in no file. A file that is only `followed` is cut on
    demand: it has no chunks if it is not Python.
    """

    def __init__(self, filename: str, text: str, path: str = "", *, followed: bool = False) -> None:
        self.filename = filename
        self.text = text
        self.path = path
        if not followed:
            self.chunks = list(_cut(self))

    @classmethod
    def from_bytes(cls, filename: str, raw: bytes, path: str = "", *, followed: bool = False) -> Source:
        """Decode and cut. Raises SourceError."""
        return cls(filename, decode(raw)[0], path, followed=followed)

    @functools.cached_property
    def chunks(self) -> list[Chunk]:
        """The top-level definitions, and the runs of other statements between them."""
        try:
            return list(_cut(self))
        except SourceError:
            return []

    @functools.cached_property
    def layout(self) -> Layout:
        """Positions and punctuation of the text."""
        return Layout(self.text)

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
        """Every name that the file may bind at its top level or imports anywhere; `a.b` for `import a.b`.

        Read from the text, so that a file need not be parsed to know that it does not bind a name.
        """
        return (assigned(self.text) | defined(self.text)).union(self.imports)

    @functools.cached_property
    def dotted(self) -> tuple[str, ...]:
        """The modules of `import a.b`."""
        return tuple(name for name in self.imports if "." in name)

    @functools.cached_property
    def star_imports(self) -> tuple[str, ...]:
        """The modules of `from module import *`."""
        return tuple(one.module for one in imports(self.text) if one.name == "*")

    @functools.cached_property
    def lines(self) -> list[str]:
        """The lines without line breaks; line `n` of a report is `lines[n - 1]`."""
        return NEWLINE.split(self.text)

    @functools.cached_property
    def newline(self) -> str:
        r"""The first line break of the file, `\n` for a file of one line."""
        found = NEWLINE.search(self.text)
        return found.group() if found else "\n"

    def prune(self, most: int) -> int:
        """Discard caches of trees, and trees of more than `most` characters; return how many trees are left.

        No node of the file may be in use.
        """
        left = sum(len(chunk.text) for chunk in self._cut_already() if chunk.has_tree)
        keeps = 0 < left <= most
        for chunk in self._cut_already():
            if not (keeps and chunk.has_tree):
                chunk.prune()
        for name in ("_homes",) if keeps else ("_homes", "layout", "lines"):
            self.__dict__.pop(name, None)
        return left if keeps else 0

    def _cut_already(self) -> list[Chunk]:
        found: list[Chunk] = self.__dict__.get("chunks", [])
        return found

    def chunk_of(self, node: cst.CSTNode) -> Chunk:
        """The chunk whose tree contains `node`. Raises ForeignNode for a node of another file."""
        chunk = self._home(node)
        if chunk is None:
            raise ForeignNode(type(node).__name__)
        return chunk

    def chunks_at(self, row: int) -> list[Chunk]:
        """The chunks with a row."""
        return [one for one in self.chunks if one.first_row <= row <= one.first_row + one.text.count("\n")]

    def owns(self, node: cst.CSTNode) -> bool:
        """Whether `node` belongs to a tree of this file."""
        return self._home(node) is not None

    def _home(self, node: cst.CSTNode) -> Chunk | None:
        if node not in self._homes:
            row = getattr(node.at, "lineno", 0)
            likely = self.chunks[max(0, bisect.bisect_right(self._first_rows, row) - 1) :][:1] if row else []
            chunks = (one for some in (likely, self.chunks) for one in some if one.has_tree)
            self._homes[node] = next((one for one in chunks if node is one.module or node in one.parents), None)
        return self._homes[node]

    @functools.cached_property
    def _first_rows(self) -> list[int]:
        return [chunk.first_row for chunk in self.chunks]

    @functools.cached_property
    def _homes(self) -> dict[cst.CSTNode, Chunk | None]:
        """The chunks of the nodes queried so far, None for those of other files."""
        return {}

    def span(self, node: cst.CSTNode) -> Span:
        """The range of `node` in the file."""
        return self.chunk_of(node).span(node)

    def span_of(self, place: Range) -> Span:
        """The span between two offsets."""
        (row, column), (last_row, last_column) = map(self.layout.place, place)
        return Span(Position(row, column + 1), Position(last_row, last_column + 1))

    def code(self, node: cst.CSTNode) -> str:
        """The text of `node`, without parentheses around it."""
        start, end = self.chunk_of(node).range(node)
        return self.text[start:end]

    def concrete(self, node: cst.CSTNode) -> libcst.CSTNode:
        """libcst's node for the same code as `node`. Raises SourceError if libcst cannot parse it."""
        return self.chunk_of(node).concrete(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The parent of `node`; None for a chunk's module."""
        return self.chunk_of(node).parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around `node`, nearest first."""
        parents = self.chunk_of(node).parents
        while (above := parents.get(node)) is not None:
            yield above
            node = above

    def function_around(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The innermost function around `node`, None at the top level; lambdas are none."""
        return next((one for one in self.ancestors(node) if isinstance(one, cst.FunctionDef)), None)


def _cut(source: Source) -> Iterator[Chunk]:
    text = source.text
    lines = source.lines
    outline = _outline(text, lines)
    if outline is None:
        yield Chunk(source, text, 1, None, None)
        return
    ends = [found.end() for found in NEWLINE.finditer(text)] + [len(text)]
    starts = [0, *ends]
    runs: list[tuple[int, int, str | None, list[ast.stmt]]] = []
    for first, last, name, statement in outline:
        begun, ended, known, statements = runs[-1] if runs else (0, 0, None, [])
        if runs and first <= ended:
            runs[-1] = begun, max(last, ended), None, [*statements, statement]
        elif runs and name is None and known is None and last - begun < RUN_ROWS:
            runs[-1] = begun, last, None, [*statements, statement]
        else:
            runs.append((first, last, name, [statement]))
    for first, last, name, statements in runs:
        yield Chunk(source, text[starts[first - 1] : ends[min(last, len(lines)) - 1]], first, name, statements)


def _outline(text: str, lines: list[str]) -> list[tuple[int, int, str | None, ast.stmt]] | None:
    """First row, last row, name and `ast` of each top-level statement, or None if only libcst knows this syntax."""
    try:
        body = _parsed(text)
    except SyntaxError as failure:
        message = str(failure.msg)
        if not _LIMITS.match(message) and not text.startswith(_MARK):
            try:
                from amplint.source.concrete import parse
            except ModuleNotFoundError:  # without libcst, as in the site's playground, Python's parser decides
                message = f"syntax error: {message}"
            else:
                parse(text, 1)
                return None
        raise SourceError(message, Position(failure.lineno or 1, failure.offset or 1)) from None
    except (RecursionError, MemoryError, ValueError) as failure:
        raise SourceError(f"too deeply nested to be parsed ({type(failure).__name__})") from None
    found: list[tuple[int, int, str | None, ast.stmt]] = []
    for node in body:
        definition = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        decorators = [d.lineno for d in node.decorator_list] if definition else []  # type: ignore[attr-defined]
        name = node.name if definition else None  # type: ignore[attr-defined]
        first = min([node.lineno, *decorators])
        while decorators and first > 1 and not lines[first - 1].lstrip().startswith("@"):
            first -= 1  # the decorator is in parentheses that open further up
        found.append((first, node.end_lineno or node.lineno, name, node))
    return found


def _parsed(text: str) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text).body


def _words(text: str) -> frozenset[str]:
    """The words in `text`, interned, since they are kept for whole repositories."""
    return frozenset(map(sys.intern, set(WORD.findall(text))))
