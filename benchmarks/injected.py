"""How many mistakes amplint notices in strangers' training scripts, each made by changing one place of one file.

    python -m benchmarks.injected --repositories FOLDER [--half read|held] [--sample N] [--only TEXT] [--misses]
        [--operators NAMES]

FOLDER/owner/name is a plain checkout of each repository in `injected_repositories.tsv`; its Python files and
configuration are enough, and none of it is run. Of each repository, the file to which most operators apply is changed:
each operator of `OPERATORS` changes it at the first place where it applies. The mistake is noticed where the changed
file, linted in its repository by the default rules, has more findings of one of the expected codes than the file as it
was.

Repositories are divided in two halves by a hash of their names: misses of the half `read` may be looked at, those of
`held` are only counted.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from amplint.api import Settings, check

REPOSITORIES = Path(__file__).with_name("injected_repositories.tsv")
WINDOW_WORDS = ("accum", "update_freq", "grad_acc", "micro")

Block = list[ast.stmt]


class Script:
    """A Python file whose statements can be changed by their places in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines = text.splitlines(keepends=True)

    @cached_property
    def blocks(self) -> list[Block]:
        """All lists of statements, in the order of the text."""
        found = [
            block
            for node in ast.walk(self.tree)
            for name in ("body", "orelse", "finalbody")
            if isinstance(block := getattr(node, name, None), list) and block
        ]
        return sorted(found, key=lambda block: block[0].lineno)

    def statements(self, holds: Callable[[ast.stmt], bool]) -> Iterator[tuple[Block, int]]:
        """Block and index of the statements on rows of their own for which `holds` is true."""
        for block in self.blocks:
            for index, statement in enumerate(block):
                if holds(statement) and self._alone(statement):
                    yield block, index

    def nodes(self, kind: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of a kind, in the order of the text."""
        found = [node for node in ast.walk(self.tree) if isinstance(node, kind)]
        return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))  # type: ignore[attr-defined]

    def without(self, statement: ast.stmt) -> str:
        """The text with `pass` in place of a statement."""
        return self.replaced(statement, "pass")

    def replaced(self, node: ast.AST, new: str) -> str:
        """The text with other code in place of a node."""
        start, end = self._span(node)
        raw = self.text.encode()
        return (raw[:start] + new.encode() + raw[end:]).decode()

    def moved(self, statement: ast.stmt, *, behind: ast.stmt | None = None, before: ast.stmt | None = None) -> str:
        """The text with a statement moved to the level of another one, behind or before it."""
        return self.inserted(self.rows_of(statement), behind=behind, before=before, dropped=statement)

    def inserted(
        self,
        rows: list[str],
        *,
        behind: ast.stmt | None = None,
        before: ast.stmt | None = None,
        dropped: ast.stmt | None = None,
    ) -> str:
        """The text with `rows` behind or before a statement, at its level, and with `pass` for one `dropped`."""
        anchor = behind or before
        assert anchor is not None
        at = _last_row(anchor) if behind is not None else _first_row(anchor) - 1
        lines = [*self.lines]
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        new = [(" " * anchor.col_offset + row if row.strip() else row) for row in rows]
        if dropped is not None:
            first, last = _first_row(dropped) - 1, _last_row(dropped)
            gone = [" " * dropped.col_offset + "pass\n"]
            if first < at:
                lines[at:at] = new
                lines[first:last] = gone
                return "".join(lines)
            lines[first:last] = gone
        lines[at:at] = new
        return "".join(lines)

    def rows_of(self, statement: ast.stmt) -> list[str]:
        """The rows of a statement without the indentation of its first."""
        margin = " " * statement.col_offset
        rows = self.lines[_first_row(statement) - 1 : _last_row(statement)]
        return [row.removeprefix(margin).rstrip("\n") + "\n" for row in rows]

    def source(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self._span(node)
        return self.text.encode()[start:end].decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, (ast.expr, ast.stmt, ast.keyword))
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        starts = self._starts
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line.encode()))
        return starts

    def _alone(self, statement: ast.stmt) -> bool:
        """Whether nothing else is on its rows."""
        before = self.lines[statement.lineno - 1][: statement.col_offset]
        rest = self.lines[_last_row(statement) - 1].encode()[statement.end_col_offset :].decode().strip()
        return not before.strip() and (not rest or rest.startswith("#"))


def _first_row(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _last_row(statement: ast.stmt) -> int:
    assert statement.end_lineno is not None
    return statement.end_lineno


def _called(node: ast.AST | None, *names: str) -> bool:
    """Whether a node calls something of one of these names."""
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in names


def _words(node: ast.AST) -> str:
    return ast.unparse(node).lower()


def _scaler(node: ast.AST) -> bool:
    """Whether an expression is a gradient scaler, by its name."""
    return isinstance(node, (ast.Name, ast.Attribute)) and "scaler" in _words(node).rpartition(".")[2]


def _scaler_call(node: ast.AST | None, name: str) -> bool:
    return _called(node, name) and _scaler(node.func.value)  # type: ignore[union-attr]


def _value(statement: ast.stmt) -> ast.expr | None:
    return statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None


def _is_backward(statement: ast.stmt) -> bool:
    value = _value(statement)
    return _called(value, "backward") and _scaler_call(value.func.value, "scale")  # type: ignore[union-attr]


def _is_step(statement: ast.stmt) -> bool:
    value = _value(statement)
    return _scaler_call(value, "step") and len(value.args) == 1 and not value.keywords  # type: ignore[union-attr]


def _is_update(statement: ast.stmt) -> bool:
    return _scaler_call(_value(statement), "update")


def _is_unscale(statement: ast.stmt) -> bool:
    return _scaler_call(_value(statement), "unscale_")


def _is_zero_grad(statement: ast.stmt) -> bool:
    return _called(_value(statement), "zero_grad")


def _is_clip(statement: ast.stmt) -> bool:
    return any(
        _called(node, "clip_grad_norm_", "clip_grad_value_") and not any(map(_is_none, node.args))  # type: ignore[attr-defined]
        for node in ast.walk(statement)
    )


def _is_none(node: ast.expr) -> bool:
    """Whether an argument is None: such a clipping only measures."""
    return isinstance(node, ast.Constant) and node.value is None


def _simple(statement: ast.stmt) -> bool:
    return isinstance(statement, (ast.Expr, ast.Assign, ast.AugAssign))


def _is_region(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.With) and any(_called(item.context_expr, "autocast") for item in statement.items)


def _trains(following: Block) -> bool:
    """Whether one of these statements runs backward."""
    return any(_called(node, "backward") for one in following for node in ast.walk(one))


def _is_window_end(statement: ast.stmt) -> bool:
    """Whether a condition on a remainder steps."""
    if not isinstance(statement, ast.If) or statement.orelse:
        return False
    remainder = any(isinstance(node, ast.Mod) for node in ast.walk(statement.test))
    return remainder and any(_is_step(one) or _is_plain_step(one) for one in statement.body)


def _is_plain_step(statement: ast.stmt) -> bool:
    value = _value(statement)
    return _called(value, "step") and "sch" not in _words(value.func)  # type: ignore[union-attr]


def _steps(script: Script) -> int:
    return sum(1 for _ in script.statements(_is_step))


def backward_in_region(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_region):
        if index + 1 < len(block) and _is_backward(block[index + 1]):
            region = block[index]
            assert isinstance(region, ast.With)
            yield script.moved(block[index + 1], behind=region.body[-1])


def loss_not_scaled(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_backward):
        scaled = block[index].value.func.value  # type: ignore[attr-defined]
        yield script.replaced(scaled, f"({script.source(scaled.args[0])})")


def scaled_loss_unused(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_backward):
        call = block[index].value  # type: ignore[attr-defined]
        scaled = call.func.value
        if isinstance(scaled.args[0], ast.Name):
            name = scaled.args[0].id
            rows = [f"{script.source(scaled)}\n", f"{name}.backward()\n"]
            yield script.inserted(rows, before=block[index], dropped=block[index])


def scaled_loss_read(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_backward):
        scaled = block[index].value.func.value  # type: ignore[attr-defined]
        loss = scaled.args[0]
        read = re.compile(rf"(?<![\w.]){re.escape(loss.id)}\.item\(\)") if isinstance(loss, ast.Name) else None
        if read is not None and any(read.search(ast.unparse(one)) for one in block[index + 1 :]):
            assert isinstance(loss, ast.Name)
            rows = [f"{loss.id} = {script.source(scaled)}\n", f"{loss.id}.backward()\n"]
            yield script.inserted(rows, before=block[index], dropped=block[index])


def unscale_dropped(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_unscale):
        if any(_is_clip(one) for one in block[index + 1 :]):
            yield script.without(block[index])


def unscale_doubled(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_unscale):
        yield script.inserted(script.rows_of(block[index]), behind=block[index])


def unscale_behind_step(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_unscale):
        for step in block[index + 1 :]:
            if _is_step(step):
                yield script.moved(block[index], behind=step)


def clip_behind_step(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_step):
        for clip in block[:index]:
            if _is_clip(clip) and not any(_is_backward(one) for one in ast.walk(clip) if isinstance(one, ast.stmt)):
                yield script.moved(clip, behind=block[index])


def step_past_scaler(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_step):
        call = block[index].value  # type: ignore[attr-defined]
        yield script.replaced(call, f"{script.source(call.args[0])}.step()")


def step_doubled(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_step):
        yield script.inserted(script.rows_of(block[index]), behind=block[index])


def update_dropped(script: Script) -> Iterator[str]:
    updates = [*script.statements(_is_update)]
    if len(updates) == 1:
        block, index = updates[0]
        yield script.without(block[index])


def update_doubled(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_update):
        yield script.inserted(script.rows_of(block[index]), behind=block[index])


def update_before_step(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_update):
        if index and _is_step(block[index - 1]):
            yield script.moved(block[index], before=block[index - 1])


def update_between_steps(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_step):
        following = block[index + 1 : index + 3]
        if len(following) == 2 and _is_step(following[0]) and _is_update(following[1]):
            yield script.inserted(script.rows_of(following[1]), behind=block[index])


def gradients_never_cleared(script: Script) -> Iterator[str]:
    cleared = [*script.statements(_is_zero_grad)]
    if len(cleared) == 1 and script.text.count("zero_grad") == 1:
        block, index = cleared[0]
        yield script.without(block[index])


def cleared_before_step(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_zero_grad):
        backward = [one for one in block if _is_backward(one)]
        if len(backward) == 1 and any(_is_step(one) for one in block):
            yield script.moved(block[index], behind=backward[0])


def cleared_in_window(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_window_end):
        end = block[index]
        assert isinstance(end, ast.If)
        for one in end.body:
            if _is_zero_grad(one):
                yield script.moved(one, behind=end)


def unscale_in_window(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_window_end):
        end = block[index]
        assert isinstance(end, ast.If)
        for one in end.body:
            if _is_unscale(one):
                yield script.moved(one, before=end)


def update_in_window(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_window_end):
        end = block[index]
        assert isinstance(end, ast.If)
        for one in end.body:
            if _is_update(one):
                yield script.moved(one, behind=end)


def _divisor(node: ast.AST) -> bool:
    return any(word in _words(node) for word in WINDOW_WORDS)


def division_dropped(script: Script) -> Iterator[str]:
    for block, index in script.statements(_simple):
        statement = block[index]
        if isinstance(statement, ast.AugAssign):
            if isinstance(statement.op, ast.Div) and "loss" in _words(statement.target) and _divisor(statement.value):
                yield script.without(statement)
        elif "loss" in _words(statement):
            for node in ast.walk(statement):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _divisor(node.right):
                    yield script.replaced(node, script.source(node.left))


def window_off_by_one(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_window_end):
        for node in ast.walk(block[index].test):  # type: ignore[attr-defined]
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.BinOp):
                left = node.left
                if isinstance(left.op, ast.Add) and isinstance(left.right, ast.Constant) and left.right.value == 1:
                    yield script.replaced(node, f"{script.source(left.left)} % ({script.source(node.right)})")


def last_window_dropped(script: Script) -> Iterator[str]:
    epochs = [block for block in script.blocks if any(_is_zero_grad(one) for one in block)]
    loops = [loop for block in epochs for loop in block if isinstance(loop, ast.For)]
    for block, index in script.statements(_is_window_end):
        if not any(block is loop.body for loop in loops):
            continue
        test = block[index].test  # type: ignore[attr-defined]
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) and "len(" in _words(test):
            kept = [one for one in test.values if any(isinstance(node, ast.Mod) for node in ast.walk(one))]
            if len(kept) == 1:
                yield script.replaced(test, script.source(kept[0]))


def scaler_in_loop(script: Script) -> Iterator[str]:
    def makes(statement: ast.stmt) -> bool:
        return isinstance(statement, ast.Assign) and _called(statement.value, "GradScaler")

    for block, index in script.statements(makes):
        for loop in block[index + 1 :]:
            if isinstance(loop, ast.For) and "scaler" in _words(loop):
                yield script.moved(block[index], before=loop.body[0])


def scaler_not_saved(script: Script) -> Iterator[str]:
    for node in script.nodes(ast.Dict):
        assert isinstance(node, ast.Dict)
        states = [_words(value) for value in node.values if _called(value, "state_dict")]
        if not any("optim" in state for state in states):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and _called(value, "state_dict") and "scaler" in _words(value):
                kept = [pair for pair in zip(node.keys, node.values, strict=True) if pair[1] is not value]
                items = (f"{script.source(k)}: {script.source(v)}" for k, v in kept if k is not None)
                yield script.replaced(node, "{" + ", ".join(items) + "}")


def scaler_not_restored(script: Script) -> Iterator[str]:
    wrappers = [one for one in script.nodes(ast.FunctionDef) if one.name == "load_state_dict"]  # type: ignore[attr-defined]
    passed_on = {id(node) for one in wrappers for node in ast.walk(one)}
    if "optimizer.load_state_dict" in script.text:
        for block, index in script.statements(lambda one: _scaler_call(_value(one), "load_state_dict")):
            if id(block[index]) not in passed_on:
                yield script.without(block[index])


def _model(node: ast.AST) -> bool:
    name = _words(node).rpartition(".")[2]
    return isinstance(node, (ast.Name, ast.Attribute)) and any(word in name for word in ("model", "net"))


def _forward(statement: ast.stmt) -> str:
    """The name of the model whose result a statement keeps, or nothing."""
    value = _value(statement) if isinstance(statement, ast.Assign) else None
    return _words(value.func) if isinstance(value, ast.Call) and _model(value.func) else ""


def forward_outside_region(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_region):
        region = block[index]
        assert isinstance(region, ast.With)
        name, rest = _forward(region.body[0]), region.body[1:]
        once = bool(name and rest) and not any(f"{name}(" in _words(one) for one in rest)
        if once and "loss" in _words(rest[0]) and _trains(block[index + 1 :]):
            yield script.moved(region.body[0], before=region)


def loss_outside_region(script: Script) -> Iterator[str]:
    losses = ("cross_entropy", *(("criterion", "loss_fn") if "CrossEntropyLoss" in script.text else ()))
    for block, index in script.statements(_is_region):
        region = block[index]
        assert isinstance(region, ast.With)
        last = region.body[-1]
        if len(region.body) > 1 and _forward(region.body[-2]) and isinstance(last, ast.Assign):
            called = _called(last.value, *losses) and _trains(block[index + 1 :])
            if called and "loss" in _words(last.targets[0]):
                yield script.moved(last, behind=region)


def probabilities(script: Script) -> Iterator[str]:
    if "autocast" not in script.text:
        return
    plain = {"BCEWithLogitsLoss": "BCELoss", "binary_cross_entropy_with_logits": "binary_cross_entropy"}
    for node in script.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in plain and not node.keywords:
            yield script.replaced(node.func, f"{script.source(node.func.value)}.{plain[node.func.attr]}")


def model_in_half(script: Script) -> Iterator[str]:
    if "GradScaler" not in script.text:
        return
    for block, index in script.statements(lambda one: isinstance(one, ast.Assign)):
        statement = block[index]
        assert isinstance(statement, ast.Assign)
        if _called(statement.value, "cuda", "to") and _model(statement.targets[0]):
            yield script.replaced(statement.value, f"{script.source(statement.value)}.half()")


def flag_dropped(script: Script) -> Iterator[str]:
    def flag(call: ast.AST) -> ast.keyword | None:
        assert isinstance(call, ast.Call)
        return next((one for one in call.keywords if one.arg == "enabled"), None)

    regions = [one for one in script.nodes(ast.Call) if _called(one, "autocast") and flag(one) is not None]
    scalers = [one for one in script.nodes(ast.Call) if _called(one, "GradScaler") and flag(one) is not None]
    entered = [
        item.context_expr
        for block, index in script.statements(_is_region)
        if _trains(block[index:])
        for item in block[index].items  # type: ignore[attr-defined]
    ]
    for region in regions:
        one = flag(region)
        assert one is not None
        chosen = not isinstance(one.value, ast.Constant) and not any(
            word in _words(one.value) for word in ("cuda", "device")
        )
        if chosen and region in entered and (scalers or len(regions) > 1):
            yield script.replaced(one.value, "True")


def scaler_disabled(script: Script) -> Iterator[str]:
    if "autocast" in script.text and "bfloat16" not in script.text:
        for node in script.nodes(ast.Call):
            if _called(node, "GradScaler") and not node.keywords:  # type: ignore[attr-defined]
                yield script.replaced(node, f"{script.source(node)[:-1]}{', ' * bool(node.args)}enabled=False)")  # type: ignore[attr-defined]


def _training_regions(script: Script) -> Iterator[ast.Call]:
    """The regions made in functions that run backward, or anywhere in a script without such a function."""
    functions = [one for one in script.nodes(ast.FunctionDef) if _trains([one])]  # type: ignore[list-item]
    within = {id(node) for function in functions or [script.tree] for node in ast.walk(function)}
    for node in script.nodes(ast.Call):
        if id(node) in within and _called(node, "autocast"):
            assert isinstance(node, ast.Call)
            yield node


def float16_without_scaler(script: Script) -> Iterator[str]:
    if "scaler" in script.text.lower():
        return
    for node in _training_regions(script):
        for one in ast.walk(node):
            if isinstance(one, ast.Attribute) and one.attr == "bfloat16":
                yield script.replaced(one, "torch.float16")


def dtype_left_out(script: Script) -> Iterator[str]:
    if "scaler" in script.text.lower():
        return
    for node in _training_regions(script):
        kept = [one for one in (*node.args, *node.keywords) if "bfloat16" not in _words(one)]
        if len(kept) < len(node.args) + len(node.keywords) and "cpu" not in _words(node):
            arguments = ", ".join(map(script.source, kept))
            yield script.replaced(node, f"{script.source(node.func)}({arguments})")


def unscale_before_backward(script: Script) -> Iterator[str]:
    for block, index in script.statements(_is_unscale):
        for one in block[:index]:
            if _is_backward(one):
                yield script.moved(block[index], before=one)


def unscale_another(script: Script) -> Iterator[str]:
    steps = [block[index].value.args[0] for block, index in script.statements(_is_step)]  # type: ignore[attr-defined]
    for block, index in script.statements(_is_unscale):
        given = block[index].value.args  # type: ignore[attr-defined]
        for other in steps if len(given) == 1 else ():
            if _words(other) != _words(given[0]):
                yield script.replaced(given[0], script.source(other))


def step_by_another(script: Script) -> Iterator[str]:
    steps = [(block, index) for block, index in script.statements(_is_step)]
    scalers = [block[index].value.func.value for block, index in steps]  # type: ignore[attr-defined]
    for scaler in scalers:
        for other in scalers:
            if _words(other) != _words(scaler):
                yield script.replaced(scaler, script.source(other))


def division_behind_backward(script: Script) -> Iterator[str]:
    def divides(statement: ast.stmt) -> bool:
        if isinstance(statement, ast.AugAssign):
            divided = isinstance(statement.op, ast.Div) and "loss" in _words(statement.target)
            return divided and _divisor(statement.value)
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
            return False
        quotient = statement.value
        by_window = isinstance(quotient.op, ast.Div) and _divisor(quotient.right)
        return by_window and [_words(quotient.left)] == [_words(target) for target in statement.targets]

    for block, index in script.statements(divides):
        for one in block[index + 1 :]:
            if _is_backward(one) or _called(_value(one), "backward"):
                yield script.moved(block[index], behind=one)


@dataclass(frozen=True)
class Operator:
    """A mistake: what is changed, and the codes of which one has to be reported. `texts` yields the changed texts."""

    name: str
    change: str
    codes: tuple[str, ...]
    texts: Callable[[Script], Iterator[str]]

    def apply(self, script: Script) -> str | None:
        """The text changed at the first place that leaves a Python program, None where there is none."""
        for text in self.texts(script):
            try:
                ast.parse(text)
            except SyntaxError:
                continue
            return text
        return None


OPERATORS = (
    Operator(
        "backward-in-region", "the backward pass moves into the region before it", ("AMP101",), backward_in_region
    ),
    Operator(
        "loss-not-scaled", "backward runs on the loss itself", ("AMP207", "AMP208", "AMP209", "AMP221"), loss_not_scaled
    ),
    Operator("scaled-loss-unused", "the scaled loss is dropped", ("AMP207", "AMP218"), scaled_loss_unused),
    Operator("scaled-loss-read", "the loss is rebound to its scaled value, and read", ("AMP222",), scaled_loss_read),
    Operator("unscale-dropped", "no `unscale_` before clipping", ("AMP205",), unscale_dropped),
    Operator("unscale-doubled", "`unscale_` twice", ("AMP201",), unscale_doubled),
    Operator("unscale-behind-step", "`unscale_` after the step", ("AMP202", "AMP205"), unscale_behind_step),
    Operator("clip-behind-step", "clipping after the step", ("AMP202", "AMP205"), clip_behind_step),
    Operator("step-past-scaler", "`optimizer.step()` for `scaler.step(optimizer)`", ("AMP206",), step_past_scaler),
    Operator("step-doubled", "`scaler.step(optimizer)` twice", ("AMP204",), step_doubled),
    Operator("update-dropped", "no `update()`", ("AMP201", "AMP203", "AMP204"), update_dropped),
    Operator("update-doubled", "`update()` twice", ("AMP215", "AMP221"), update_doubled),
    Operator("update-before-step", "`update()` before the step", ("AMP203", "AMP215"), update_before_step),
    Operator("update-between-steps", "`update()` after each of two steps", ("AMP215",), update_between_steps),
    Operator("never-cleared", "no `zero_grad()`", ("AMP304",), gradients_never_cleared),
    Operator("cleared-before-step", "`zero_grad()` after backward", ("AMP221", "AMP304"), cleared_before_step),
    Operator("cleared-in-window", "`zero_grad()` on every micro-batch", ("AMP304",), cleared_in_window),
    Operator("unscale-in-window", "`unscale_` on every micro-batch", ("AMP201", "AMP301"), unscale_in_window),
    Operator("update-in-window", "`update()` on every micro-batch", ("AMP215", "AMP221", "AMP301"), update_in_window),
    Operator("division-dropped", "the loss of a micro-batch is not divided", ("AMP302",), division_dropped),
    Operator("window-off-by-one", "`i % n` for `(i + 1) % n`", ("AMP305",), window_off_by_one),
    Operator("last-window-dropped", "no step at the end of the loader", ("AMP303",), last_window_dropped),
    Operator("scaler-in-loop", "the scaler is made in the loop behind it", ("AMP210",), scaler_in_loop),
    Operator("scaler-not-saved", "a checkpoint without the scaler", ("AMP211",), scaler_not_saved),
    Operator("scaler-not-restored", "the scaler is not restored", ("AMP211",), scaler_not_restored),
    Operator("forward-outside-region", "the forward pass moves out of the region", ("AMP108",), forward_outside_region),
    Operator("loss-outside-region", "the loss function moves out of the region", ("AMP408",), loss_outside_region),
    Operator("probabilities", "BCE without logits in a file with regions", ("AMP404",), probabilities),
    Operator(
        "model-in-half", "the model is converted to half", ("AMP103", "AMP217", "AMP409", "AMP410"), model_in_half
    ),
    Operator("flag-dropped", "a region that is always enabled beside a flag", ("AMP111", "AMP220"), flag_dropped),
    Operator("scaler-disabled", "a scaler that is disabled", ("AMP208", "AMP220"), scaler_disabled),
    Operator("float16-without-scaler", "float16 for bfloat16, without a scaler", ("AMP208",), float16_without_scaler),
    Operator("dtype-left-out", "no dtype for bfloat16, without a scaler", ("AMP208",), dtype_left_out),
    Operator(
        "unscale-before-backward", "`unscale_` before backward", ("AMP201", "AMP205", "AMP221"), unscale_before_backward
    ),
    Operator(
        "unscale-another", "`unscale_` of another optimizer", ("AMP201", "AMP202", "AMP205", "AMP221"), unscale_another
    ),
    Operator("step-by-another", "the step of another scaler", ("AMP203", "AMP207", "AMP221"), step_by_another),
    Operator("division-behind-backward", "the loss is divided after backward", ("AMP302",), division_behind_backward),
)


@dataclass(frozen=True)
class Trial:
    """A mistake in a file of a repository, and whether it was noticed."""

    repository: str
    path: str
    operator: str
    noticed: bool


def half_of(repository: str) -> str:
    """The half that a repository belongs to, by a hash of its name."""
    return "read" if hashlib.sha256(repository.encode()).digest()[0] % 2 else "held"


def repositories(sample: str = "") -> dict[str, str]:
    """Name -> commit of the repositories whose numbers are kept, or of those of one sample."""
    with REPOSITORIES.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["repository"]: row["commit"] for row in rows if sample in ("", row["sample"])}


def codes_in(text: str, path: Path) -> Counter[str]:
    """How often each rule reports something in a text at the place of a file."""
    return Counter(finding.code for finding in check(text, Settings(), filename=str(path)))


def training_file(repository: Path) -> tuple[Path, Script] | None:
    """The file that most operators change, the first one of several in the order of their paths."""
    best: tuple[Path, Script] | None = None
    most = 0
    for path in sorted(repository.rglob("*.py")):
        text = path.read_bytes().decode(errors="replace").replace("\r\n", "\n")
        if (
            ".backward(" not in text
            or "accelerat" in text
            or not any(word in text for word in ("autocast", "GradScaler", *WINDOW_WORDS))
        ):
            continue
        try:
            script = Script(text)
        except (SyntaxError, ValueError):
            continue
        count = sum(operator.apply(script) is not None for operator in OPERATORS)
        if count > most and "\r" not in text and "\f" not in text:
            best, most = (path, script), count
    return best


def trials(name: str, repository: Path, operators: Iterable[Operator]) -> Iterator[Trial]:
    """Make each mistake in the training file of a repository and lint the result."""
    chosen = training_file(repository)
    if chosen is None:
        return
    path, script = chosen
    before = codes_in(script.text, path)
    for operator in operators:
        text = operator.apply(script)
        if text is not None:
            after = codes_in(text, path)
            noticed = any(after[code] > before[code] for code in operator.codes)
            yield Trial(name, str(path.relative_to(repository)), operator.name, noticed)


def main(arguments: Iterable[str] | None = None) -> None:
    """Parse the command line, make the mistakes and print how many of each are noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repositories", type=Path, required=True, help="folder of the repositories")
    parser.add_argument("--half", choices=("read", "held"), help="only one half")
    parser.add_argument("--sample", default="", help="only the repositories of one sample")
    parser.add_argument("--only", default="", help="only repositories whose name contains this")
    parser.add_argument("--operators", default="", help="only these operators")
    parser.add_argument("--misses", action="store_true", help="print what is not noticed in the half that may be read")
    options = parser.parse_args(list(arguments) if arguments is not None else None)

    wanted = [one for one in options.operators.split(",") if one]
    operators = [one for one in OPERATORS if not wanted or one.name in wanted]
    folder = options.repositories.resolve()
    counts: dict[str, Counter[str]] = {operator.name: Counter() for operator in operators}
    for name in repositories(options.sample):
        half = half_of(name)
        if options.only not in name or options.half not in (None, half) or not (folder / name).is_dir():
            continue
        os.chdir(folder / name)
        for trial in trials(name, folder / name, operators):
            counts[trial.operator][half] += 1
            counts[trial.operator][f"{half} noticed"] += trial.noticed
            if options.misses and half == "read" and not trial.noticed:
                print(f"{trial.operator}: {name}/{trial.path}", flush=True)
    for operator in operators:
        count = counts[operator.name]
        found = "  ".join(f"{half} {count[f'{half} noticed']}/{count[half]}" for half in ("read", "held"))
        print(f"{operator.name:24} {found}")


if __name__ == "__main__":
    main()
