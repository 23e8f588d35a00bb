"""`if use_amp: ... else: ...` whose two sides have come to the same, since a scaler that is off changes nothing."""

from __future__ import annotations

import ast
import textwrap

from amplint.codemods.apex.reach import Reach
from amplint.codemods.conditions import conjunction, settled
from amplint.codemods.refusal import Refusal
from amplint.codemods.scopes import Scope
from amplint.codemods.script import Script
from amplint.source import syntax as cst


class Flags:
    """The conditions under which mixed precision is on, in the function `home`, as `switches` that are booleans."""

    def __init__(self, texts: tuple[str, ...], switches: tuple[str, ...], home: Scope) -> None:
        self.texts = texts
        self.switches = switches
        self.home = home

    def imply(self, script: Script, reach: Reach, node: cst.If) -> bool:
        """Whether the condition of `node` certainly holds where mixed precision is on."""
        parts = [script.text_of(part) for part in conjunction(node.test)]
        known = {_plain(text) for text in self.texts}
        scope = script.scope(node)
        return all(_plain(part) in known and reach.same_flag(part, self.home, scope) for part in parts)


def _plain(text: str) -> str:
    try:
        return ast.dump(ast.parse(text.strip(), mode="eval"))
    except SyntaxError:
        return text


def join_pairs(script: Script, reach: Reach, flags: Flags, scaler: str) -> Script:
    """The script with one side of each such `if`, from the innermost outwards.

    Raises Refusal where the loss is scaled on one side only, and not just where the scaler is on.
    """
    while True:
        found = [
            node for node in script.of_kind(cst.If) if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else)
        ]
        edit = None
        for node in reversed(found):
            assert isinstance(node.orelse, cst.Else)
            sides = [_side(script, block) for block in (node.body, node.orelse.body)]
            if f"{scaler}." not in sides[0] or not flags.imply(script, reach, node):
                continue
            if _normal(sides[0], scaler) == _normal(sides[1], scaler):
                edit = settled(script, node, taken=True)
                break
        if edit is None:
            break
        script = script.apply([edit])
    _refuse_halves(script, reach, flags, scaler)
    return script


def _refuse_halves(script: Script, reach: Reach, flags: Flags, scaler: str) -> None:
    for node in script.of_kind(cst.If):
        assert isinstance(node, cst.If)
        if node.orelse is None:
            continue
        first, second = (_side(script, part) for part in (node.body, node.orelse))
        if f"{scaler}.scale(" in first and ".backward(" in second and f"{scaler}.scale(" not in second:
            if not flags.imply(script, reach, node):
                raise Refusal(script.row(node), "this condition is not the one that amp.initialize depends on")
        elif f"{scaler}.scale(" in second and ".backward(" in first and f"{scaler}.scale(" not in first:
            raise Refusal(script.row(node), "this condition is not the one that amp.initialize depends on")


def _side(script: Script, block: cst.CSTNode) -> str:
    """The code of one side of an `if`, dedented."""
    suite = block.body if isinstance(block, cst.Else) else block
    if not isinstance(suite, cst.IndentedBlock):
        return script.text_of(suite) if isinstance(suite, cst.SimpleStatementSuite) else script.text_of(block)
    first, last = script.rows(suite.body[0])[0], script.rows(suite.body[-1])[1]
    return textwrap.dedent(script.indented(range(first, last + 1), ""))


def _normal(code: str, scaler: str) -> str:
    """What the code does where the scaler is off."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return code
    return ast.dump(_Off(scaler).visit(tree))


class _Off(ast.NodeTransformer):
    def __init__(self, scaler: str) -> None:
        self.scaler = scaler

    def _method(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr if ast.unparse(node.func.value) == self.scaler else None
        return None

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Nothing remains of `unscale_` and `update`."""
        if self._method(node.value) in ("unscale_", "update"):
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`scaler.scale(loss)` is the loss, `scaler.step(optimizer)` the step."""
        self.generic_visit(node)
        if self._method(node) == "scale" and len(node.args) == 1:
            return node.args[0]
        if self._method(node) == "step" and len(node.args) == 1:
            return ast.Call(ast.Attribute(node.args[0], "step", ast.Load()), [], [])
        return node
