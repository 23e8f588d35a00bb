"""Syntactic facts of a function's tensors: which names are tensors, and which tensors are made to match others."""

from __future__ import annotations

from amplint.semantics.events import Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.words import DTYPE_GIVEN
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, target_names, walk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import words

_OF_TENSORS = words(
    "shape device dtype size dim ndim view reshape permute transpose unsqueeze squeeze flatten contiguous detach "
    "new_zeros new_ones new_tensor new_full new_empty expand repeat chunk float masked_fill requires_grad is_cuda"
)
_NUMPY, _PYTORCH = words("np numpy"), words("torch F")
"""Names of modules."""
_RESHAPES = operations_with("reshapes") | {"contiguous"}


@cached_per_file
def tensors_in(function: cst.CSTNode) -> frozenset[str]:
    """The names that a function uses as tensors or annotates as such."""
    return used_as_tensors(function) | annotated_as_tensors(function)


@cached_per_file
def arrays_in(function: cst.CSTNode) -> frozenset[str]:
    """The names that a function annotates as arrays, or, without calling PyTorch, passes whole or indexed to NumPy."""
    found = set[str]()
    for node in every(function, cst.Param):
        if node.annotation is not None and any(inner.value == "ndarray" for inner in every(node.annotation, cst.Name)):
            found.add(node.name.value)
    calls = [(call, (dotted(call.func) or "").partition(".")[0]) for call in every(function, cst.Call)]
    if any(module in _PYTORCH for _, module in calls):
        return frozenset(found)
    for call, module in calls:
        for one in call.args if module in _NUMPY else ():
            inner = one.value.value if isinstance(one.value, cst.Subscript) else one.value
            if isinstance(inner, cst.Name):
                found.add(inner.value)
    return frozenset(found)


@cached_per_file
def annotated_as_tensors(function: cst.CSTNode) -> frozenset[str]:
    """The parameters that a function annotates as tensors."""
    found = set[str]()
    for node in every(function, cst.Param):
        if node.annotation is not None:
            words_of = {inner.value for inner in walk(node.annotation) if isinstance(inner, cst.Name)}
            if "Tensor" in words_of:
                found.add(node.name.value)
    return frozenset(found)


@cached_per_file
def numbers_in(function: cst.CSTNode) -> frozenset[str]:
    """The parameters that are Python numbers by their annotation or default, or as the end of a range."""
    if not isinstance(function, cst.FunctionDef):
        return frozenset()
    found = set[str]()
    for param in (*function.params.params, *function.params.kwonly_params):
        annotation = param.annotation.annotation if param.annotation is not None else None
        typed = isinstance(annotation, cst.Name) and annotation.value in ("int", "float")
        if typed or (annotation is None and isinstance(param.default, (cst.Integer, cst.Float))):
            found.add(param.name.value)
    for call in every(function, cst.Call):
        if (dotted(call.func) or "").rpartition(".")[2] in ("range", "arange"):
            found |= {argument.value.value for argument in call.args if isinstance(argument.value, cst.Name)}
    return frozenset(found)


@cached_per_file
def used_as_tensors(function: cst.CSTNode) -> frozenset[str]:
    """The names that a function uses as tensors."""
    attributes = (node for node in every(function, cst.Attribute) if node.attr.value in _OF_TENSORS)
    return frozenset(node.value.value for node in attributes if isinstance(node.value, cst.Name))


def is_only_moved(target: Operand, source: Operand) -> bool:
    """Whether `source` is `x.to(target.device)`, which keeps its own dtype."""
    call = source.node
    while isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value in _RESHAPES:
        call = call.func.value
    if not (isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "to"):
        return False
    given = [argument.value for argument in call.args]
    device = given[0] if len(given) == 1 else None
    return isinstance(device, cst.Attribute) and device.attr.value == "device" and device.value.deep_equals(target.node)


def is_cast_like_elsewhere(machine: Machine, converted: cst.Call) -> bool:
    """Whether the tensor cast to float32 here is cast to the dtype of another tensor elsewhere in the function."""
    name = _converted(converted)
    function = machine.calls[-1] if machine.calls else None
    if name is None or function is None or not isinstance(function, cst.FunctionDef):
        return False
    return any(follows_dtype(node) and _converted(node) == name for node in every(function, cst.Call))


def is_named_cast(machine: Machine, place: cst.BaseExpression) -> bool:
    """Whether `place` is a variable that the running function converts to a chosen dtype, or to that of a tensor."""
    function = machine.calls[-1] if machine.calls else None
    return function is not None and isinstance(place, cst.Name) and place.value in _cast_variables(function)


@cached_per_file
def _cast_variables(function: cst.CSTNode) -> frozenset[str]:
    found = set[str]()
    for node in every(function, cst.Assign):
        casts = {_converted(call) for call in every(node.value, cst.Call) if follows_dtype(call) or _names_dtype(call)}
        found |= {name for target in node.targets for name in target_names(target.target) if name in casts}
    return frozenset(found)


def _names_dtype(call: cst.Call) -> bool:
    """Whether a call is `x.to(dtype)`, the dtype being a variable."""
    return last_name(call.func) == "to" and any(
        DTYPE_GIVEN.search(last_name(argument.value) or "") for argument in call.args
    )


def _converted(call: cst.Call) -> str | None:
    """The variable at the root of a cast, seen through methods and indices."""
    node: cst.BaseExpression = call
    while True:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        elif isinstance(node, cst.Subscript):
            node = node.value
        else:
            return dotted(node)


def follows_dtype(call: cst.Call) -> bool:
    """Whether a call is `x.type_as(y)` or `x.to(y.dtype)`."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("type_as", "to", "type"):
        return False
    given = [argument.value for argument in call.args]
    return call.func.attr.value == "type_as" or any(
        isinstance(value, cst.Attribute) and value.attr.value == "dtype" for value in given
    )


def belongs(made: cst.Call, owner: cst.BaseExpression) -> bool:
    """Whether a tensor is made on the device of `owner` or of its parameters, but not in its dtype."""
    path = dotted(owner)
    inner = [dotted(node) for argument in made.args for node in walk(argument.value) if isinstance(node, cst.Attribute)]
    return path is not None and any(name is not None and name.startswith(f"{path}.") for name in inner)
