"""Regular expressions of amplint take time that grows with the text: Python cannot interrupt them."""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import amplint
import rules
from amplint.regex import Regex
from tests.ambiguity import backtracks_exponentially

_SEARCHES = re.compile(r"\b(\w+)\.(?:search|finditer|findall|subn?|split)\(")
_WORD = re.compile(r"[A-Za-z_]{2,}")
_UNITS = ("a", " ", "(", "a.", "= ", "\n", " \n", "[", '"', "'", "#", "_", "0", "0.", "1e", "\t", "\\", "- ")


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


def _searched() -> Iterator[tuple[str | bytes, int]]:
    """The patterns that are searched in a text, and not only matched at its start."""
    modules = [name for name in sys.modules if name.partition(".")[0] in ("amplint", "rules")]
    for module in map(sys.modules.__getitem__, modules):
        text = Path(module.__file__).read_text(encoding="utf-8") if module.__file__ is not None else ""
        for name in {*_SEARCHES.findall(text)}:
            found = getattr(module, name, None)
            if isinstance(found, re.Pattern):
                yield found.pattern, found.flags
            elif type(found) is Regex:
                yield found._text, found._flags


def _seconds(pattern: re.Pattern[str], text: str) -> float:
    begin = time.process_time()
    for _ in pattern.finditer(text):
        pass
    return time.process_time() - begin


def _grows_faster(text: str, flags: int) -> bool:
    """Whether a search in eight times as much of something takes far more than eight times as long.

    Quadratic growth takes 64 times as long. Short and long texts take turns: both see a machine that slows down.
    """
    pattern, spelled = re.compile(text, flags), {*_WORD.findall(re.sub(r"\\[A-Za-z]", " ", text))}
    for unit in (*_UNITS, *(word + end for word in spelled for end in ("", "(", " ", "."))):
        short, long = (unit * (size // len(unit)) for size in (1_500, 12_000))
        if _seconds(pattern, long) > 0.004:
            turns = [(_seconds(pattern, short), _seconds(pattern, long)) for _ in range(5)]
            if min(one for _, one in turns) > 20 * min(one for one, _ in turns):
                return True
    return False


def test_searches_are_linear() -> None:
    list(_deferred())  # loads all modules
    patterns = {(text.decode("latin-1") if isinstance(text, bytes) else text, flags) for text, flags in _searched()}
    assert len(patterns) > 100
    assert not [text for text, flags in patterns if _grows_faster(text, flags & re.MULTILINE | flags & re.IGNORECASE)]


@pytest.mark.parametrize("pattern", [r"(?m)^\s*from torch", r"\barange\([^\n]*dtype", r"norm\w*grad"])
def test_growth(pattern: str) -> None:
    assert _grows_faster(pattern, 0)


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
