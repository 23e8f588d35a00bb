"""What linting costs as one thing in a file grows: each shape is doubled until it takes long, or is large.

    python -m benchmarks.doublings [NAME...]

It prints a row of Markdown for each shape: processor seconds for each size, and by how much time grows in the last
doubling that takes long enough to be told from noise (2 is proportion, 4 is a square).
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.patterns import Patterns
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter

LIMIT_S = 60
"""Processor seconds after which the process that measures a shape is ended."""
ENOUGH_S = 12.0
"""A size that takes longer is the last one."""
NOISE_S = 0.1

HEAD = """\
import torch
from torch.cuda.amp import GradScaler

model = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = GradScaler()
for x in loader:
    with torch.autocast("cuda"):
        loss = model(x).sum()
"""
TAIL = """\
    scaler.scale(loss).backward()
    scaler.step(opt)
    scaler.update()
"""


@dataclass(frozen=True)
class Shape:
    """What grows: the text of size n, the sizes to begin and to end with."""

    text: Callable[[int], str]
    first: int
    last: int


def in_loop(lines: Iterable[str]) -> str:
    """A training script with these lines in its loop."""
    return HEAD + "".join(f"    {line}\n" for line in lines) + TAIL


def nested(header: str, n: int) -> str:
    """A training script whose loop holds `n` blocks in each other."""
    opened = [f"{'    ' * depth}{header.format(depth=depth)}" for depth in range(n)]
    return in_loop([*opened, "    " * n + "scaler.scale(loss).backward()"])


def tried(n: int, call: str) -> str:
    """As many `try` statements around calls in a row."""
    written = (call.format(number=i) for i in range(n))
    return in_loop(line for one in written for line in ("try:", f"    {one}", "except ValueError:", "    pass"))


def trainings(n: int) -> str:
    """As many functions that train, each with a mistake in it."""
    one = (
        "def train{number}(model, optimizer, loader):\n"
        "    scaler = torch.amp.GradScaler('cuda')\n"
        "    for x in loader:\n"
        "        optimizer.zero_grad()\n"
        "        with torch.autocast('cuda', dtype=torch.float16):\n"
        "            loss = model(x).square().mean()\n"
        "        scaler.scale(loss).backward()\n"
        "        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "        scaler.step(optimizer)\n"
        "        scaler.update()\n"
    )
    return "import torch\n" + "".join(one.format(number=i) for i in range(n))


def squared(n: int) -> str:
    """A window of micro-batches whose loss is the sum of two products, one of them squared as often."""
    return (
        "import torch\n"
        "def train(model, optimizer, loader, every, weight):\n"
        "    for i, x in enumerate(loader):\n"
        "        loss = model(x)\n"
        + "        loss = loss * loss\n"
        * n
        + "        (loss * weight + x * every.other).backward()\n"
        "        if (i + 1) % every.steps == 0:\n"
        "            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )


def chained(n: int) -> str:
    """As many classes, each derived from the one before."""
    classes = "".join(
        f"class M{i}(M{i - 1}):\n    def forward(self, x):\n        return super().forward(x)\n\n" for i in range(1, n)
    )
    first = "class M0(torch.nn.Module):\n    def forward(self, x):\n        return x\n\n"
    return f"import torch\n{first}{classes}{in_loop([f'M{n - 1}()(x)'])}"


def notebook(n: int) -> str:
    """A notebook of as many cells."""
    cells = ",".join(
        f'{{"cell_type": "code", "metadata": {{}}, "outputs": [], "source": ["x{i} = torch.ones(1)"]}}'
        for i in range(n)
    )
    return f'{{"nbformat": 4, "nbformat_minor": 5, "metadata": {{}}, "cells": [{cells}]}}'


SHAPES: Mapping[str, Shape] = MappingProxyType(
    {
        "`if a and a and ...`": Shape(
            lambda n: in_loop([f"if {' and '.join(f'a{i}' for i in range(n))}:", "    scaler.unscale_(opt)"]), 50, 800
        ),
        "the same, one name": Shape(
            lambda n: in_loop([f"if {' and '.join(['a'] * n)}:", "    scaler.unscale_(opt)"]), 50, 800
        ),
        "`if not (a or not (b and ...))`": Shape(
            lambda n: in_loop(
                [
                    "if " + "".join(f"not (a{i} {('or', 'and')[i % 2]} " for i in range(n)) + "b" + ")" * n + ":",
                    "    scaler.unscale_(opt)",
                ]
            ),
            8,
            64,
        ),
        "nested `for`": Shape(lambda n: nested("for i{depth} in range(9):", n), 4, 16),
        "nested `while`": Shape(lambda n: nested("while a{depth} < 9:", n), 4, 16),
        "nested `with`": Shape(lambda n: nested("with torch.autocast('cuda', enabled=a{depth}):", n), 4, 16),
        "nested `if`": Shape(lambda n: nested("if a{depth}:", n), 10, 80),
        "nested `try`": Shape(
            lambda n: in_loop(
                [
                    *(f"{'    ' * i}try:" for i in range(n)),
                    "    " * n + "scaler.unscale_(opt)",
                    *(
                        f"{'    ' * i}{word}"
                        for i in reversed(range(n))
                        for word in ("except ValueError:", "    scaler.update()")
                    ),
                ]
            ),
            4,
            16,
        ),
        "`if a: unscale_` in a row": Shape(
            lambda n: in_loop(line for i in range(n) for line in (f"if a{i}:", "    scaler.unscale_(opt)")), 50, 1600
        ),
        "`if a: list + [...]` in a row": Shape(
            lambda n: (
                "import torch\n\ndef train(m, a, x):\n    scaler = torch.amp.GradScaler()\n"
                + "".join(f"    if a[{i}]:\n        x = x + [m, {i}]\n" for i in range(n))
                + "    scaler.step(torch.optim.SGD(x, lr=0.1))\n    scaler.update()\n"
            ),
            10,
            320,
        ),
        "`try` in a row": Shape(lambda n: tried(n, "scaler.unscale_(opt)"), 50, 1600),
        "`try` in a row, an optimizer each": Shape(lambda n: tried(n, "scaler.unscale_(opt{number})"), 25, 800),
        "`a or b or ...` as a value": Shape(
            lambda n: in_loop([f"y = {' or '.join(f'a{i}' for i in range(n))}"]), 100, 3200
        ),
        "`a + b + ...`": Shape(lambda n: in_loop([f"y = {' + '.join(f'a{i}' for i in range(n))}"]), 100, 3200),
        "`a < b < ...`": Shape(lambda n: in_loop([f"y = {' < '.join(f'a{i}' for i in range(n))}"]), 100, 3200),
        "`x if a else (...)`": Shape(
            lambda n: in_loop(["y = " + " ".join(f"x{i} if a{i} else" for i in range(n)) + " x"]), 8, 512
        ),
        "`x[0][0]...`": Shape(lambda n: in_loop([f"y = x{'[0]' * n}"]), 100, 3200),
        "`x.a.a...`": Shape(lambda n: in_loop([f"y = x{'.a' * n}"]), 100, 3200),
        "`x.f().f()...`": Shape(lambda n: in_loop([f"y = x{'.f()' * n}"]), 100, 3200),
        "`f(f(...))`": Shape(lambda n: in_loop([f"y = {'f(' * n}x{')' * n}"]), 10, 80),
        "`except` clauses": Shape(
            lambda n: in_loop(
                [
                    "try:",
                    "    scaler.unscale_(opt)",
                    *(line for i in range(n) for line in (f"except E{i}:", "    scaler.update()")),
                ]
            ),
            50,
            1600,
        ),
        "`elif` clauses": Shape(
            lambda n: in_loop(
                ["if a:", "    pass", *(line for i in range(n) for line in (f"elif a{i}:", "    scaler.unscale_(opt)"))]
            ),
            50,
            800,
        ),
        "`case` clauses": Shape(
            lambda n: in_loop(
                ["match a:", *(line for i in range(n) for line in (f"    case {i}:", "        scaler.unscale_(opt)"))]
            ),
            50,
            1600,
        ),
        "optimizers": Shape(
            lambda n: (
                "import torch\n"
                + "".join(f"opt{i} = torch.optim.SGD(p, lr=0.1)\n" for i in range(n))
                + in_loop(f"scaler.unscale_(opt{i})" for i in range(n))
            ),
            50,
            1600,
        ),
        "scalers": Shape(
            lambda n: (
                "import torch\n"
                + "".join(f"s{i} = torch.amp.GradScaler()\n" for i in range(n))
                + in_loop(f"s{i}.update()" for i in range(n))
            ),
            50,
            1600,
        ),
        "`loss = loss * loss`": Shape(squared, 10, 640),
        "subclass chain": Shape(chained, 50, 800),
        "attributes of `self`": Shape(
            lambda n: (
                "import torch\nclass A(torch.nn.Module):\n    def __init__(self):\n"
                + "".join(f"        self.a{i} = torch.nn.Linear(1, 1)\n" for i in range(n))
                + "    def forward(self, x):\n        with torch.autocast('cuda'):\n"
                + "".join(f"            x = self.a{i}(x)\n" for i in range(n))
                + "        return x\n"
            ),
            100,
            3200,
        ),
        "functions": Shape(
            lambda n: (
                HEAD
                + TAIL
                + "".join(
                    f"def f{i}(loss):\n    scaler.scale(loss).backward()\n    scaler.step(opt)\n    f{i + 1}(loss)\n"
                    for i in range(n)
                )
            ),
            100,
            3200,
        ),
        "functions that train": Shape(trainings, 25, 800),
        "arguments": Shape(lambda n: in_loop([f"f({', '.join(f'a{i}=x' for i in range(n))})"]), 100, 12800),
        "parameters": Shape(
            lambda n: f"{HEAD}{TAIL}def f({', '.join(f'a{i}=None' for i in range(n))}):\n    scaler.step(opt)\nf(1)\n",
            100,
            12800,
        ),
        "elements of a list": Shape(lambda n: in_loop([f"y = [{', '.join(f'a{i}' for i in range(n))}]"]), 100, 12800),
        "entries of a dict": Shape(
            lambda n: in_loop([f"y = {{{', '.join(f'{i}: a{i}' for i in range(n))}}}", "z = y[1]"]), 100, 12800
        ),
        "targets `a = b = ...`": Shape(lambda n: in_loop([f"{' = '.join(f'a{i}' for i in range(n))} = x"]), 100, 6400),
        "string parts": Shape(lambda n: in_loop(["y = " + "'a' " * n]), 100, 12800),
        "f-string parts": Shape(lambda n: in_loop([f"y = f'{'{x}a' * n}'"]), 100, 6400),
        "comprehension clauses": Shape(
            lambda n: in_loop([f"y = [x {' '.join(f'for a{i} in x' for i in range(n))}]"]), 20, 640
        ),
        "nested lambdas": Shape(lambda n: in_loop([f"y = {'lambda: ' * n}x"]), 10, 80),
        "nested functions": Shape(
            lambda n: (
                HEAD
                + TAIL
                + "".join(f"{'    ' * i}def f{i}(loss):\n" for i in range(n))
                + "    " * n
                + "scaler.step(opt)\n"
            ),
            5,
            80,
        ),
        "decimal digits": Shape(lambda n: in_loop([f"y = {'9' * n}"]), 8_000, 256_000),
        "hexadecimal digits": Shape(lambda n: in_loop([f"y = 0x{'9' * n}"]), 8_000, 256_000),
        "`import a.a...`": Shape(lambda n: f"import {'.'.join(['a'] * n)}\n{in_loop(['pass'])}", 400, 12_800),
        "`from ....`": Shape(lambda n: f"from {'.' * n} import a\n{in_loop(['pass'])}", 5_000, 160_000),
        "`from a import (` lines": Shape(
            lambda n: HEAD + TAIL + "'''\n" + "from a import (\n" * n + "'''\n", 4_000, 128_000
        ),
        "comments in an open parenthesis of an import": Shape(
            lambda n: HEAD + TAIL + "'''\nfrom a import (" + "  # a\n" * n + "'''\n", 4_000, 128_000
        ),
        "`from torch import f(f(...`": Shape(
            lambda n: HEAD + TAIL + f"'''\nfrom torch import {'f(' * n}\n'''\n", 4_000, 128_000
        ),
        "`noqa: A1` and blanks": Shape(lambda n: in_loop([f"y = 1  # noqa: A1{' ' * n}!"]), 10_000, 320_000),
        "`noqa:noqa:...`": Shape(lambda n: in_loop([f"y = 1  # amp{'noqa:' * n}"]), 10_000, 320_000),
        "`# amplint: ignore[` again and again": Shape(
            lambda n: in_loop([f"y = 1  {'# amplint: ignore[ ' * n}"]), 4_000, 128_000
        ),
        "`#` and blanks": Shape(lambda n: in_loop([f"y = 1  # noqa {'#    ' * n}"]), 10_000, 320_000),
        "`amplint` and blanks": Shape(lambda n: in_loop([f"y = 1  # amplint{' ' * n}!"]), 10_000, 320_000),
        "`amplint` words": Shape(lambda n: in_loop([f"y = 1  # {'amplint  ' * n}"]), 10_000, 320_000),
        "suppressed lines": Shape(lambda n: in_loop("GradScaler()  # noqa: AMP601" for _ in range(n)), 100, 6_400),
        "suppressed elements": Shape(
            lambda n: in_loop(["y = (", *["    GradScaler(),  # noqa: AMP601"] * n, ")"]), 100, 12_800
        ),
        "`import import ...`": Shape(lambda n: in_loop([f"y = 'half {'import ' * n}'"]), 16_000, 256_000),
        "`def f(def f(...`": Shape(lambda n: f"y = '{'def f(' * n} 1e9 inf'\n", 32_000, 256_000),
        "`norm(norm(...`": Shape(lambda n: f"y = '{'norm(' * n} .grad'\n", 32_000, 256_000),
        "findings": Shape(lambda n: in_loop("GradScaler()" for _ in range(n)), 100, 3_200),
        "blank lines": Shape(lambda n: in_loop(["pass"]) + "\n" * n, 40_000, 1_280_000),
        "backslashes": Shape(lambda n: in_loop(["y = " + "\\\n" * n + "1"]), 1_000, 64_000),
        "brackets": Shape(lambda n: in_loop([f"y = {'(' * n}x{')' * n}"]), 10, 80),
        "cells of a notebook": Shape(notebook, 200, 6_400),
    }
)

GLOBS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "`*a` n times": ("*a", "b"),
        "`?*` n times": ("?*", "/x"),
        "`[ab]*` n times": ("[ab]*", "c"),
        "`**/a/` n times": ("**/a/", "b"),
    }
)
"""A piece of a pattern that is repeated, and its end; the name that it is compared with is long."""


def lint(name: str, text: str) -> None:
    """Lint a text with every rule."""
    file = f"{os.sep}nowhere{os.sep}train{'.ipynb' if 'notebook' in name else '.py'}"
    settings = Settings(root=Path(file).parent, select=("ALL",))
    projects = Projects(load_registry().rules, fixed=settings)
    Linter(projects, Cache(None)).check(Target("train", file, settings), text.encode())


def match(name: str, n: int) -> None:
    """Compare a pattern of `n` pieces with a name that almost matches."""
    piece, end = GLOBS[name]
    Patterns("/nowhere", [piece * n + end]).verdict("/nowhere/" + "a/" * 50 * ("/" in piece) + "a" * 200 + "c/d")


def measure(name: str, results: multiprocessing.connection.Connection) -> None:
    """Send size and processor seconds of each doubling of a shape."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    sizes = SHAPES[name] if name in SHAPES else Shape(str, 4, 64)
    lint("warm", in_loop(["pass"]))
    n = sizes.first
    while n <= sizes.last:
        text = sizes.text(n) if name in SHAPES else ""
        started = time.process_time()
        lint(name, text) if name in SHAPES else match(name, n)
        seconds = time.process_time() - started
        results.send((n, seconds))
        if seconds > ENOUGH_S:
            break
        n *= 2


def row(name: str) -> str:
    """What a shape costs, as a row of the table."""
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=measure, args=(name, sending))
    process.start()
    sending.close()
    seconds: dict[int, float] = {}
    try:
        while True:
            n, took = receiving.recv()
            seconds[n] = took
    except EOFError:
        process.join()
    ended = "" if process.exitcode == 0 else f", then more than {LIMIT_S} s or a crash"
    telling = [n for n, took in seconds.items() if took >= NOISE_S and n // 2 in seconds]
    growth = f"{seconds[telling[-1]] / seconds[telling[-1] // 2]:.1f}" if telling else "-"
    costs = ", ".join(f"{n:,}: {took:.2f}" for n, took in seconds.items())
    return f"| {name} | {costs}{ended} | {growth} |"


def main(names: list[str]) -> None:
    """Measure the shapes with one of these words in their names, or all of them."""
    print("| shape | size: processor seconds | last doubling |\n|---|---|---|")
    for name in [*SHAPES, *GLOBS]:
        if not names or any(word in name for word in names):
            print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
