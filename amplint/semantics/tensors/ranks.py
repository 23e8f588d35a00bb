"""Ranks of tensors, as far as they matter: a tensor without dimensions does not widen the dtype of another."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.values import FALSE, TRUE, Const, Items, Tensor, Value, is_scalar
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import fact_values, operations_with, spellings
from amplint.torchlib.operations import ELEMENTWISE, FLOATING_ELEMENTWISE
from amplint.torchlib.policy import BOOLEAN, words
from amplint.torchlib.promotion import SOME_DIMENSIONS

REDUCES = operations_with("reduces")
"""Operations that reduce to one number, unless called with a dimension."""
_SAME, _SOME = operations_with("same-rank"), operations_with("some-rank")
_SIZED = words("view reshape permute repeat expand")
_LOSSES, _COMPARES, _CAT = operations_with("loss"), operations_with("compares"), spellings("cat")
_ADDS = operations_with("adds-dimension")
"""Operations that add a dimension; a tuple of tensors counts as their stack."""
_BROADCAST = (BOOLEAN | ELEMENTWISE | FLOATING_ELEMENTWISE | {"lerp"}) - words("einsum_elementwise hstack vstack")
_FIXED = {op: int(rank) for op, rank in fact_values("rank").items()}


def _rank(value: Value) -> int | None:
    if isinstance(value, Tensor):
        return value.rank
    return 0 if is_scalar(value) else None


def elementwise(op: str, operands: Sequence[Value]) -> int | None:
    """The rank of the broadcast `operands`, or of a matrix product for `matmul`."""
    known = [_rank(value) for value in operands]
    if op == "matmul":
        return _matmul(known)
    if None in known:
        return SOME_DIMENSIONS if any(known) else None
    highest = max(rank or 0 for rank in known)
    return SOME_DIMENSIONS if SOME_DIMENSIONS in known else highest


def _matmul(known: Sequence[int | None]) -> int | None:
    left, right = known
    if left is None or right is None or SOME_DIMENSIONS in known:
        return SOME_DIMENSIONS if any(rank is not None and rank > 1 for rank in known) else None
    if left == 1 or right == 1:
        return left + right - 2
    return max(left, right)


def of(op: str, operands: Sequence[Value], arguments: Arguments, shift: int) -> int | None:
    """The rank of the result of `op` on `operands`; `shift` is 1 if the first of them is an argument."""
    rank = _rank(operands[0])
    if op in _FIXED:
        return _FIXED[op]
    if op in REDUCES:
        return _reduced(op, rank, arguments, shift)
    if op in _LOSSES:
        reduction = arguments.value("reduction")
        return 0 if reduction in (None, Const("mean"), Const("sum")) else None
    if op == "matmul":
        return elementwise(op, operands[:2]) if len(operands) > 1 else None
    if op in _ADDS and rank is not None and rank >= 0:
        return rank + 1
    if op in _CAT and rank is not None:
        return rank
    if op == "linear":
        weight = _rank(operands[1]) if len(operands) > 1 else 2
        if rank is not None and rank > 0:
            return rank - (weight == 1) if weight is not None and weight > 0 else None
        return SOME_DIMENSIONS if weight == 2 else None
    if op == "squeeze" and rank is not None and rank > 1 and _is_place(arguments.value("dim", shift)):
        return SOME_DIMENSIONS
    if op == "flatten" and len(arguments.given) == shift:
        return 1
    if op == "meshgrid":
        return len(operands) + 1 if len(operands) > 1 else None  # the tuple of the results counts as a dimension
    if op in _SIZED and arguments.given[shift:]:
        return _of_sizes(arguments.given[shift:])
    if op == "masked_fill":
        mask = arguments.value("mask", shift)
        return elementwise(op, [operands[0], mask]) if mask is not None else None
    if op == "clamp":
        return elementwise(op, [value for value in operands if isinstance(value, Tensor)])
    if op in _COMPARES:
        other = arguments.value("other", shift)
        return elementwise(op, [operands[0], other]) if other is not None else None
    if op == "scaled_dot_product_attention":
        return rank if all(_rank(value) == rank for value in operands[:3]) else None
    if op in ("repeat_interleave", "take_along_dim"):
        return rank if arguments.get("dim", shift + 1) is not None else None
    if op in _SAME:
        return rank
    if op in _SOME:
        return SOME_DIMENSIONS
    return elementwise(op, operands) if op in _BROADCAST else None


def _of_sizes(given: Sequence[Argument]) -> int | None:
    """The rank of a view with these sizes. Several arguments can only be numbers, whatever is known of them."""
    if any(one.star or one.keyword for one in given):
        return None
    if len(given) > 1:
        return len(given)
    return len(given[0].value.values) if isinstance(given[0].value, Items) else int(_is_size(given[0].value)) or None


def _is_size(value: Value) -> bool:
    return not isinstance(value, (Items, Tensor)) and is_scalar(value)


def _is_place(value: Value | None) -> bool:
    return isinstance(value, Const) and type(value.value) is int


def _reduced(op: str, rank: int | None, arguments: Arguments, shift: int) -> int | None:
    position = shift + (op in ("norm", "vector_norm", "quantile"))
    along = arguments.get("dim", position)
    if along is None:
        return 0 if len(arguments.given) <= position + bool(arguments.get("dtype")) else None
    keeps = arguments.value("keepdim") or FALSE
    if isinstance(along.value, Tensor) and op in ("max", "min"):
        return elementwise(op, [along.value])
    if rank is None or rank < 0 or keeps not in (TRUE, FALSE):
        return None
    if keeps == TRUE:
        return rank
    if isinstance(along.value, Items):
        return max(rank - len(along.value.values), 0) if along.value.values else None
    return max(rank - 1, 0) if isinstance(along.value, Const) and isinstance(along.value.value, int) else None


def indexed(rank: int | None, node: cst.Subscript, keys: Sequence[Value | None]) -> int | None:
    """The rank of `x[...]`; `keys` has the value of each index, None for slices."""
    if rank is None or rank < 0:
        stays = (
            isinstance(one.slice, cst.Slice) or key == Const(None) for one, key in zip(node.slice, keys, strict=True)
        )
        return SOME_DIMENSIONS if any(stays) else None
    for element, key in zip(node.slice, keys, strict=True):
        if key is None or _is_ellipsis(element):
            continue
        if key == Const(None):
            rank += 1
        elif isinstance(key, Const) and type(key.value) is int:
            rank -= 1
        elif not isinstance(key, Tensor) or len(keys) > 1 or key.rank is None or key.rank < 0:
            return None
        else:
            rank += 1 - key.rank if key.dtype == "bool" else key.rank - 1
    return rank if rank >= 0 else None


def _is_ellipsis(element: cst.SubscriptElement) -> bool:
    return isinstance(element.slice, cst.Index) and isinstance(element.slice.value, cst.Ellipsis)


def sized(values: Sequence[Value]) -> int | None:
    """The rank of a tensor created with these sizes."""
    if len(values) == 1 and isinstance(values[0], Items):
        return len(values[0].values)
    if values and all(_is_size(value) for value in values):
        return len(values)
    return SOME_DIMENSIONS if len(values) > 1 else None
