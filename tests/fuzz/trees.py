"""Mutants of programs: their trees are changed, so that they stay Python."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Iterator

from tests.chance import Numbers

_AROUND = (
    "if flag:\n    pass",
    "for _ in range(2):\n    pass",
    "while flag:\n    pass",
    "try:\n    pass\nexcept ValueError:\n    pass",
    "try:\n    pass\nfinally:\n    pass",
    "with torch.no_grad():\n    pass",
    "with torch.autocast('cuda', enabled=flag):\n    pass",
    "def inner():\n    pass",
    "class Inner:\n    pass",
    "match flag:\n    case 1:\n        pass",
    "async def inner():\n    pass",
)
_EXPRESSIONS = (
    *("None", "0", "-1", "1e30", "'text'", "f'{x}'", "[]", "{}", "(x := 1)", "lambda: x", "x if x else y", "not x"),
    *("x[0]", "x.y.z", "x()", "x(*y, **z)", "[a for a in x if a]", "{a: b for a, b in x}", "x and y", "x < y < z"),
    *("await_", "super().x", "self.x", "torch.amp.GradScaler()", "torch.autocast('cuda')", "x.half()", "float('inf')"),
)
_STATEMENTS = (
    *(
        "pass",
        "return",
        "return x",
        "break",
        "continue",
        "raise",
        "del x",
        "global x",
        "x = yield",
        "x += 1",
        "a = b = x",
    ),
    *("import torch as x", "from torch.cuda.amp import *", "assert x", "(a, *b) = x", "x: int = 1", "x.y[0] = 1"),
    *("scaler.update()", "scaler.step(optimizer)", "loss.backward()", "optimizer.zero_grad()", "scaler = None"),
)
_BLOCKS = ("body", "orelse", "finalbody")


def mutant(text: str, other: str, numbers: Numbers) -> str:
    """`text` after a few changes of its tree, for which parts of `other` are used, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree, donor = ast.parse(text), ast.parse(other)
        for _ in range(1 + numbers(5)):
            _change(tree, donor, numbers)
        written = ast.unparse(ast.fix_missing_locations(tree))
        try:
            ast.parse(written)
        except (SyntaxError, ValueError):  # such as `break` in a place that only the grammar allows
            return text
    return f"{written}\n"


def _change(tree: ast.Module, donor: ast.Module, numbers: Numbers) -> None:
    blocks = list(_blocks(tree))
    block = blocks[numbers(len(blocks) - 1)]
    at = numbers(len(block) - 1)
    kind = numbers(7)
    if kind == 0 and len(block) > 1:
        del block[at]
    elif kind == 1:
        block.insert(numbers(len(block)), copy.deepcopy(block[at]))
    elif kind == 2:
        other = blocks[numbers(len(blocks) - 1)]
        there = numbers(len(other) - 1)
        block[at], other[there] = copy.deepcopy(other[there]), copy.deepcopy(block[at])
    elif kind == 3:
        around = ast.parse(_AROUND[numbers(len(_AROUND) - 1)]).body[0]
        inner = list(_blocks(around))
        inner[numbers(len(inner) - 1)][:] = block[at : at + 1 + numbers(3)]
        block[at : at + 1] = [around]
    elif kind == 4:
        block.insert(at, ast.parse(_STATEMENTS[numbers(len(_STATEMENTS) - 1)]).body[0])
    elif kind == 5:
        given = list(_blocks(donor))
        taken = given[numbers(len(given) - 1)]
        block[at:at] = copy.deepcopy(taken[: 1 + numbers(4)])
    else:
        _exchange(tree, donor if kind == 6 else None, numbers)


def _exchange(tree: ast.Module, donor: ast.Module | None, numbers: Numbers) -> None:
    """Put another expression in the place of one: one of `donor`, or one of a few."""
    places = list(_places(tree))
    if not places:
        return
    parent, field, index = places[numbers(len(places) - 1)]
    new: ast.expr
    if donor is None:
        new = ast.parse(_EXPRESSIONS[numbers(len(_EXPRESSIONS) - 1)], mode="eval").body
    else:
        given = [node for node in ast.walk(donor) if isinstance(node, ast.expr) and _is_loaded(node)]
        new = copy.deepcopy(given[numbers(len(given) - 1)]) if given else ast.Constant(0)
    if index is None:
        setattr(parent, field, new)
    else:
        getattr(parent, field)[index] = new


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where an expression stands whose place any other can take."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.pattern, ast.match_case)):
            continue
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and _is_loaded(value):
                yield node, field, None
            elif isinstance(value, list):
                yield from (
                    (node, field, i) for i, one in enumerate(value) if isinstance(one, ast.expr) and _is_loaded(one)
                )


def _is_loaded(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not isinstance(node, (ast.Starred, ast.Slice))


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block
