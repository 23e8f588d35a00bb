"""`if use_amp: ... else: ...` whose branches are equivalent now, since a disabled scaler changes nothing."""

from __future__ import annotations

import ast
import textwrap

from amplint.codemods.apex.reach import Reach
from amplint.codemods.conditions import conjunction, folded_condition, with_edited_conditions
from amplint.findings import Edit
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.training.refusal import Refusal
from amplint.training.scopes import Scope
from amplint.training.script import Script


class Flags:
    """The conditions that enable mixed precision in the function `home`; `switches` are the same as booleans."""

    def __init__(self, texts: tuple[str, ...], switches: tuple[str, ...], home: Scope) -> None:
        self.texts = texts
        self.switches = switches
        self.home = home

    def imply(self, script: Script, reach: Reach, choice: Choice) -> bool:
        """Whether the condition of `choice` is implied by mixed precision being enabled."""
        if choice.differs is not None:
            parts = [choice.differs]
        else:
            parts = [script.text_of(part) for part in conjunction(choice.test)]
        known = {_plain(text) for text in self.texts}
        scope = script.scope(choice.test)
        return all(_plain(part) in known and reach.same_flag(part, self.home, scope) for part in parts)


def _plain(text: str) -> str:
    tree = _parsed(text)
    return ast.dump(tree) if tree is not None else text


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None


def join_pairs(script: Script, reach: Reach, flags: Flags, scaler: str) -> Script:
    """The script with one branch of each such `if`, from the innermost outwards.

    Raises Refusal if the loss is scaled in one branch only, and not only if the scaler is enabled.
    """

    def edit_of(script: Script, node: cst.If) -> Edit | None:
        if not isinstance(node.orelse, cst.Else):
            return None
        choice = _choice(script, node, node.orelse, scaler)
        if f"{scaler}." not in choice.on or not flags.imply(script, reach, choice):
            return None
        same = _normal(choice.on, scaler) == _normal(choice.off, scaler)
        return folded_condition(script, node, taken=choice.taken) if same else None

    script = with_edited_conditions(script, edit_of)
    _refuse_halves(script, reach, flags, scaler)
    return script


def _refuse_halves(script: Script, reach: Reach, flags: Flags, scaler: str) -> None:
    for node in script.of_kind(cst.If):
        if node.orelse is None:
            continue
        choice = _choice(script, node, node.orelse, scaler)
        scales = [f"{scaler}.scale(" in side for side in (choice.on, choice.off)]
        if (scales == [True, False] and ".backward(" in choice.off and not flags.imply(script, reach, choice)) or (
            scales == [False, True] and ".backward(" in choice.on
        ):
            raise Refusal(script.row(node), "this condition is not the one that amp.initialize depends on")


@dataclass(frozen=True, slots=True)
class Choice:
    """The code of the branches of an `if`: `on` runs where `test` holds, the first branch if `taken`.

    For a `test` for equality whose second branch is the scaled one, `differs` is the opposite condition, and `on` runs
    where that holds.
    """

    test: cst.BaseExpression
    on: str
    off: str
    taken: bool
    differs: str | None = None


def _choice(script: Script, node: cst.If, rest: cst.CSTNode, scaler: str) -> Choice:
    """The branches of an `if`, in the opposite order for a `not`, and for `==` before a scaled branch."""
    first, second = (_side(script, part) for part in (node.body, rest))
    if isinstance(node.test, cst.UnaryOperation) and isinstance(node.test.operator, cst.Not):
        return Choice(node.test.expression, second, first, taken=False)
    differs = _opposite(script.text_of(node.test))
    if differs is not None and f"{scaler}." in second and f"{scaler}." not in first:
        return Choice(node.test, second, first, taken=False, differs=differs)
    return Choice(node.test, first, second, taken=True)


def _opposite(text: str) -> str | None:
    """`a != b` for the condition `a == b`, None for any other."""
    tree = _parsed(text)
    if not isinstance(tree, ast.Compare) or [type(one) for one in tree.ops] != [ast.Eq]:
        return None
    return ast.unparse(ast.Compare(tree.left, [ast.NotEq()], tree.comparators))


def _side(script: Script, block: cst.CSTNode) -> str:
    """The code of one branch of an `if`, dedented."""
    suite = block.body if isinstance(block, cst.Else) else block
    if not isinstance(suite, cst.IndentedBlock):
        return script.text_of(suite) if isinstance(suite, cst.SimpleStatementSuite) else script.text_of(block)
    first, last = script.rows(suite.body[0])[0], script.rows(suite.body[-1])[1]
    return textwrap.dedent(script.indented(range(first, last + 1), ""))


def _normal(code: str, scaler: str) -> str:
    """The code as it runs with a disabled scaler, in a normal form."""
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
        """Remove `unscale_` and `update`."""
        if self._method(node.value) in ("unscale_", "update"):
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Replace `scaler.scale(loss)` by the loss, `scaler.step(optimizer)` by the step."""
        self.generic_visit(node)
        if self._method(node) == "scale" and len(node.args) == 1:
            return node.args[0]
        if self._method(node) == "step" and len(node.args) == 1:
            return ast.Call(ast.Attribute(node.args[0], "step", ast.Load()), [], [])
        return node
