"""The trees made from what `ast` gives are those of libcst: nodes, names, places and parentheses."""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import libcst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from amplint.findings import Position
from amplint.source import syntax as cst
from amplint.source.concrete import lowered
from amplint.source.encoding import SourceError
from amplint.source.rewrite import Rewriter
from amplint.source.source import Chunk, Source
from amplint.source.tree import walk
from tests.chance import seeded

Place: TypeAlias = tuple[int, int]
ROOT = Path(__file__).parent.parent
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
SHAPES = (ROOT / "tests" / "lowering" / "shapes.txt").read_text(encoding="utf-8")
NEWER = "def f():\n    type X = given\n" if sys.version_info < (3, 12) else "x = 1\nt'{x}'; y =  given\n"
"""What this Python cannot parse."""
PLACED_ELSEWHERE = (
    *(cst.AsName, cst.CompFor, cst.CompIf, cst.ComparisonTarget, cst.FormattedStringText, cst.BaseUnaryOp, cst.Slice),
    cst.SubscriptElement,
    *(cst.MatchKeywordElement, cst.MatchMappingElement, cst.MatchOrElement, cst.MatchSequenceElement, cst.MatchStar),
    *(cst.Module, cst.Parameters, cst.ParamStar),
)
"""What libcst counts white space or a comma to."""


def differences(text: str) -> Iterator[str]:
    """Where the trees of a text differ, chunk by chunk."""
    source = Source("text.py", text)
    for chunk in source.chunks:
        theirs = MetadataWrapper(libcst.parse_module(chunk.text), unsafe_skip_copy=True)
        places = theirs.resolve(PositionProvider)

        def place(node: libcst.CSTNode, end: bool = False, chunk: Chunk = chunk, places: Any = places) -> Place:
            found = places[node].end if end else places[node].start
            return found.line + chunk.first_row - 1, found.column + 1

        todo: list[tuple[cst.CSTNode, libcst.CSTNode]] = [(chunk.module, theirs.module)]
        while todo:
            node, twin = todo.pop()
            if type(node).__name__ != type(twin).__name__:
                yield f"{type(node).__name__} for {type(twin).__name__}"
                continue
            for name in type(node).fields:
                held, wanted = getattr(node, name), getattr(twin, name)
                wanted = None if isinstance(wanted, libcst.MaybeSentinel) else wanted
                if isinstance(held, cst.CSTNode):
                    todo.append((held, wanted))
                elif name in type(node).below and held is not None and len(held) == len(wanted):
                    todo.extend(zip(held, wanted, strict=True))
                elif name != "relative" and (held or None) != (wanted or None):
                    yield f"{type(node).__name__}.{name} {held!r} for {wanted!r}"
            span = chunk.span(node)
            found = ((span.start.row, span.start.column), (span.end.row, span.end.column))
            expected = place(twin), place(twin, True)
            if found != expected and not isinstance(node, PLACED_ELSEWHERE):
                yield f"{type(node).__name__} at {found} for {expected}"
            opening, closing = getattr(twin, "lpar", ()), getattr(twin, "rpar", ())
            if isinstance(opening, (list, tuple)):
                around = [
                    (place(one), place(other, True)) for one, other in zip(reversed(opening), closing, strict=True)
                ]
                own = [
                    ((one.start.row, one.start.column), (other.end.row, other.end.column))
                    for one, other in chunk.parentheses(node)
                ]
                if own != around:
                    yield f"{type(node).__name__} in {own} for {around}"


def statements() -> Iterator[str]:
    """Each statement of the shapes by itself."""
    lines = SHAPES.split("\n")
    ended = 0
    for statement in ast.parse(SHAPES).body:
        first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
        if first > ended:
            yield "\n".join(lines[first - 1 : statement.end_lineno]) + "\n"
        ended = statement.end_lineno or first


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_shapes(newline: str) -> None:
    for text in statements():
        assert list(differences(text.replace("\n", newline))) == [], text


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_trees_by_libcst_are_the_same(newline: str) -> None:
    for text in statements():
        source = Source("text.py", text.replace("\n", newline))
        (chunk,) = source.chunks
        tree = lowered(chunk.text, source.layout)
        assert tree.deep_equals(chunk.module), text
        for node, twin in zip(walk(tree), walk(chunk.module), strict=True):
            assert isinstance(node, PLACED_ELSEWHERE) or source.span_of(node.at) == chunk.span(twin), text


@pytest.mark.parametrize("end", ["", "    ", "    # end", "\n\n    "])
def test_what_only_libcst_can_parse(end: str) -> None:
    source = Source("text.py", NEWER + end)
    (chunk,) = source.chunks
    names = {node.value: chunk.span(node).start for node in walk(chunk.module) if isinstance(node, cst.Name)}
    assert names["given"] == Position(2, 14)


def test_nodes_of_libcst() -> None:
    rewrite = Rewriter(Source("text.py", "x = 1\ndef f():\n    return g(  # why\n        x,\n    )\n"))
    call = next(node for chunk in rewrite.source.chunks for node in walk(chunk.module) if isinstance(node, cst.Call))
    found = rewrite.concrete(call)
    assert isinstance(found, libcst.Call)
    assert isinstance(found.whitespace_before_args, libcst.ParenthesizedWhitespace)
    assert found.whitespace_before_args.first_line.comment is not None
    assert found.whitespace_before_args.first_line.comment.value == "# why"


@pytest.mark.parametrize("part", range(4))
def test_fixtures(part: int) -> None:
    for path in sorted((ROOT / "fixtures").rglob("*.py"))[part::12]:
        assert list(differences(path.read_text(encoding="utf-8"))) == [], path


@pytest.mark.parametrize("seed", range(4))
def test_standard_library(seed: int) -> None:
    paths = [path for path in sorted(LIBRARY.glob("*.py")) if path.stat().st_size < 40_000]
    numbers = seeded(seed)
    for _ in range(5):
        path = paths[numbers(len(paths) - 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = list(differences(path.read_text(encoding="utf-8")))
            except (SourceError, libcst.ParserSyntaxError):
                continue
        assert found == [], path
