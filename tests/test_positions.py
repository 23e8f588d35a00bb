"""Positions worked out statement by statement are those of the whole tree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from amplint.source.source import Source
from amplint.source.tree import walk

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


def differences(text: str) -> list[tuple[str, object, object]]:
    """Where a node or a parenthesis stands by `Source`, and by libcst, where they disagree."""
    found = []
    for chunk in Source("shapes.py", text).chunks:
        whole = MetadataWrapper(chunk.module, unsafe_skip_copy=True).resolve(PositionProvider)
        for node in walk(chunk.module):
            opening = getattr(node, "lpar", ())
            for one in (node, *(opening if isinstance(opening, Sequence) else ())):
                span, place = chunk.span(one, node), whole[one]
                above = chunk.first_row - 1
                here = (span.start.row - above, span.start.column - 1, span.end.row - above, span.end.column - 1)
                there = (place.start.line, place.start.column, place.end.line, place.end.column)
                if here != there:
                    found.append((type(one).__name__, here, there))
    return found


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("text", [SHAPES, TABS])
def test_every_shape_of_statement(text: str, newline: str) -> None:
    assert differences(text.replace("\n", newline)) == []


@pytest.mark.parametrize("name", ["benchmarks/script.py", "amplint/semantics/python/calls.py", "tests/test_rewrite.py"])
def test_real_files(name: str) -> None:
    assert differences((ROOT / name).read_text()) == []
