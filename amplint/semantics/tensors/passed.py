"""Functions that run the models they are passed, and convert none of their parameters, by their text."""

from __future__ import annotations

from amplint.semantics.python.definitions import node_of
from amplint.semantics.tensors.tensors import CONVERSIONS
from amplint.semantics.values.values import Function
from amplint.semantics.words import CHANGES_PARAMETERS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.tree import every, walk

_FORWARD = "forward"
_GETS_PARTS = frozenset(
    {"parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "state_dict"}
)
_CHANGES_PARTS = frozenset({"data", "requires_grad_", "half", "bfloat16", "float", "double", "type"})
_TRAINED = "requires_grad"


def only_runs(function: Function, place: int | str) -> bool:
    """Whether a function leaves the dtypes of a model as they are that it is passed at a position, or by a name.

    A forward pass does of its own model; other functions do if they call it, or its methods, and hand it to nothing.
    """
    node = node_of(function)
    if not isinstance(node, cst.FunctionDef):
        return False
    names = [parameter.name.value for parameter in node.params.params]
    if isinstance(place, int):
        if place == 0 and node.name.value == _FORWARD:
            return True
        if place >= len(names):
            return False
        place = names[place]
    return place in names and place not in _changed(node)


@cached_per_file
def _changed(function: cst.FunctionDef) -> frozenset[str]:
    """The names in a function that it hands on or assigns, and those of what it may convert."""
    attributes = [node for node in walk(function.body) if isinstance(node, cst.Attribute)]
    targets = [target.target for node in every(function.body, cst.Assign) for target in node.targets]
    set_to = {target.attr.value for target in targets if isinstance(target, cst.Attribute)}
    parts_change = _TRAINED in set_to or not _CHANGES_PARTS.isdisjoint(node.attr.value for node in attributes)
    used = {id(node.func) for node in walk(function.body) if isinstance(node, cst.Call)}
    changed = set[str]()
    for node in attributes:
        used |= {id(node.attr), id(node.value)}
        method = node.attr.value
        converts = method in CONVERSIONS or CHANGES_PARAMETERS.search(method) is not None
        if converts or (parts_change and method in _GETS_PARTS):
            changed.add(_owner(node))
    bare = (node.value for node in walk(function.body) if isinstance(node, cst.Name) and id(node) not in used)
    return frozenset((*changed, *bare))


def _owner(node: cst.BaseExpression) -> str:
    """The name at the beginning of an expression such as `name.part[0].method()`; "" where there is none."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node.value if isinstance(node, cst.Name) else ""
