"""Writes into a tensor of what has another dtype in a region, which raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from amplint.edits.casting import used_as_tensor
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import in_place, operations_with, parameters
from amplint.training.bindings import bound_paths, called_name, paths
from amplint.training.floating import Kind, held, kind_of

_PRODUCTS = in_place(operations_with("matrices", "alike"))
_WRITING = in_place(operations_with("alike") - operations_with("matrices"))
"""Methods that refuse to write a tensor into one of another dtype."""
_TENSORS_ALONE = in_place(operations_with("tensor-source") | operations_with("follows", "alike"))
_SOURCES = {f"{name}_": places for name, places in parameters("beside").items() if f"{name}_" in _WRITING}
_OF_NUMBERS = frozenset({"int", "float", "len", "range", "item", "min", "max", "sum", "round"})
_LIKE = frozenset({"clone", *(f"new_{one}" for one in ("zeros", "ones", "empty", "full"))})


_COPYING = frozenset({"clone", "zeros_like", "ones_like", "empty_like", "new"})


class Write(NamedTuple):
    """A write, the tensor that it goes into, and what is cast: the operands, none if they may be no tensors."""

    node: cst.CSTNode
    into: cst.BaseExpression
    cast: tuple[cst.BaseExpression, ...]


def writes(chunk: Chunk) -> Iterator[Write]:
    """The writes in the functions of a chunk whose two dtypes can differ in a region."""
    source = chunk.source
    for call in every(chunk.module, cst.Call):
        name, owner = called_name(call), call.func.value if isinstance(call.func, cst.Attribute) else None
        if name not in _WRITING | _PRODUCTS or owner is None or dotted(owner) is None:
            continue
        given = _written(call, name)
        given = given if name in _TENSORS_ALONE | _PRODUCTS else [one for one in given if _is_tensor_value(source, one)]
        differing = [one for one in given if _may_differ(source, owner, one, certain=False)]
        if differing:
            yield Write(call, owner, tuple(differing))
    for assign in every(chunk.module, cst.Assign):
        target = assign.targets[0].target
        if len(assign.targets) > 1 or not isinstance(target, cst.Subscript) or dotted(target.value) is None:
            continue
        if _is_number(assign.value) or called_name(assign.value) in _OF_NUMBERS:
            continue
        if any(_is_tensor(source, one.slice) for one in target.slice) and _may_differ(
            source, target.value, assign.value, certain=True
        ):
            tensor = _is_tensor_value(source, assign.value)
            yield Write(assign, target.value, (assign.value,) if tensor else ())


def rounded(chunk: Chunk) -> Iterator[Write]:
    """The slices of tensors made like one that may be half, to which a function assigns float32."""
    source = chunk.source
    told = set[cst.CSTNode]()
    for assign in every(chunk.module, cst.Assign):
        target = assign.targets[0].target
        home = source.function_around(assign)
        if not isinstance(target, cst.Subscript) or home is None or dotted(target.value) is None:
            continue
        made = [one.value for one in every(home, cst.Assign) if bound_paths(one, whole=True) == {dotted(target.value)}]
        calls = [one for one in made if isinstance(one, cst.Call) and (called_name(one) in _COPYING)]
        like = _source_of(calls[-1]) if calls else None
        if like is None or calls[-1] in told or kind_of(source, assign.value) is not Kind.FLOAT32:
            continue
        if kind_of(source, like) in (None, Kind.FLOATING, Kind.HALF):
            told.add(calls[-1])
            yield Write(assign, target.value, (like,))


def _source_of(call: cst.Call) -> cst.BaseExpression | None:
    """The tensor that a call copies, or makes one like."""
    if isinstance(call.func, cst.Attribute) and dotted(call.func.value) != "torch":
        return call.func.value
    return call.args[0].value if call.args else None


def _written(call: cst.Call, name: str) -> list[cst.BaseExpression]:
    """The tensors that a method writes, or multiplies, into its owner."""
    positional = [one.value for one in call.args if one.keyword is None and not one.star]
    if name in _PRODUCTS:
        return [one for one in positional if not _is_number(one)][-2:]
    named = {one.keyword.value: one.value for one in call.args if one.keyword is not None}
    places = _SOURCES.get(name, ())
    found = [named.get(param, positional[place] if place < len(positional) else None) for param, place in places]
    return [one for one in found if one is not None and not _is_number(one)][:1]


def _may_differ(source: Source, into: cst.BaseExpression, value: cst.BaseExpression, *, certain: bool) -> bool:
    """Whether `into` and `value` can have two dtypes; where only the text is `certain` of one, if it is float32."""
    if called_name(value) in ("to", "type", "type_as", "float", "double") or _is_like(source, into, value):
        return False
    left, right = kind_of(source, into), kind_of(source, value)
    if (
        Kind.OTHER in (left, right)
        or (left is None and right is Kind.FLOAT32)
        or (left is right and left in (Kind.FLOAT32, Kind.HALF))
    ):
        return False
    return not certain or (left is Kind.FLOAT32 and right is not Kind.FLOAT32)


def _is_like(source: Source, into: cst.BaseExpression, value: cst.BaseExpression) -> bool:
    """Whether `into` is made in the dtype of what `value` mentions, such as `torch.zeros_like(value)`."""
    home = source.function_around(into)
    path = dotted(into)
    made = [one.value for one in every(home, cst.Assign) if path in bound_paths(one, whole=True)] if home else []
    calls = (call for one in made for call in every(one, cst.Call))
    like = [call for call in calls if called_name(call).endswith("_like") or called_name(call) in _LIKE]
    dtypes = [one for each in made for one in every(each, cst.Attribute) if one.attr.value == "dtype"]
    return any(paths(one) & paths(value) for one in (*like, *dtypes))


def _is_number(value: cst.BaseExpression) -> bool:
    inner = value.expression if isinstance(value, cst.UnaryOperation) else value
    return isinstance(inner, cst.BaseNumber)


def _is_tensor(source: Source, part: cst.CSTNode) -> bool:
    """Whether an index is a tensor, or a list."""
    value = part.value if isinstance(part, cst.Index) else None
    path = dotted(value) if value is not None else None
    if value is None or path is None:
        return value is not None and _makes_tensor(value)
    home = source.function_around(value)
    made = list(held(source, path)) if path.startswith("self.") else []
    made += [one.value for one in every(home, cst.Assign) if path in bound_paths(one, whole=True)] if home else []
    return bool(made) and all(_makes_tensor(one) or _is_held_tensor(source, one) for one in made)


def _is_held_tensor(source: Source, value: cst.BaseExpression) -> bool:
    """Whether a variable that a buffer is made of is a tensor."""
    home, path = source.function_around(value), dotted(value)
    made = [one.value for one in every(home, cst.Assign) if path in bound_paths(one, whole=True)] if home else []
    return isinstance(value, cst.Name) and bool(made) and all(map(_makes_tensor, made))


def _makes_tensor(value: cst.BaseExpression) -> bool:
    """Whether an index is a tensor by what makes it."""
    if isinstance(value, cst.Subscript):
        return any(isinstance(one.slice, cst.Slice) for one in value.slice)
    return isinstance(value, (cst.Comparison, cst.List)) or called_name(value) not in {"", *_OF_NUMBERS}


def _is_tensor_value(source: Source, value: cst.BaseExpression) -> bool:
    """Whether what is assigned certainly is a tensor."""
    if isinstance(value, cst.Call) and (dotted(value.func) or "") == f"torch.{called_name(value)}":
        return True
    return kind_of(source, value) is not None or used_as_tensor(value, Rewriter(source)) is True
