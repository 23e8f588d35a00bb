"""Regular expressions of amplint cannot backtrack exponentially: Python cannot interrupt them."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import amplint
import rules
from amplint.regex import Regex
from tests.ambiguity import backtracks_exponentially


def _deferred() -> Iterator[tuple[str | bytes, int]]:
    for package in (amplint, rules):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of a library that is not installed
                    importlib.import_module(module.name)
    gc.unfreeze()  # linting in this process froze what it had loaded
    for found in gc.get_objects():
        if type(found) is Regex:
            yield found._text, found._flags


def _literal() -> Iterator[tuple[str | bytes, int]]:
    for package in (amplint, rules):
        for file in Path(package.__path__[0]).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="re")), args=[ast.Constant(value=str() as text), *_]
                    ):
                        yield text, 0


def test_patterns() -> None:
    patterns = {*_deferred(), *_literal()}
    assert len(patterns) > 200
    assert not [pattern for pattern, flags in patterns if backtracks_exponentially(pattern, flags)]


@pytest.mark.parametrize(
    ("pattern", "exponential"),
    [
        (r"(?:ab|\wb)*c", True),
        (r"(a*)*b", True),
        (r"(?:[^()#]|#[^\n]*)*\)", True),
        (r"(?:\w|[^\x00-\x7f])+!", True),
        (r"x(?!(?:a|\w+)*b)", True),
        (r"(?i:(?:ab|AB)+)c", True),
        (r"(?:a|b)*b", False),
        (r"(?:a|a)*b", False),  # a set of characters
        (r"a*a*b", False),
        (r"(?:ab|ac)*d", False),
        (r"(?:a?){3}b", False),
        (r"[^()#]*(?:#[^\n]*\n[^()#]*)*\)", False),
    ],
)
def test_ambiguity(pattern: str, exponential: bool) -> None:
    assert backtracks_exponentially(pattern, 0) is exponential
