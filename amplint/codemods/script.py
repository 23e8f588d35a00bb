"""A text on its way through the passes of a codemod: its tree, who calls whom, and edits that lead to the next text."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

from amplint.codemods.conversion import Remark
from amplint.findings import Edit, Span
from amplint.fixes.splice import locate, splice
from amplint.source.rewrite import Rewriter
from amplint.source.rewrite_lines import Lines
from amplint.source.source import Source
from amplint.source.tree import walk

Scope = tuple[str, ...]
"""The names of the classes and functions around a place, the outermost first; empty at the top level of the file."""
_BINDING = (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr)


class Refused(Exception):
    """The text is left as it is, for this reason."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.remark = Remark(row, why)


class Script:
    """The tree of `text`, the content of the file at `path`. Raises SourceError where it is not Python."""

    def __init__(self, text: str, path: str = "") -> None:
        self.text = text
        self.path = path
        self.source = Source(path, text, path)
        self.rewrite = Rewriter(self.source)
        self.lines = Lines(text)

    @functools.cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """Every node, in the order of the text."""
        return [node for chunk in self.source.chunks for node in walk(chunk.module)]

    def of_kind(self, *kinds: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The nodes of these kinds."""
        return (node for node in self.nodes if isinstance(node, kinds))

    @functools.cached_property
    def calls(self) -> list[cst.Call]:
        """Every call."""
        return [node for node in self.nodes if isinstance(node, cst.Call)]

    @functools.cached_property
    def functions(self) -> dict[Scope, cst.FunctionDef]:
        """The functions and methods by their own scope."""
        found = (node for node in self.nodes if isinstance(node, cst.FunctionDef))
        return {(*self.scope(node), node.name.value): node for node in found}

    @functools.cached_property
    def _classes(self) -> frozenset[Scope]:
        found = (node for node in self.nodes if isinstance(node, cst.ClassDef))
        return frozenset((*self.scope(node), node.name.value) for node in found)

    def scope(self, node: cst.CSTNode) -> Scope:
        """Where `node` stands; a definition stands outside of what it defines, with its decorators and defaults."""
        names: list[str] = []
        inner = node
        for above in self.source.ancestors(node):
            if isinstance(above, (cst.FunctionDef, cst.ClassDef)) and inner is above.body:
                names.append(above.name.value)
            inner = above
        return tuple(reversed(names))

    def class_of(self, scope: Scope) -> Scope | None:
        """The scope of the nearest class around `scope`, None outside of classes."""
        around = (scope[:length] for length in range(len(scope), 0, -1))
        return next((each for each in around if each in self._classes), None)

    def row(self, node: cst.CSTNode) -> int:
        """The row that `node` begins in."""
        return self.source.span(node).start.row

    def rows(self, node: cst.CSTNode) -> tuple[int, int]:
        """The first and the last row of a node."""
        span = self.source.span(node)
        return span.start.row, span.end.row

    def text_of(self, node: cst.CSTNode) -> str:
        """The text of `node`."""
        return self.rewrite.text(node)

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | cst.BaseCompoundStatement:
        """The statement that holds `node`, with its rows to itself."""
        found = self.rewrite.statement_of(node)
        if found is None or (isinstance(found, cst.SimpleStatementLine) and len(found.body) > 1):
            raise Refused(self.row(node), "the statement shares its line with others")
        return found

    def parameters(self, scope: Scope) -> tuple[str, ...]:
        """The parameters of the function `scope`, those by position first."""
        function = self.functions.get(scope)
        if function is None:
            return ()
        params = function.params
        every = (*params.posonly_params, *params.params, *params.kwonly_params)
        return tuple(param.name.value for param in every)

    def binds(self, scope: Scope, name: str, *, by_import: bool = True) -> bool:
        """Whether the function `scope` binds `name` by something else than an import, or also `by_import`."""
        bound, imported = self._bindings.get(scope, (frozenset(), frozenset()))
        return name in bound or (by_import and name in imported)

    @functools.cached_property
    def _bindings(self) -> dict[Scope, tuple[frozenset[str], frozenset[str]]]:
        """By function the names it binds itself, and those that it imports."""
        found = {}
        for scope, function in self.functions.items():
            inside = list(walk(function.body))
            outer = {item.name.value for node in inside if isinstance(node, cst.Global) for item in node.names}
            bound = {name for node in inside if not isinstance(node, cst.ImportAlias) for name in bound_names(node)}
            aliases = {id(node.asname) for node in inside if isinstance(node, cst.ImportAlias)}
            renamed = {name for node in inside if id(node) in aliases for name in bound_names(node)}
            imported = {bound_by(node) for node in inside if isinstance(node, cst.ImportAlias)}
            own = (bound - renamed) | set(self.parameters(scope))
            found[scope] = frozenset(own - outer), frozenset(imported - outer)
        return found

    def apply(self, edits: Iterable[Edit]) -> Script:
        """The script after `edits`, which must not overlap."""
        done = list(edits)
        return Script(splice(self.text, locate(self.lines, done)), self.path) if done else self

    def whole_rows(self, first: int, last: int) -> Span:
        """The span of these rows with their line ends."""
        return self.lines.rows(first, last)

    def span_of(self, start: int, end: int) -> Span:
        """The span between two offsets."""
        return Span(self.lines.position(start), self.lines.position(end))

    def indented(self, rows: Sequence[int], add: str, take: str = "", untouched: Iterable[int] = ()) -> str:
        """The text of `rows` with `take` less and `add` more indentation; `untouched` rows and blank ones stay."""
        kept = set(untouched)
        parts = []
        for row in rows:
            line = self.text[self.lines.start(row) : self.lines.start(row + 1)]
            if row not in kept and line.strip() and line.startswith(take):
                line = add + line[len(take) :]
            parts.append(line)
        return "".join(parts)

    def string_rows(self, node: cst.CSTNode) -> set[int]:
        """The rows below the first of `node` that begin inside a string."""
        found: set[int] = set()
        for inner in walk(node):
            if isinstance(inner, (cst.SimpleString, cst.FormattedString)):
                first, last = self.rows(inner)
                found.update(range(first + 1, last + 1))
        return found


def bound_names(node: cst.CSTNode) -> Iterator[str]:
    """The names that `node` itself binds."""
    if isinstance(node, _BINDING):
        yield from _names(node.target)
    elif isinstance(node, cst.AsName):
        yield from _names(node.name)
    elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        yield node.name.value
    elif isinstance(node, cst.ImportAlias):
        yield bound_by(node)


def bound_by(alias: cst.ImportAlias) -> str:
    """The name that one part of an import binds."""
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    name: cst.BaseExpression = alias.name
    while isinstance(name, cst.Attribute):
        name = name.value
    return name.value if isinstance(name, cst.Name) else ""


def _names(target: cst.CSTNode) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)
