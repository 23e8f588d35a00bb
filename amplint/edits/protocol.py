"""The calls of a gradient scaler, as every repair and conversion writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from amplint.findings import Edit
from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.names import CLIPPERS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_STEADY = (
    *(cst.Name, cst.Attribute, cst.Comparison, cst.ComparisonTarget),
    *(cst.UnaryOperation, cst.Not, cst.Is, cst.IsNot),
)
"""The syntax of conditions that calls between two places do not change."""
_CLIPPERS = frozenset(name.rpartition(".")[2] for name in CLIPPERS)


def spelling(nodes: Iterable[cst.BaseExpression], near: cst.CSTNode, rewrite: Rewriter) -> str | None:
    """The first of `nodes`, expressions of one object, that stands in the function of `near`; None if there is none."""
    return next((rewrite.text(node) for node in nodes if rewrite.same_function(node, near)), None)


def scaled(loss: cst.BaseExpression, scaler: str, rewrite: Rewriter) -> str:
    """The code of `loss`, scaled; parentheses of its own become those of the call."""
    text = rewrite.text(loss)
    enclosed = isinstance(loss, (cst.Tuple, cst.Yield)) or rewrite.parentheses(loss) != 1 or "#" in text
    return f"{scaler}.scale({text if enclosed else text[1:-1]})"


def unscale(
    before: cst.CSTNode, optimizer: str, scaler: str, rewrite: Rewriter, where: str | None = None
) -> Edit | None:
    """The edit that unscales the gradients of `optimizer` above a statement, `where` a condition holds."""
    call = f"{scaler}.unscale_({optimizer})"
    return rewrite.insert_before(before, f"if {where}:\n    {call}" if where is not None else call)


def step(call: cst.CSTNode, optimizer: cst.BaseExpression, scaler: str, rewrite: Rewriter) -> Edit:
    """The edit that replaces `call`, a step of `optimizer`, by one of the scaler."""
    return rewrite.replace(call, f"{scaler}.step({rewrite.text(optimizer)})")


def update(at: cst.CSTNode, scaler: str, rewrite: Rewriter, *, above: bool = False) -> Edit | None:
    """The edit that updates the scale below a statement, or `above` one that leaves its function."""
    return (rewrite.insert_before if above else rewrite.insert_after)(at, f"{scaler}.update()")


def optimizer_of(step: cst.CSTNode, rewrite: Rewriter) -> str | None:
    """What spells the optimizer of `optimizer.step()` or `scaler.step(optimizer)`."""
    if not isinstance(step, cst.Call) or not isinstance(step.func, cst.Attribute):
        return None
    return rewrite.text(step.args[0].value if step.args else step.func.value)


def other_steps(step: cst.CSTNode, block: cst.CSTNode, near: cst.CSTNode, rewrite: Rewriter) -> list[cst.Call]:
    """The steps of the optimizer of `step` outside of the `block` with that step, in the loop or function of `near`."""
    around = (cst.For, cst.While, cst.FunctionDef)
    whole = next((one for one in rewrite.source.ancestors(near) if isinstance(one, around)), None)
    steps = (one for one in every(whole, cst.Call) if last_name(one.func) == "step") if whole is not None else ()
    own = (one for one in steps if optimizer_of(one, rewrite) == optimizer_of(step, rewrite))
    return [one for one in own if block not in rewrite.source.ancestors(one)]


def choice_of_scaling(node: cst.CSTNode, rewrite: Rewriter) -> cst.If | None:
    """The choice between scaled and plain work in the function of `node`, if `node` is not part of it.

    Then `node` runs beside both: the scaler may be None, and gradients may carry no scale.
    """
    above = list(rewrite.source.ancestors(node))
    function = next((one for one in above if isinstance(one, cst.FunctionDef)), above[-1])
    choices = (one for one in every(function, cst.If) if one not in above)
    return next((one for one in choices if {_scales(one.body), _scales(one.orelse)} == {True, False}), None)


def where_scaled(choice: cst.If, node: cst.CSTNode, rewrite: Rewriter) -> str | None:
    """The condition of `choice` for scaled work, None if it need not have the same value at `node`."""
    test = choice.test
    if not all(isinstance(one, _STEADY) for one in walk(test)):
        return None
    function = rewrite.source.function_around(node)
    names = {one.value for one in every(test, cst.Name)}
    given = (target for one in every(function, cst.Assign) for target in one.targets) if function is not None else ()
    bound = {one.value for target in given for one in every(target.target, cst.Name)}
    if function is None or (names & bound and rewrite.span(choice).start > rewrite.span(node).start):
        return None
    if _scales(choice.body):
        return rewrite.text(test)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return rewrite.text(test.expression)
    return f"not {rewrite.operand(test)}"


def instead_where(condition: str, code: str, node: cst.CSTNode, rewrite: Rewriter) -> Edit | None:
    """The edit that runs `code` instead of `node`, a statement of its own, where `condition` holds."""
    statement = rewrite.statement_of(node)
    if statement is None or rewrite.text(statement).strip() != rewrite.text(node):
        return None
    head = rewrite.insert_before(node, f"if {condition}:\n    {code}")
    rest = rewrite.wrap_statement(node, "else")
    return replace(rest, content=head.content + rest.content) if head is not None and rest is not None else None


def step_instead_where(
    condition: str, call: cst.CSTNode, optimizer: cst.BaseExpression, scaler: str, rewrite: Rewriter, *, updates: bool
) -> Edit | None:
    """The edit that steps through the scaler, and `updates` its scale, where `condition` holds."""
    code = f"{scaler}.step({rewrite.text(optimizer)})" + (f"\n    {scaler}.update()" if updates else "")
    return instead_where(condition, code, call, rewrite)


def _scales(side: cst.CSTNode | None) -> bool | None:
    """Whether the backward pass or the step on one side of a choice is the scaler's, None if there is neither."""
    if side is None:
        return None
    calls = [call for call in every(side, cst.Call) if isinstance(call.func, cst.Attribute)]
    names = {last_name(call.func) for call in calls}
    if not names & {"backward", "step"}:
        return None
    by_scaler = any(last_name(call.func) == "step" and call.args for call in calls)
    return by_scaler or bool(names & {"scale", "unscale_"})


def gradient_uses(backward: cst.CSTNode, step: cst.CSTNode, rewrite: Rewriter) -> list[cst.CSTNode]:
    """The calls that clip gradients, and the reads of `grad`, that stand between a backward pass and a step."""
    *_, whole = rewrite.source.ancestors(step)
    reads = (one for one in every(whole, cst.Attribute) if one.attr.value == "grad")
    clips = (one for one in every(whole, cst.Call) if last_name(one.func) in _CLIPPERS)
    first, last = rewrite.source.span(backward).start, rewrite.source.span(step).start
    return [one for one in (*reads, *clips) if first < rewrite.source.span(one).start < last]


def holds_only(statement: cst.CSTNode, calls: Sequence[cst.CSTNode], rewrite: Rewriter) -> bool:
    """Whether each simple statement in a statement makes one of `calls`."""
    making = {above for call in calls for above in rewrite.source.ancestors(call)}
    return making.issuperset(every(statement, cst.SimpleStatementLine))
