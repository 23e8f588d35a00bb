"""The calls of a gradient scaler, as every repair and conversion writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from amplint.findings import Edit
from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter


def spelling(nodes: Iterable[cst.BaseExpression], near: cst.CSTNode, rewrite: Rewriter) -> str | None:
    """The first of `nodes`, expressions of one object, that stands in the function of `near`; None if there is none."""
    return next((rewrite.text(node) for node in nodes if rewrite.same_function(node, near)), None)


def scaled(loss: cst.BaseExpression, scaler: str, rewrite: Rewriter) -> str:
    """The code of `loss`, scaled; parentheses of its own become those of the call."""
    text = rewrite.text(loss)
    enclosed = isinstance(loss, (cst.Tuple, cst.Yield)) or rewrite.parentheses(loss) != 1 or "#" in text
    return f"{scaler}.scale({text if enclosed else text[1:-1]})"


def unscale(before: cst.CSTNode, optimizer: str, scaler: str, rewrite: Rewriter) -> Edit | None:
    """The edit that unscales the gradients of `optimizer` above a statement."""
    return rewrite.insert_before(before, f"{scaler}.unscale_({optimizer})")


def step(call: cst.CSTNode, optimizer: cst.BaseExpression, scaler: str, rewrite: Rewriter) -> Edit:
    """The edit that replaces `call`, a step of `optimizer`, by one of the scaler."""
    return rewrite.replace(call, f"{scaler}.step({rewrite.text(optimizer)})")


def update(after: cst.CSTNode, scaler: str, rewrite: Rewriter) -> Edit | None:
    """The edit that updates the scale below a statement."""
    return rewrite.insert_after(after, f"{scaler}.update()")


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


def holds_only(statement: cst.CSTNode, calls: Sequence[cst.CSTNode], rewrite: Rewriter) -> bool:
    """Whether each simple statement in a statement makes one of `calls`."""
    making = {above for call in calls for above in rewrite.source.ancestors(call)}
    return making.issuperset(every(statement, cst.SimpleStatementLine))
