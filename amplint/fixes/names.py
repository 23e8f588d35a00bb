"""The names that a module imports, binds and uses, from its `ast`."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterable, Iterator

ImportStatement = ast.Import | ast.ImportFrom


def parse(text: str) -> ast.Module | None:
    """The syntax tree, None if this Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def bound_name(statement: ImportStatement, alias: ast.alias) -> str:
    """The name that one part of an import statement binds."""
    return alias.asname or (alias.name.partition(".")[0] if isinstance(statement, ast.Import) else alias.name)


def spelling(statement: ImportStatement, alias: ast.alias) -> str:
    """One alias of an import statement as a statement of its own: `from torch import nn`, `import torch as t`."""
    renamed = f" as {alias.asname}" if alias.asname and alias.asname != alias.name else ""
    if isinstance(statement, ast.Import):
        return f"import {alias.name}{renamed}"
    return f"from {'.' * statement.level}{statement.module or ''} import {alias.name}{renamed}"


def spellings(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """(bound name, spelling) of every alias of the import statements among `statements`."""
    for statement in statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                yield bound_name(statement, alias), spelling(statement, alias)


def top_level_bindings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, spelling of the import) of every binding outside of functions and classes; "" if no import binds it."""
    todo: list[ast.AST] = [tree]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                yield from spellings([node])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id, ""
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield node.name, ""
            elif not isinstance(node, ast.Lambda):
                todo.append(node)


def used_names(tree: ast.Module, among: Collection[str]) -> set[str]:
    """The names of `among` that are read by code or by a string that is an expression (an annotation, `__all__`)."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in among:
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found.update(_named_in(node.value, among))
    return found


def _named_in(text: str, among: Collection[str]) -> set[str]:
    if not any(name in text for name in among):
        return set()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)} & set(among)
