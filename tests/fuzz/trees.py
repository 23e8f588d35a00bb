"""Mutants of programs: their trees are changed, so that they stay Python."""

from __future__ import annotations

import ast
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any

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


_NUMBERS = (
    "0x0",
    "0b1",
    "0o17",
    "1_000",
    "0_0",
    "0xFFFF_FFFF",
    "1_0.0_1e1_0",
    ".5",
    "5.",
    "1E9",
    "00",
    "1e400",
    "2j",
    "0J",
)
_TEXTS = ("''", "'a' 'b'", "r'\\x'", "b'\\xff'", "f''", "f'{x!r:>{y}}'", "u'a'", "f'{x=}'", "'\\ud800'", "'''a\nb'''")


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


def pared(text: str, numbers: Numbers) -> str:
    """`text` after parts of a few expressions have been left out, doubled, starred, named or spelled in another way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
        for _ in range(1 + numbers(3)):
            kinds = sorted(_PARED, key=lambda kind: kind.__name__)
            kind = kinds[numbers(len(kinds) - 1)]
            places = [node for node in ast.walk(tree) if isinstance(node, kind)]
            if places:
                _PARED[kind](places[numbers(len(places) - 1)], numbers)
        try:
            written = ast.unparse(ast.fix_missing_locations(tree))
            ast.parse(written)
        except (SyntaxError, ValueError):  # such as a starred target that stands alone
            return text
    return f"{written}\n"


def _pare_list(found: list[Any], numbers: Numbers) -> None:
    """Leave out all or one, double one, or star one."""
    kind = numbers(4)
    at = numbers(max(0, len(found) - 1))
    if kind == 0 or not found:
        found.clear()
    elif kind == 1:
        del found[at]
    elif kind == 2:
        found.insert(at, copy.deepcopy(found[at]))
    elif kind == 3 and isinstance(found[at], (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        found[at] = ast.Starred(found[at], getattr(found[at], "ctx", ast.Load()))
    else:
        found.reverse()


def _pare_call(call: ast.Call, numbers: Numbers) -> None:
    kind = numbers(4)
    if kind == 0:
        call.args, call.keywords = [], []
    elif kind == 1 and call.args:
        call.keywords.insert(0, ast.keyword(("x", "loss", "input", "enabled", None)[numbers(4)], call.args.pop()))
    elif kind == 2 and call.keywords:
        call.args.append(call.keywords.pop(numbers(len(call.keywords) - 1)).value)
    elif kind == 3 and call.keywords:
        call.keywords[numbers(len(call.keywords) - 1)].arg = None
    else:
        _pare_list(call.args, numbers)


def _pare_dict(found: ast.Dict, numbers: Numbers) -> None:
    if found.keys and numbers(1):
        found.keys[numbers(len(found.keys) - 1)] = None
    else:
        found.keys, found.values = [], []


def _pare_constant(found: ast.Constant, numbers: Numbers) -> None:
    """Spell it in another way: what `unparse` writes of a name is the name."""
    ways = _TEXTS if isinstance(found.value, str) else _NUMBERS
    if isinstance(found.value, (str, int, float)):
        found.value = _Spelled(ways[numbers(len(ways) - 1)])


class _Spelled:
    """What is written as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _pare_target(found: ast.For | ast.withitem | ast.comprehension | ast.Assign, numbers: Numbers) -> None:
    odd = ("()", "[]", "[*a]", "a.b", "a[0]", "(a, (b, *c))", "a[()]", "a[:, 0]", "_", "(a,)")
    new = ast.parse(f"{odd[numbers(len(odd) - 1)]} = 0").body[0]
    assert isinstance(new, ast.Assign)
    if isinstance(found, ast.withitem):
        found.optional_vars = new.targets[0] if numbers(3) else None
    elif isinstance(found, ast.Assign):
        found.targets.insert(numbers(1), new.targets[0])
    else:
        found.target = new.targets[0]


def _pare_arguments(found: ast.arguments, numbers: Numbers) -> None:
    kind = numbers(4)
    if kind == 0:
        found.args, found.defaults = [], []
    elif kind == 1:
        found.posonlyargs, found.args = [*found.posonlyargs, *found.args], []
    elif kind == 2:
        found.kwonlyargs, found.args = [*found.kwonlyargs, *found.args], []
        found.kw_defaults, found.defaults = [*found.kw_defaults, *[None] * len(found.kwonlyargs)], []
        found.kw_defaults = found.kw_defaults[: len(found.kwonlyargs)]
    elif kind == 3:
        found.vararg = ast.arg("args")
    else:
        found.kwarg = ast.arg("kwargs")


def _pare_subscript(found: ast.Subscript, numbers: Numbers) -> None:
    odd = ("x[()]", "x[:]", "x[::2]", "x[...]", "x[:, None]", "x[-1]", "x['a']", "x[lambda: 0]")
    new = ast.parse(odd[numbers(len(odd) - 1)], mode="eval").body
    assert isinstance(new, ast.Subscript)
    found.slice = new.slice


def _pare_compare(found: ast.Compare, numbers: Numbers) -> None:
    operators = (ast.Is, ast.NotIn, ast.Eq, ast.Lt, ast.GtE, ast.NotEq, ast.In)
    found.ops[numbers(len(found.ops) - 1)] = operators[numbers(len(operators) - 1)]()
    if numbers(3) == 0:
        found.ops.append(ast.Lt())
        found.comparators.append(copy.deepcopy(found.left))


def _pare_operator(found: ast.BinOp | ast.AugAssign, numbers: Numbers) -> None:
    operators = (ast.MatMult, ast.Pow, ast.FloorDiv, ast.Mod, ast.LShift, ast.BitOr, ast.Sub, ast.Div)
    found.op = operators[numbers(len(operators) - 1)]()


_PARED: dict[type[ast.AST], Callable[[Any, Numbers], None]] = {
    ast.Call: _pare_call,
    ast.Tuple: lambda found, numbers: _pare_list(found.elts, numbers),
    ast.List: lambda found, numbers: _pare_list(found.elts, numbers),
    ast.Dict: _pare_dict,
    ast.Constant: _pare_constant,
    ast.For: _pare_target,
    ast.withitem: _pare_target,
    ast.comprehension: _pare_target,
    ast.Assign: _pare_target,
    ast.arguments: _pare_arguments,
    ast.Subscript: _pare_subscript,
    ast.Compare: _pare_compare,
    ast.BinOp: _pare_operator,
    ast.AugAssign: _pare_operator,
    ast.ClassDef: lambda found, numbers: _pare_list(found.bases, numbers),
    ast.Delete: lambda found, numbers: _pare_list(found.targets, numbers),
    ast.With: lambda found, numbers: found.items.insert(0, copy.deepcopy(found.items[numbers(len(found.items) - 1)])),
}
"""What is changed in a node of each kind."""


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
