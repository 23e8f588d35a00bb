"""What ran in each module: the tree, its folding, and its table on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from amplint.reports.module_table import by_module
from amplint.reports.modules import Node, rows, tree
from amplint.trace.data import Operation
from amplint.trace.record import Record

HALF, FULL = "float16", "float32"


def ran(module: str, op: str, dtype: str, phase: str = "forward", gives: str = "") -> Operation:
    return Operation(phase, op, "", "t.py", 1, module, (dtype,), (gives or dtype,), "", "cpu")


def of(*operations: Operation, count: int = 2, seconds: Iterable[float] = ()) -> Record:
    times = dict(zip(operations, seconds, strict=False))
    return Record(operations=Counter(dict.fromkeys(operations, count)), seconds=times)


def shown(record: Record, most: int = 20) -> list[str]:
    return [" " * row.depth + row.node.name for row in rows(tree(record), most)]


def layers(dtypes: Iterable[str], op: str = "mm") -> Iterator[Operation]:
    for number, dtype in enumerate(dtypes):
        yield ran(f"model.layers.{number}", "layer_norm", FULL)
        yield ran(f"model.layers.{number}.mlp", op, dtype)


def test_layers_that_did_the_same_are_one_row() -> None:
    record = of(ran("model", "add", FULL), *layers([HALF] * 11 + [FULL]), ran("model.head", "mm", HALF))
    assert shown(record) == ["model", " layers", "  0-10", "   mlp", "  11", "   mlp", " head"]
    head = tree(record)[0]
    assert (head.modules, head.products, head.in_half) == (1, 26, 24)
    first, last = head.children[0].children
    assert (first.modules, first.path, first.products, first.in_half) == (11, "model.layers.0", 22, 22)
    assert (first.dtypes, last.dtypes) == ({HALF: 22, FULL: 22}, {FULL: 4})


def test_layers_in_turns_and_what_only_holds_them() -> None:
    assert shown(of(ran("model", "add", FULL), *layers([HALF, FULL] * 3))) == [
        *("model", " layers", "  0,2,4", "   mlp", "  1,3,5", "   mlp"),
    ]
    assert shown(of(ran("model", "add", FULL), *layers([HALF] * 3))) == ["model", " layers.0-2", "  mlp"]
    assert shown(of(ran("model.encoder.block", "mm", HALF))) == ["model.encoder.block"]


@pytest.mark.parametrize("other", [ran("net.1", "mm", FULL), ran("net.1.inner", "mm", HALF)])
def test_layers_that_did_something_else_are_not(other: Operation) -> None:
    assert len(shown(of(ran("net.0", "mm", HALF), other, ran("net", "add", FULL)))) == 3


def test_what_is_counted() -> None:
    record = of(
        ran("net", "mm", HALF),
        ran("net", "convolution_backward", FULL, "backward"),
        ran("net", "_scaled_dot_product_flash_attention", "bfloat16"),
        ran("net", "_scaled_mm", "float8_e4m3fn", gives=FULL),
        ran("net", "_to_copy", FULL, gives=HALF),
        ran("net", "view", HALF),
        ran("net", "mm", FULL, "optimizer"),
    )
    (node,) = tree(record)
    assert (node.products, node.in_half, node.casts) == (8, 6, 2)
    assert node.dtypes == {HALF: 2, FULL: 2, "bfloat16": 2, "float8_e4m3fn": 2}


@pytest.mark.parametrize("op", ["view", "squeeze_", "set_", "resolve_conj", "empty"])
def test_what_computes_nothing_is_not(op: str) -> None:
    (node,) = tree(of(ran("net", op, HALF), ran("net", "mul_", FULL)))
    assert node.dtypes == {FULL: 2}


def test_what_is_outside_comes_last() -> None:
    assert [node.path for node in tree(of(ran("", "mul", FULL), ran("a", "mm", HALF), ran("b.c", "mm", HALF)))] == [
        *("a", "b.c", ""),
    ]


def test_of_many_the_busiest_are_opened() -> None:
    first = [ran("a", "add", FULL), ran("a.x", "mm", HALF), ran("a.y", "mm", FULL)]
    second = [ran("b", "add", FULL), ran("b.x", "mm", HALF), ran("b.y", "mm", FULL)]
    record = of(*first, *second, seconds=[1, 1, 1, 2, 2, 2])
    assert shown(record, 4) == ["a", "b", " x", " y"]
    assert [row.folded for row in rows(tree(record), 4)] == [True, False, False, False]
    assert shown(record, 1) == ["a", "b"]
    record.seconds.clear()
    record.operations[first[0]] = 9
    assert shown(record, 4) == ["a", " x", " y", "b"]


def test_the_table() -> None:
    operations = [ran("model", "add", FULL), *layers([HALF] * 2), ran("model.head", "mm", HALF), ran("", "mul", FULL)]
    assert list(by_module(of(*operations, seconds=[1, 1, 2, 1, 2, 2, 1]), 80)) == [
        "",
        "module by module:",
        "  module              computes in       products in half  time",
        "  model               float16, float32            6 of 6  90 %",
        "    layers.0-1        float16, float32            4 of 4  60 %",
        "      mlp             float16                     4 of 4  40 %",
        "    head              float16                     2 of 2  20 %",
        "  outside of modules  float32                             10 %",
    ]
    assert all(len(line) <= 60 for line in by_module(of(*operations, ran("model." + 9 * "long", "mm", HALF)), 60))


def test_a_model_without_parts_needs_no_table() -> None:
    assert list(by_module(of(ran("model", "mm", HALF), ran("", "mul", FULL)), 80)) == []


def test_a_tree_of_many_modules_is_quick() -> None:
    nodes: list[Node] = tree(of(*(ran(f"m{number}.x", "mm", HALF) for number in range(5_000))))
    assert len(nodes) == 5_000
