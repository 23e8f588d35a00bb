"""Positions worked out from the text are those of libcst's trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_lowering import differences

ROOT = Path(__file__).parent.parent

SHAPES = '''\
import os; import sys; x = (
    1,
  2)
@(
    decorate
)
class Box(object): pass

class Other(Box, metaclass=Meta):
    # above
    a = 1; b = """two
rows"""

    @property
    # between
    @cached(size=3)

    def long(self, *,
             first=1) -> int:
        "doc"
        if (first) and \\
                second: return 1
        elif (third()): # why
            with open(a) as f, open(b) as g:
                return (yield (2))
        else:
            while (True):
                x[0:1, ...] = lambda: (0)
            else:
                del y
        try:
            for i, j in ((k)): print(i)
            else:
                pass
        except (A, B) as failure:
            raise (failure) from None
        finally:

            match (first):
                case [1, *rest] if (rest):
                    found = rest
                case _:
                    pass
'''

TABS = 'if x:\n\tasync def tabs(self):\n\t\t"""Two\n\trows."""\n\t\tawait (\n\t    self)\n'


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", [SHAPES, TABS])
def test_every_shape_of_statement(text: str, newline: str) -> None:
    assert list(differences(text.replace("\n", newline))) == []


@pytest.mark.parametrize("name", ["benchmarks/script.py", "amplint/semantics/python/calls.py", "tests/test_rewrite.py"])
def test_real_files(name: str) -> None:
    assert list(differences((ROOT / name).read_text())) == []
