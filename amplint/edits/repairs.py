"""Edits that depend on values: limits of a tensor's dtype, logits instead of probabilities."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Edit, Fix
from amplint.semantics.events import DividedLossRead, Event, ScaledLossRead, TensorOp
from amplint.source import syntax as cst
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import operations_with

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

WITH_LOGITS = {"binary_cross_entropy": "binary_cross_entropy_with_logits", "BCELoss": "BCEWithLogitsLoss"}
MIXING = (
    operations_with("keeps")
    | operations_with("reduces")
    | {"exp", "log", "pow", "square", "size", "view", "reshape", "to", "cuda", "cpu", "item"}
)
"""Operations that take tensors of several dtypes, or only one tensor."""
HOME = {"binary_cross_entropy": "torch.nn.functional", "BCELoss": "torch.nn"}


def limit(event: TensorOp, rewrite: Rewriter) -> str | None:
    """`torch.finfo(x.dtype).min` or `.max` in place of `event.number`, None if no variable has the dtype."""
    number = event.number
    if number is None or (isinstance(number.value, int) and event.tensor.dtype is None):
        return None
    beside = number.beside
    if isinstance(beside, cst.BinaryOperation) and isinstance(beside.left, (cst.Integer, cst.Float)):
        beside = beside.right
    call = event.node if isinstance(event.node, cst.Call) and beside is None else None
    wanted = rewrite.find_argument(call, "dtype") if call is not None else None
    if wanted is not None:
        dtype = rewrite.text(wanted.value)
    elif beside is not None and _is_path(beside):
        dtype = f"{rewrite.text(beside)}.dtype"
    elif event.tensor.dtype == "float16" and event.region is None:
        dtype = "torch.float16"
    else:
        return None
    return f"torch.finfo({dtype}).{'max' if number.value > 0 else 'min'}"


def _is_path(node: cst.BaseExpression) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def loss_on_logits(event: TensorOp, rewrite: Rewriter) -> Fix | None:
    """Remove a sigmoid and use the loss on logits, if both are in one function and have no other use."""
    if not isinstance(event.node, cst.Call):
        return None
    loss = _loss(event, event.node, rewrite)
    name = loss.attr if isinstance(loss, cst.Attribute) else loss
    edits = _without_sigmoid(event, event.node, rewrite) if isinstance(name, cst.Name) else None
    if not isinstance(name, cst.Name) or edits is None or name.value not in WITH_LOGITS:
        return None
    better = WITH_LOGITS[name.value]
    imports = (f"from {HOME[name.value]} import {better}",) if name is loss else ()
    return Fix("Compute the loss from logits", (*edits, rewrite.replace(name, better)), imports=imports)


def island(event: TensorOp, rewrite: Rewriter) -> Fix | None:
    """Compute a loss of probabilities in float32, in a disabled region around the statement alone.

    What the loss is given gets a variable above the region if it is computed within. None if the statement contains
    other operations that may reject mixed dtypes.
    """
    call, region = event.node, event.region
    statement = rewrite.statement_of(call)
    if not isinstance(call, cst.Call) or region is None or "cuda" not in (region.devices or ()):
        return None
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        return None
    losses = [
        one for one in every(statement, cst.Call) if _is_bce(one) or rewrite.text(one.func) == rewrite.text(call.func)
    ]
    made = {inner for loss in losses for inner in walk(loss.func)}
    others = [one for one in every(statement, cst.Call) if one not in made and not any(one is loss for loss in losses)]
    inputs = [rewrite.find_argument(one, "input", 0) for one in losses]
    if any(argument is None or argument.star for argument in inputs):
        return None
    given = [one.value for one in inputs if one is not None]
    header = 'with torch.autocast("cuda", enabled=False)'
    running = [one for one in others if not _has_tensor_operation_name(one)]
    computed = [one for one in given if any(inner in running for inner in walk(one))]
    names = _unused(rewrite, len(computed))
    inside = {inner for one in computed for inner in walk(one)}
    if not inside.issuperset(running) or any("\n" in rewrite.text(one) for one in computed):
        return None
    line = rewrite.source.lines[rewrite.source.span(statement).start.row - 1]
    margin = line[: len(line) - len(line.lstrip())]
    above = (f"{name} = {rewrite.text(one)}\n{margin}" for name, one in zip(names, computed, strict=True))
    wrapped = rewrite.wrap_statements([statement], f"{''.join(above)}{header}")
    if wrapped is None:
        return None
    wide = [rewrite.add_float(one) for one in given if one not in computed and not _is_float(one)]
    wide += (rewrite.replace(one, f"{name}.float()") for name, one in zip(names, computed, strict=True))
    return Fix("Compute the loss in float32", (*wrapped, *wide), Applicability.UNSAFE, ("import torch",))


def _unused(rewrite: Rewriter, count: int) -> list[str]:
    """Names for probabilities that the file does not use."""
    taken = {name.value for chunk in rewrite.source.chunks for name in every(chunk.module, cst.Name)}
    stem = "probabilities" if "probabilities" not in taken else "predicted_probabilities"
    return [f"{stem}_{index + 1}" if count > 1 else stem for index in range(count)]


_ANY_DTYPE = frozenset({"float", "double", "detach", "to", "cuda", "size"} | operations_with("reshapes"))


def _is_bce(call: cst.Call) -> bool:
    name = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    return isinstance(name, cst.Name) and name.value == "binary_cross_entropy"


def _is_float(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "float"


def _has_tensor_operation_name(call: cst.Call) -> bool:
    """Whether a call's name is that of an elementwise operation, reduction, cast or view of PyTorch."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in MIXING | _ANY_DTYPE


def _loss(event: TensorOp, call: cst.Call, rewrite: Rewriter) -> cst.BaseExpression | None:
    """The name of the loss: the called function, or the class of a module that is called only here."""
    if not isinstance(event.module, cst.Call):
        return call.func
    variable = call.func.attr if isinstance(call.func, cst.Attribute) else call.func
    if call.func is event.module:
        return event.module.func
    assigned = isinstance(variable, cst.Name) and isinstance(rewrite.source.parent(event.module), cst.Assign)
    return event.module.func if assigned and _mentions(rewrite.source.text, variable) == 2 else None


def _without_sigmoid(event: TensorOp, call: cst.Call, rewrite: Rewriter) -> tuple[Edit, ...] | None:
    """Edits that pass `call` the logits of its probabilities."""
    sigmoid = event.tensor.made if "sigmoid" in event.tensor.traits else None
    argument = rewrite.find_argument(call, "input", 0)
    logits = _logits(sigmoid, rewrite) if isinstance(sigmoid, cst.Call) else None
    if sigmoid is None or argument is None or logits is None:
        return None
    bare = rewrite.replace(sigmoid, rewrite.text(logits))
    if argument.value is sigmoid:
        return (bare,)
    assigned = rewrite.source.parent(sigmoid)
    if not (isinstance(assigned, cst.Assign) and isinstance(argument.value, cst.Name)):
        return None
    scope = next((above for above in rewrite.source.ancestors(call) if isinstance(above, cst.FunctionDef)), None)
    text = rewrite.text(scope) if scope is not None else rewrite.source.text
    if rewrite.same_function(call, sigmoid) and _mentions(text, argument.value) == 2:
        named = (assigned.targets[0].target, argument.value) if not re.search(r"\blogits\b", text) else ()
        return (bare, *(rewrite.replace(name, "logits") for name in named))
    if isinstance(logits, cst.Name) and _unchanged(logits.value, sigmoid, call, rewrite):
        return (rewrite.replace(argument.value, logits.value),)
    return None


def _unchanged(name: str, first: cst.CSTNode, second: cst.CSTNode, rewrite: Rewriter) -> bool:
    """Whether both nodes are in one block and no statement between them mentions the variable."""
    block = list(rewrite.block_of(second))
    ends = [rewrite.statement_of(node) for node in (first, second)]
    places = [index for index, statement in enumerate(block) if statement in ends]
    return len(places) == 2 and not any(
        name in rewrite.names(block[index]) for index in range(places[0] + 1, places[1])
    )


def _logits(sigmoid: cst.Call, rewrite: Rewriter) -> cst.BaseExpression | None:
    if not sigmoid.args and isinstance(sigmoid.func, cst.Attribute):
        return sigmoid.func.value
    argument = rewrite.find_argument(sigmoid, "input", 0)
    return argument.value if argument is not None else None


def _mentions(text: str, name: cst.BaseExpression) -> int:
    return len(re.findall(rf"\b{re.escape(name.value)}\b", text)) if isinstance(name, cst.Name) else 0


def scaled_for_backward(event: ScaledLossRead, rewrite: Rewriter) -> Fix | None:
    """Keep the loss unscaled and scale it for its backward only, if nothing else needs it scaled."""
    binding = rewrite.source.parent(event.scaled)
    if not isinstance(binding, cst.Assign) or not isinstance(event.scaled, cst.Call) or event.divided:
        return None
    target, plain = binding.targets[0].target, event.scaled.args[0].value
    if not (isinstance(target, cst.Name) and isinstance(plain, cst.Name) and target.value == plain.value):
        return None
    calls = (call for calls in event.index.backwards.values() for call in calls)
    owners = {call.func.value for call in calls if isinstance(call.func, cst.Attribute)}
    owners = {owner for owner in owners if rewrite.same_function(owner, event.scaled)}
    (owner,) = owners if len(owners) == 1 else (None,)
    if not isinstance(owner, cst.Name) or owner.value != target.value or not rewrite.shares_block(event.scaled, owner):
        return None
    removed = rewrite.remove_statement(event.scaled)
    edits = (removed, rewrite.replace(owner, rewrite.text(event.scaled))) if removed else ()
    return Fix("Scale the loss for backward only", edits, Applicability.UNSAFE) if edits else None


def multiplied_back(event: DividedLossRead, rewrite: Rewriter) -> Edit | None:
    """The edit that multiplies the accumulated value by the number of micro-batches."""
    added = event.node.value if isinstance(event.node, cst.AugAssign) else None
    if not isinstance(added, (cst.Call, cst.Name, cst.Attribute)) or not rewrite.same_function(added, event.division):
        return None
    return rewrite.replace(added, f"{rewrite.text(added)} * {rewrite.text(event.number)}")


def keep_in_float32(event: Event, cast: cst.CSTNode | None, rewrite: Rewriter) -> Fix | None:
    """Remove `cast`, which converts a model to half, with all such conversions of its function and the event's."""
    places = [place for place in (event.node, cast) if place is not None]
    near = [call for call in event.index.lowered if any(rewrite.same_function(call, place) for place in places)]
    if cast not in near:
        return None
    edits = tuple(filter(None, map(rewrite.drop_conversion, near)))
    done = len(edits) == len(near)
    return Fix("Keep the parameters in float32", edits, Applicability.UNSAFE) if done else None


def load_in_float32(cast: cst.CSTNode, rewrite: Rewriter) -> Fix | None:
    """Let `cast`, which loads a model in half or converts it, keep the weights in float32."""
    if not isinstance(cast, cst.Call):
        return None
    loaded = rewrite.find_argument(cast, "torch_dtype") or rewrite.find_argument(cast, "dtype")
    edit = rewrite.float_instead(cast) if loaded is not None else rewrite.drop_conversion(cast)
    return Fix("Keep the parameters in float32", (edit,), Applicability.UNSAFE) if edit is not None else None


def squared(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The expressions of the tensor whose square `node` computes."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right] if isinstance(node.operator, cst.Multiply) else [node.left]
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return []
    library = isinstance(node.func.value, cst.Name) and node.func.value.value == "torch"
    return [node.args[0].value] if library and node.args else [] if library else [node.func.value]


def statement_around(node: cst.CSTNode, region: cst.With) -> cst.CSTNode | None:
    """The statement of `region`'s body that contains `node`."""
    return next((one for one in region.body.body if any(inner is node for inner in walk(one))), None)
