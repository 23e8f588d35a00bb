"""A program whose offending statements are marked, so that they are known however it is rewritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Marked:
    """A program as a tree, its offending nodes with the codes expected there, and the other files that it imports."""

    tree: ast.Module
    expected: dict[ast.AST, set[str]]
    others: dict[str, ast.Module] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str, expectations: set[tuple[int, str]]) -> Marked:
        """The program `text`; `expectations` are the rows and codes of what is wrong with it."""
        tree = ast.parse(text)
        expected: dict[ast.AST, set[str]] = {}
        for row, code in expectations:
            expected.setdefault(_at(tree, row), set()).add(code)
        return cls(tree, expected)

    def text(self) -> str:
        """The program as it is now. Raises SyntaxError where a transform has broken it."""
        text = ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"
        compile(text, "<variation>", "exec")
        return text


def _at(tree: ast.Module, row: int) -> ast.AST:
    """The innermost statement or decorator on line `row`."""
    candidates = [node for node in _places(tree) if node.lineno <= row <= (node.end_lineno or 0)]
    return min(candidates, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _places(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            yield node
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from node.decorator_list
