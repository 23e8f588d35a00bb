"""Which names statements bind and read, and new names for them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence

BUILTINS = frozenset(dir(builtins))
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def bound(statements: Iterable[ast.AST]) -> list[str]:
    """Names that `statements` bind in their own scope, in the order of the text."""
    found: dict[str, None] = {}

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = None
            return
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found[node.id] = None
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                found[(alias.asname or alias.name).partition(".")[0]] = None
        for child in ast.iter_child_nodes(node):
            visit(child)

    for statement in statements:
        visit(statement)
    return [*found]


def read(statements: Iterable[ast.AST]) -> set[str]:
    """Names that `statements` read, those of nested functions and targets of `+=` among them."""
    found = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.add(node.id)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


def parameters(function: ast.FunctionDef) -> list[str]:
    """Names of the parameters of `function`."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    every += [one for one in (given.vararg, given.kwarg) if one is not None]
    return [one.arg for one in every]


class Rename(ast.NodeTransformer):
    """Puts what `new` makes of a name in its place, wherever it is not bound anew by a comprehension or a function."""

    def __init__(self, names: Iterable[str], new: Callable[[str, ast.expr_context], ast.expr]) -> None:
        self.names = set(names)
        self.new = new

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name of ours."""
        return self.new(node.id, node.ctx) if node.id in self.names else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """What a function binds itself is another name."""
        return self._below(node, {*parameters(node), *bound(node.body)})

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        """Parameters of a lambda are other names."""
        return self._below(node, {one.arg for one in node.args.args})

    def _comprehension(self, node: ast.AST) -> ast.AST:
        return self._below(node, {*bound(part.target for part in node.generators)})  # type: ignore[attr-defined]

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _below(self, node: ast.AST, hidden: set[str]) -> ast.AST:
        before, self.names = self.names, self.names - hidden
        self.generic_visit(node)
        self.names = before
        return node


def attribute(owner: str, name: str, context: ast.expr_context) -> ast.Attribute:
    """`owner.name`."""
    return ast.Attribute(ast.Name(owner, ast.Load()), name, context)


def several(names: Sequence[str], context: ast.expr_context) -> ast.expr:
    """One name, or a tuple of them."""
    if len(names) == 1:
        return ast.Name(names[0], context)
    return ast.Tuple([ast.Name(name, context) for name in names], context)
