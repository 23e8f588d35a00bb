"""Half results of a region that leave PyTorch's operations on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from amplint.edits.consumers import COLLECTING
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS, operations_with

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_LEAVES = frozenset({"cpu", "numpy", "tolist"})
_KEEPS = frozenset({"detach", "clone", "contiguous", "cuda", "to", "data", *_LEAVES})
_PICKS = frozenset({"max", "min", "topk", "sort", "median", "mode", "kthvalue"})
"""Operations that return positions behind values."""
_OTHERWISE = operations_with("bool") | operations_with("int64") | operations_with("asks") | {"float", "double"}
_TENSORS = frozenset(OPERATIONS) - _OTHERWISE


def leaves_the_device(made: cst.CSTNode, statements: Sequence[cst.CSTNode], rewrite: Rewriter) -> bool:
    """Whether the result of the call `made`, in `statements`, goes on as it is to the CPU or to an object.

    There NumPy, SciPy and products on the CPU refuse half, or compute with few digits, and an object that keeps the
    results is other code's. Truth values, positions and numbers are the same in any dtype.
    """
    half: set[str] = set()
    lists: set[str] = set()
    inside = (line for statement in statements for line in every(statement, cst.SimpleStatementLine))
    for line in (*inside, *_behind(statements[-1], rewrite)):
        for call in every(line, cst.Call):
            owner = call.func.value if isinstance(call.func, cst.Attribute) else None
            if owner is None or not isinstance(call.func, cst.Attribute):
                continue
            given = any(_is_half(one.value, made, half) for one in call.args)
            if call.func.attr.value in COLLECTING and isinstance(owner, cst.Name) and given:
                lists.add(owner.value)
                continue
            kept = given and _is_statement(call, line) and not _is_half(owner, made, half) and not _is_of_torch(call)
            if kept or (_goes_to_cpu(call) and _is_half(owner, made, half | lists)):
                return True
        half |= lists
        for given_to, value in _assigned(line):
            targets = list(given_to.elements) if isinstance(given_to, cst.Tuple) else []
            picked = isinstance(value, cst.Call) and last_name(value.func) in _PICKS and len(targets) == 2
            names = {one.value for one in every(targets[1] if picked else given_to, cst.Name)}
            half = half | names if _is_half(value, made, half) and not picked else half - names
    return False


def _behind(statement: cst.CSTNode, rewrite: Rewriter) -> Iterator[cst.SimpleStatementLine]:
    """The simple statements that follow in the function, those of blocks included."""
    level: cst.CSTNode | None = statement
    while level is not None and not isinstance(level, (cst.FunctionDef, cst.Module)):
        block = rewrite.source.parent(level)
        body = list(block.body) if isinstance(block, (cst.IndentedBlock, cst.Module)) else []
        start = next((index for index, one in enumerate(body) if one is level), len(body))
        for following in body[start + 1 :]:
            yield from every(following, cst.SimpleStatementLine)
        level = rewrite.source.parent(block) if block is not None else None


def _assigned(line: cst.SimpleStatementLine) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    for given in every(line, cst.Assign):
        for target in given.targets:
            yield target.target, given.value


def _is_statement(call: cst.Call, line: cst.SimpleStatementLine) -> bool:
    return any(isinstance(one, cst.Expr) and one.value is call for one in line.body)


def _is_of_torch(call: cst.Call) -> bool:
    """Whether the function called is one of PyTorch, as in `torch.save(...)`."""
    return (dotted(call.func) or "").startswith("torch.")


def _goes_to_cpu(call: cst.Call) -> bool:
    if last_name(call.func) in _LEAVES:
        return True
    given = call.args[0].value if last_name(call.func) == "to" and call.args else None
    return isinstance(given, cst.SimpleString) and given.raw_value == "cpu"


def _is_half(value: cst.BaseExpression, made: cst.CSTNode, half: set[str]) -> bool:
    """Whether an expression, or a part of it, has the dtype of what `made` returns or of `half` variables."""
    if isinstance(value, cst.Name):
        return value.value in half
    if isinstance(value, cst.Attribute):
        return value.attr.value not in _OTHERWISE and _is_half(value.value, made, half)
    if isinstance(value, cst.Subscript):
        return _is_half(value.value, made, half)
    if isinstance(value, cst.Call):
        return value is made or _is_half_result(value, made, half)
    if isinstance(value, cst.BinaryOperation):
        return _is_half(value.left, made, half) or _is_half(value.right, made, half)
    if isinstance(value, cst.UnaryOperation):
        return _is_half(value.expression, made, half)
    if isinstance(value, (cst.Tuple, cst.List)):
        return any(_is_half(one.value, made, half) for one in value.elements)
    return isinstance(value, cst.IfExp) and (_is_half(value.body, made, half) or _is_half(value.orelse, made, half))


def _is_half_result(call: cst.Call, made: cst.CSTNode, half: set[str]) -> bool:
    name = last_name(call.func)
    if name in _OTHERWISE:
        return False
    if isinstance(call.func, cst.Attribute) and _is_half(call.func.value, made, half):
        return name in _TENSORS or name in _KEEPS
    return name in _TENSORS and any(_is_half(one.value, made, half) for one in call.args)
