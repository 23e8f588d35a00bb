"""Operations by their form in the text: the operands that decide their dtype, and what autocast does to them."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS, operations_with
from amplint.torchlib.policy import BANNED, MODULE_OPS
from amplint.training.bindings import bound_paths, called_name, constructor

PRODUCTS = operations_with("matrices") - operations_with("weights")
"""Products of matrices."""
LOWERED = PRODUCTS | BANNED | {"linear", "conv1d", "conv2d", "conv3d", "spmm"}
"""Operations of whose operands autocast makes half, or which it refuses."""
OF_CLASSES = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})
"""Losses whose targets are classes."""
DECOMPOSITIONS = frozenset(
    {"svd", "svdvals", "det", "logdet", "slogdet", "inverse", "inv", "pinverse", "pinv", "cholesky", "qr", "eigh"}
    | {"symeig", "eig", "eigvals", "eigvalsh"}
)
"""Operations that magnify what their matrix has lost."""
_SECOND = slice(1, 2)
_MODULES = {"torch", "nn", "F"}
"""The names of PyTorch's modules, also where `*` imports them."""
_OPERANDS = {
    "einsum": slice(1, None),
    "grid_sample": _SECOND,
    "odeint": _SECOND,
    "odeint_adjoint": _SECOND,
    "pow": slice(2),
    "addmm": slice(3),
    "baddbmm": slice(3),
    **dict.fromkeys(LOWERED - {"addmm", "baddbmm", "einsum"}, slice(2)),
}
"""Operation -> the places of the operands that decide its dtype, the owner of a method being the first; else that."""


def operands(source: Source, node: cst.CSTNode) -> list[cst.BaseExpression]:
    """The operands that decide the dtype in which an operation computes; none if its form does not show them."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right] if is_lowered(node) else [node]
    if not isinstance(node, cst.Call):
        return []
    positional = (one.value for one in node.args if one.keyword is None and not one.star)
    given = [each for value in positional for each in _elements(value) if not _is_number(each)]
    path, name = dotted(node.func) or "", called_name(node)
    made = constructors(source, path) if is_loss(name) or isinstance(node.func, cst.Name) else set()
    held = isinstance(node.func, cst.Name) and bool(made) and made <= MODULE_OPS.keys()
    if isinstance(node.func, cst.Call) or is_layer(node) or held:
        return given[:1] if made and (made & OF_CLASSES or not made <= MODULE_OPS.keys()) else given
    if path.partition(".")[0] in source.imports.keys() | _MODULES or path == f"self.{name}":
        return given[_OPERANDS.get(name, slice(1))]
    if not isinstance(node.func, cst.Attribute) or is_loss(name):
        return []
    return [node.func.value, *given][_OPERANDS.get(name, slice(1))]


def _is_number(value: cst.BaseExpression) -> bool:
    inner = value.expression if isinstance(value, cst.UnaryOperation) else value
    return isinstance(inner, cst.BaseNumber)


def _elements(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a list that is written out, or the value itself."""
    return [one.value for one in value.elements] if isinstance(value, cst.List) else [value]


def constructors(source: Source, path: str) -> set[str]:
    """The last names of the calls whose results a file assigns to `path`; empty for what is no call."""
    return {name for chunk in source.chunks for name in _constructors(chunk).get(path, ())}


@cached_per_chunk
def _constructors(chunk: Chunk) -> dict[str, set[str]]:
    """The same for each path that a chunk assigns."""
    found: dict[str, set[str]] = {}
    for one in every(chunk.module, cst.Assign):
        for path in bound_paths(one, whole=True):
            found.setdefault(path, set()).add(called_name(constructor(one.value)))
    return found


def is_lowered(node: cst.CSTNode) -> bool:
    """Whether autocast casts what an operation is given to half, or refuses it."""
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, cst.MatrixMultiply)
    return is_layer(node) or called_name(node) in LOWERED


def is_refused(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` calls a variable that is binary cross-entropy of probabilities, which autocast refuses."""
    name = node.func if isinstance(node, cst.Call) else None
    return isinstance(name, cst.Name) and constructors(source, name.value) == {"BCELoss"}


def is_layer(node: cst.CSTNode) -> bool:
    """Whether `node` calls an attribute of its object that is no operation of PyTorch by its name."""
    path = (dotted(node.func) or "") if isinstance(node, cst.Call) else ""
    return path.startswith("self.") and called_name(node) not in OPERATIONS


def is_off(source: Source, node: cst.CSTNode) -> bool:
    """Whether `node` stands in a region that is off."""
    above = (one for one in source.ancestors(node) if isinstance(one, cst.With))
    return any("autocast" in code and "False" in code for one in above for code in map(source.code, one.items))


def products_in(value: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The products of matrices in `value`."""
    for one in every(value, cst.Call, cst.BinaryOperation):
        if called_name(one).rstrip("_") in PRODUCTS or isinstance(getattr(one, "operator", None), cst.MatrixMultiply):
            yield one


def has_square(value: cst.CSTNode) -> bool:
    """Whether `value` contains a power, a square or a norm."""
    operators = {type(one.operator) for one in every(value, cst.BinaryOperation)}
    names = {called_name(call) for call in every(value, cst.Call)}
    return cst.Power in operators or not names.isdisjoint(("pow", "square", "norm"))


def widens(value: cst.CSTNode) -> bool:
    """Whether a part of `value` is cast to float32, or a wider dtype."""
    return any(called_name(call) in ("float", "double") for call in every(value, cst.Call))


def is_computed_wide(node: cst.CSTNode, source: Source) -> bool:
    """Whether `node` is computed in float32, in a region that is off."""
    return is_off(source, node) and widens(node)
