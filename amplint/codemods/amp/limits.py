"""Preconditions of the conversion, checked before anything is planned."""

from __future__ import annotations

from amplint.codemods.amp.sharded import MODULES
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.tree import every, target_names, walk
from amplint.training import wrappers
from amplint.training.bindings import bound_paths, called_name
from amplint.training.derived import differentiating
from amplint.training.hazards import is_sparse, multiplies_sparse
from amplint.training.observed import Observed, framework
from amplint.training.refusal import Reasons, Refusal
from amplint.training.script import Script

_OF_OPTIMIZERS = frozenset(
    {"step", "zero_grad", "state_dict", "load_state_dict", "add_param_group", "train", "eval", "share_memory"}
    | {"param_groups", "state", "values", "items", "keys", "append", "get", "update"}
)
"""Methods and attributes of optimizers, and of containers of them."""
_DEFAULTS = ("set_default_dtype", "set_default_tensor_type")
_DOUBLE = ("torch.double", "torch.float64", "torch.DoubleTensor", "torch.cuda.DoubleTensor")
_OF_DOUBLE = "this computes in double precision, which autocast leaves alone"
_OF_LOSSES = "torch.autograd.backward(); call backward() on the sum of the losses instead"


def check(script: Script, observed: Observed, *, scales: bool, sharded: bool = False) -> None:
    """Raise Refusal for training code that cannot be followed, or cannot use a scaler.

    Models that the file shards itself, if any, get a policy.
    """
    foreign = framework(script.source.text)
    if foreign is not None and not (foreign[1].startswith(MODULES) and (sharded or not scales)):
        shards = foreign[1].startswith(("torch", "fairscale"))
        why = "shards parameters, over which a plain scaler does not agree" if shards else "scales losses by itself"
        raise Refusal(_at_row(script, foreign[0]), f"{foreign[1]} {why}")
    reasons, seen = Reasons(), set(observed.backwards)
    mended = any(map(multiplies_sparse, script.source.chunks))
    for node in script.nodes:
        with reasons.collecting():
            _check_node(script, node, seen, scales=scales)
            if is_sparse(node) and not mended and not _is_unused(script, observed, node):
                raise Refusal(node, "a sparse tensor; not every product of these has a kernel for half")
    for call in script.calls:
        with reasons.collecting():
            _check_double(script, observed, call)
    for call in (*observed.backwards, *observed.steps):
        with reasons.collecting():
            script.statement(call)
            if isinstance(call.func, cst.Name):
                raise Refusal(call, _OF_LOSSES)
    for call in observed.backwards if scales else ():
        with reasons.collecting():
            _check_seed(script, call)
    for step, optimizer in observed.steps.items() if scales else ():
        with reasons.collecting():
            _check_optimizer(script, step, optimizer)
            _check_derived(script, step)
            if _is_repeated(script, observed, step, optimizer):
                raise Refusal(step, "each round steps on the same gradients, which a scaler would unscale again")
            wrapped = wrappers.wrapper(script, observed.calls, optimizer)
            if wrapped is not None:
                raise Refusal(step, wrapped)
    reasons.raise_collected()
    if observed.backwards and not observed.steps and scales:
        raise Refusal(observed.backwards[0], "no step of an optimizer was found that uses these gradients")
    if observed.steps and not observed.backwards:
        raise Refusal(next(iter(observed.steps)), "no backward pass was found that makes the gradients of this step")


def _check_seed(script: Script, backward: cst.Call) -> None:
    """Raise Refusal if a backward pass begins with what may be a gradient of another, which carries the scale."""
    seeds = (one for one in backward.args if one.keyword is None or one.keyword.value == "gradient")
    for seed in seeds:
        path, function = dotted(seed.value), script.function_of(backward)
        if isinstance(seed.value, cst.Attribute) and path is not None and not script.assignments(function, path):
            raise Refusal(backward, f"{path} may be a gradient that carries the scale already")


def _check_derived(script: Script, step: cst.Call) -> None:
    """Raise Refusal if a class of another file, which derives from that of `step`, differentiates a loss of its own."""
    owner = script.method_owner(script.function_of(step))
    place = differentiating(script, owner, step) if owner is not None else None
    if place is not None:
        raise Refusal(step, f"{place[0]}:{place[1]} makes gradients of this step, which no scaler scales there")


def _check_double(script: Script, observed: Observed, call: cst.Call) -> None:
    """Raise Refusal if `call` makes a model one of double precision."""
    if called_name(call) != "double" or call.args or not isinstance(call.func, cst.Attribute):
        return
    above = script.source.parent(call)
    named = bound_paths(above, whole=True) if isinstance(above, cst.Assign) else set()
    if {*named, dotted(call.func.value)} & (observed.models | observed.modules):
        raise Refusal(call, _OF_DOUBLE)


def _is_repeated(script: Script, observed: Observed, step: cst.Call, optimizer: cst.BaseExpression) -> bool:
    """Whether a loop steps one optimizer on the gradients that a backward pass before the loop has made."""
    around = (one for one in script.source.ancestors(step) if isinstance(one, (cst.For, cst.While, cst.FunctionDef)))
    loop = next(around, None)
    if not isinstance(loop, (cst.For, cst.While)):
        return False
    if isinstance(loop, cst.For) and {*target_names(loop.target)} & {one.value for one in every(optimizer, cst.Name)}:
        return False
    reached, home = observed.calls.reached([loop]), script.function_of(step)
    if any(script.inside(loop, one) or script.function_of(one) in reached for one in observed.backwards):
        return False
    return any(script.function_of(one) is home and script.row(one) < script.row(loop) for one in observed.backwards)


def _check_optimizer(script: Script, step: cst.Call, optimizer: cst.BaseExpression) -> None:
    """Raise Refusal if the file uses methods of an optimizer that PyTorch's optimizers do not have."""
    path = dotted(optimizer)
    owner = script.method_owner(script.function_of(step))
    for call in script.calls if path is not None else ():
        func = call.func
        if not isinstance(func, cst.Attribute) or dotted(func.value) != path or func.attr.value in _OF_OPTIMIZERS:
            continue
        function = script.function_of(call)
        if script.method_owner(function) is owner if owner is not None else function is script.function_of(step):
            why = f"{path}.{func.attr.value}() is none of PyTorch's optimizers; a scaler steps only these"
            raise Refusal(step, why)


def _is_unused(script: Script, observed: Observed, node: cst.CSTNode) -> bool:
    """Whether nothing in the file names the function of `node`."""
    function = script.function_of(node)
    return function is not None and script.method_owner(function) is None and observed.calls.callers(function) == []


def _check_node(script: Script, node: cst.CSTNode, seen: set[cst.Call], *, scales: bool) -> None:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value in _DEFAULTS and any(_is_double(script, argument.value) for argument in node.args):
            raise Refusal(node, _OF_DOUBLE)
        _check_call(node, node.func, seen, scales)
    elif isinstance(node, cst.Lambda) and any(inner in seen for inner in walk(node)):
        raise Refusal(node, "a backward pass in a lambda")


def _check_call(call: cst.Call, func: cst.Attribute, seen: set[cst.Call], scales: bool) -> None:
    method = func.attr.value
    owner = dotted(func.value) or ""
    if method == "backward" and owner.startswith(("torch", "autograd")):
        raise Refusal(call, _OF_LOSSES)
    if method == "backward" and call not in seen and owner not in ("self", "ctx") and not owner.startswith("super"):
        raise Refusal(call, "this backward pass could not be followed")
    if method == "manual_backward":
        raise Refusal(call, "Lightning scales the loss itself; ask its Trainer for mixed precision")
    if method == "grad" and owner.endswith("autograd") and scales:
        keywords = {argument.keyword.value for argument in call.args if argument.keyword is not None}
        if "create_graph" not in keywords:
            raise Refusal(call, "autograd.grad() gives gradients that no scaler unscales")


def _is_double(script: Script, value: cst.BaseExpression) -> bool:
    """Whether a dtype or type of tensors is that of double precision, by itself or as the one value of a variable."""
    name = dotted(value)
    assigned = script.assignments(script.function_of(value), name) if isinstance(value, cst.Name) and name else ()
    values = [one.value for one in assigned if isinstance(one, cst.Assign)] or [value]
    written = [one.evaluated_value if isinstance(one, cst.SimpleString) else dotted(one) for one in values]
    return all(one in _DOUBLE for one in written)


def _at_row(script: Script, row: int) -> cst.CSTNode:
    return next((one for one in script.top if script.row(one) >= row), script.top[0])
