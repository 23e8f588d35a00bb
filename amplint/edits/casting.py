"""Operations that autocast may affect, and variables that are tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.semantics.events import Event
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Source
from amplint.source.tree import every, walk
from amplint.torchlib.catalogue import OPERATIONS

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

UNTOUCHED = frozenset({
    "abs", "all", "any", "append", "argmax", "argmin", "barrier", "bool", "clone", "contiguous", "cpu", "cuda",
    "debug", "detach", "dict", "dim", "empty_cache", "enumerate", "extend", "flatten", "float", "format", "getattr",
    "half", "hasattr", "info", "int", "isinstance", "item", "join", "len", "list", "max", "max_memory_allocated",
    "mean", "memory_allocated", "min", "next", "numel", "numpy", "open", "perf_counter", "permute", "print",
    "range", "repr", "reset_peak_memory_stats", "reshape", "round", "save", "set_description", "set_postfix",
    "size", "sorted", "squeeze", "state_dict", "str", "strftime", "synchronize", "time", "to", "tolist",
    "transpose", "tuple", "unsqueeze", "Variable", "view", "warning", "zero_grad", "zip",
})  # fmt: skip
"""Functions and methods whose result does not depend on autocast, whoever they belong to."""


_ATTRIBUTES = frozenset({"shape", "dtype", "device", "data"})
_OTHERS = frozenset({"size", "view", "cpu", "cuda", "to", "numpy", "item", "backward", "dim"})
_METHODS = {name for name, forms in OPERATIONS.items() if "m" in forms} - {"values", "index", "sort", "copy"}
TENSOR_METHODS = _METHODS | _ATTRIBUTES | _OTHERS
"""What tensors have, and containers do not."""
_JOINING = ("cat", "concat", "stack", "hstack", "vstack")
_LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break)
_OF_MANY = (*_JOINING, "save", "broadcast_tensors")
"""Functions of PyTorch that take containers of tensors."""


def may_be_cast(event: Event, node: cst.CSTNode) -> bool:
    """Whether `node` may run an operation that autocast casts, backward passes excepted."""
    harmless = set(event.idle).union(*event.index.backwards.values())
    for inner in walk(node):
        if isinstance(inner, (cst.MatrixMultiply, cst.Power)):
            return True
        if isinstance(inner, cst.Call) and inner not in harmless:
            name = inner.func.attr if isinstance(inner.func, cst.Attribute) else inner.func
            if not isinstance(name, cst.Name) or name.value not in UNTOUCHED:
                return True
    return False


def is_last(event: Event, region: cst.CSTNode) -> bool:
    """Whether no operation that autocast casts can follow `event` in `region`, a `with` statement.

    An event in a called function must also be last in that function.
    """
    if not isinstance(region, cst.With):
        return False
    inside, places, functions = set(map(id, walk(region))), (*event.sites, event.node), (None, *event.calls)
    level = next((level for level, place in enumerate(places) if id(place) in inside), None)
    if level is None or len(functions) != len(places):
        return False
    bodies = (region, *functions[level + 1 :])
    return all(_ends(event, body, place) for body, place in zip(bodies, places[level:], strict=True))


def _ends(event: Event, body: cst.CSTNode | None, place: cst.CSTNode | None) -> bool:
    """Whether no operation that autocast casts can follow `place` in `body`, other branches excepted."""
    if body is None or place is None:
        return False
    around = [node for node in walk(body) if any(one is place for one in walk(node))]
    if not around or any(isinstance(node, (cst.For, cst.While)) for node in around):
        return False
    return not any(may_be_cast(event, node) for node in _later(around, place))


def _later(around: list[cst.CSTNode], place: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What can run behind `place`, up to where a path leaves the outermost of the nodes `around` it."""
    blocks = [node for node in around if isinstance(node, cst.IndentedBlock)]
    for block in reversed(blocks):
        at = next(index for index, statement in enumerate(block.body) if any(one is statement for one in around))
        if block is blocks[-1]:
            nodes = list(walk(block.body[at]))
            first = next(index for index, node in enumerate(nodes) if node is place)
            yield from nodes[first + sum(1 for _ in walk(place)) :]
        for statement in block.body[at:]:
            if statement is not block.body[at]:
                yield statement
            if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[-1], _LEAVES):
                return


def used_as_tensor(node: cst.BaseExpression, rewrite: Rewriter) -> bool | None:
    """Whether a variable is a tensor by its uses: its function calls tensor methods or PyTorch operations on it.

    False if there is evidence against it: unpacking, a key that is a string, an attribute that tensors do not have.
    None without evidence.
    """
    if not isinstance(node, cst.Name):
        return None
    source = rewrite.source
    scope = next((above for above in source.ancestors(node) if isinstance(above, cst.FunctionDef)), None)
    nodes = walk(scope) if scope is not None else (one for chunk in source.chunks for one in walk(chunk.module))
    uses = [tensor_evidence(source, one) for one in nodes if isinstance(one, cst.Name) and one.value == node.value]
    return False if False in uses else True if True in uses else None


def is_of_tensor(source: Source, node: cst.Attribute) -> bool:
    """Whether tensors have this attribute: `x.mean()`, and not `x.mean`, which distributions have."""
    called = isinstance(call := source.parent(node), cst.Call) and call.func is node
    return node.attr.value in (TENSOR_METHODS if called else _ATTRIBUTES)


def tensor_evidence(source: Source, name: cst.Name) -> bool | None:
    """Whether a use is evidence for a tensor (True), against it (False), or neither (None)."""
    above = source.parent(name)
    if isinstance(above, cst.Attribute) and above.value is name:
        return is_of_tensor(source, above)
    if isinstance(above, cst.Subscript) and above.value is name:
        named = any(isinstance(inner, cst.SimpleString) for inner in walk(above))
        return False if named else True if len(above.slice) > 1 else None
    if isinstance(above, (cst.BinaryOperation, cst.UnaryOperation)):
        return True
    if isinstance(above, cst.Assign):
        return False if isinstance(above.targets[0].target, (cst.Tuple, cst.List)) else None
    if isinstance(above, cst.Arg):
        call = source.parent(above)
        func = (dotted(call.func) or "") if isinstance(call, cst.Call) else ""
        if isinstance(call, cst.Call) and func == "isinstance" and above is call.args[0] and len(call.args) > 1:
            asked = {dotted(one) for one in every(call.args[1].value, cst.Name)}
            return False if asked & {"tuple", "list", "dict"} else None
        if func.endswith(".append") and _is_joined(source, name, func.removesuffix(".append")):
            return True
        imported = source.imports.get(func.partition(".")[0])
        if imported is not None and imported.module.startswith("torch.nn.parallel"):
            return False  # these take a list of what replicas return
        of_torch = func.startswith(("torch.", "F.", "nn.functional.")) and not func.endswith(_OF_MANY)
        return True if of_torch and not above.star else None
    return False if isinstance(above, (cst.For, cst.CompFor)) and above.iter is name else None


def _is_joined(source: Source, node: cst.CSTNode, collection: str) -> bool:
    """Whether the function around `node` joins the elements of `collection` to one tensor."""
    around = next((one for one in source.ancestors(node) if isinstance(one, (cst.FunctionDef, cst.Module))), node)
    for call in every(around, cst.Call):
        given = call.args[0].value if call.args and (dotted(call.func) or "").endswith(_JOINING) else None
        if given is not None and dotted(given.value if isinstance(given, cst.Subscript) else given) == collection:
            return True
    return False
