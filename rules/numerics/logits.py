"""The repair that computes binary cross-entropy from logits instead of from probabilities."""

from __future__ import annotations

import re

import libcst as cst

from amplint.findings import Edit, Fix
from amplint.semantics.events import TensorOp
from amplint.source.rewrite import Rewriter

WITH_LOGITS = {"binary_cross_entropy": "binary_cross_entropy_with_logits", "BCELoss": "BCEWithLogitsLoss"}
HOME = {"binary_cross_entropy": "torch.nn.functional", "BCELoss": "torch.nn"}


def from_logits(event: TensorOp, rewrite: Rewriter) -> Fix | None:
    """Take the sigmoid away and use the loss's `with_logits` form, where both are in sight and serve nothing else."""
    assert isinstance(event.node, cst.Call)
    loss = _loss_name(event, event.node, rewrite)
    edit = _without_sigmoid(event, event.node, rewrite) if loss is not None else None
    if loss is None or edit is None:
        return None
    name = loss.attr.value if isinstance(loss, cst.Attribute) else loss.value
    imports = () if isinstance(loss, cst.Attribute) else (f"from {HOME[name]} import {WITH_LOGITS[name]}",)
    renamed = rewrite.replace(loss.attr if isinstance(loss, cst.Attribute) else loss, WITH_LOGITS[name])
    return Fix("Compute the loss from logits", (edit, renamed), imports=imports)


def _loss_name(event: TensorOp, call: cst.Call, rewrite: Rewriter) -> cst.Name | cst.Attribute | None:
    """Where the loss is named: the function called, or the class of a module that is called here only."""
    named = call.func
    if isinstance(event.module, cst.Call):
        variable = named.attr if isinstance(named, cst.Attribute) else named
        direct = named is event.module
        kept = isinstance(variable, cst.Name) and isinstance(rewrite.source.parent(event.module), cst.Assign)
        if not direct and not (kept and _mentions(rewrite.source.text, variable.value) == 2):
            return None
        named = event.module.func
    if not isinstance(named, (cst.Name, cst.Attribute)):
        return None
    return named if (named.attr.value if isinstance(named, cst.Attribute) else named.value) in WITH_LOGITS else None


def _without_sigmoid(event: TensorOp, call: cst.Call, rewrite: Rewriter) -> Edit | None:
    sigmoid = event.tensor.made if "sigmoid" in event.tensor.traits else None
    argument = rewrite.find_argument(call, "input", 0)
    if not isinstance(sigmoid, cst.Call) or argument is None:
        return None
    logits = _logits(sigmoid, rewrite)
    if logits is None or argument.value is sigmoid:
        return rewrite.replace(sigmoid, rewrite.text(logits)) if logits is not None else None
    assigned = rewrite.source.parent(sigmoid)
    if not isinstance(assigned, cst.Assign) or not isinstance(argument.value, cst.Name):
        return None
    scope = next((above for above in rewrite.source.ancestors(call) if isinstance(above, cst.FunctionDef)), None)
    text = rewrite.text(scope) if scope is not None else rewrite.source.text
    if rewrite.same_function(call, sigmoid) and _mentions(text, argument.value.value) == 2:
        return rewrite.replace(sigmoid, rewrite.text(logits))
    block = list(rewrite.block_of(call))
    ends = [rewrite.statement_of(node) for node in (sigmoid, call)]
    if isinstance(logits, cst.Name) and all(end in block for end in ends):
        between = block[block.index(ends[0]) + 1 : block.index(ends[1])]
        if not any(logits.value in rewrite.names(statement) for statement in between):
            return rewrite.replace(argument.value, logits.value)
    return None


def _logits(sigmoid: cst.Call, rewrite: Rewriter) -> cst.BaseExpression | None:
    if not sigmoid.args and isinstance(sigmoid.func, cst.Attribute):
        return sigmoid.func.value
    argument = rewrite.find_argument(sigmoid, "input", 0)
    return argument.value if argument is not None else None


def _mentions(text: str, name: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", text))
