"""Sigmoids that lead to logarithms, bounds and losses, or that a model returns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.training.bindings import bound_paths, called_name, paths
from amplint.training.floating import Kind, kind_of
from amplint.training.operands import operands, widens

_RESHAPING = operations_with("reshapes")
_PASSING = _RESHAPING | {"clamp", "clip", "clamp_", "clamp_max", "clamp_min", "sum", "mean"}
"""Operations through which a sigmoid is followed."""


def is_wide(call: cst.Call, chunk: Chunk) -> bool:
    """Whether a sigmoid is computed in float32."""
    return widens(call) or any(kind_of(chunk.source, one) is Kind.FLOAT32 for one in operands(chunk.source, call))


def behind(values: Iterable[cst.CSTNode], chunk: Chunk) -> list[cst.Call]:
    """The sigmoids of which `values` are, by bounds, differences, variables, and methods of their class or chunk."""
    waiting = [(one, chunk.source.function_around(one)) for one in values]
    found, seen = list[cst.Call](), set[cst.CSTNode]()
    while waiting:
        value, home = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, (cst.Add, cst.Subtract)):
            waiting += ((one, home) for one in (value.left, value.right))
        elif isinstance(value, cst.Call):
            name = called_name(value)
            if name == "sigmoid" or _ends_in_sigmoid(dotted(value.func) or "", chunk):
                found.append(value)
            elif name in _PASSING:
                waiting += ((one, home) for one in operands(chunk.source, value)[:1])
        elif (path := dotted(value)) is not None and home is not None:
            waiting += ((one, place) for one, place in _bound_to(path, home, chunk))
    return found


def _bound_to(path: str, home: cst.FunctionDef, chunk: Chunk) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
    """What `home` assigns to `path`, or returns for it in a function of the chunk, each with its function."""
    functions = {one.name.value: one for one in every(chunk.module, cst.FunctionDef)}
    for assign in every(home, cst.Assign):
        for target in (one.target for one in assign.targets):
            places = [dotted(one.value) for one in target.elements] if isinstance(target, cst.Tuple) else []
            called = functions.get(called_name(assign.value))
            if dotted(target) != path and path not in places:
                continue
            if called is None:
                yield from () if places else [(assign.value, home)]
                continue
            for value in (one.value for one in every(called, cst.Return) if one.value is not None):
                parts = [one.value for one in value.elements] if isinstance(value, cst.Tuple) else []
                if places and len(parts) == len(places):
                    yield parts[places.index(path)], called
                elif not places:
                    yield value, called


def _ends_in_sigmoid(path: str, chunk: Chunk) -> bool:
    """Whether a chunk makes the layers at `path` as a sequence that ends in a sigmoid."""
    made = (one.value for one in every(chunk.module, cst.Assign) if path in bound_paths(one, whole=True))
    last = [one.args[-1].value for one in made if isinstance(one, cst.Call) and one.args and path.startswith("self.")]
    return any(called_name(one) == "Sigmoid" for one in last)


def returns_wide(chunk: Chunk) -> bool:
    """Whether a model returns sigmoids, all of them of float32."""
    found = returned(chunk)
    return bool(found) and all(map(widens, found))


def returned(chunk: Chunk) -> list[cst.Call]:
    """The sigmoids that the functions of a chunk return, or put into what they return."""
    found = list[cst.Call]()
    for function in every(chunk.module, cst.FunctionDef):
        values = [one.value for one in every(function, cst.Return) if one.value is not None]
        returned = {path for value in values for path in paths(value)}
        calls = (one for one in every(function, cst.Call) if called_name(one) == "append")
        values += (one for one in calls if paths(one.func) & returned)
        returned = {path for value in values for path in paths(value)}
        values += (one.value for one in every(function, cst.Assign) if bound_paths(one, whole=True) & returned)
        found += (call for value in values for call in every(value, cst.Call) if called_name(call) == "sigmoid")
        whole = (one for one in map(_reshaped, values) if isinstance(one, cst.Call))
        found += (one for one in whole if _ends_in_sigmoid(dotted(one.func) or "", chunk))
    return list(dict.fromkeys(found))


def _reshaped(value: cst.BaseExpression) -> cst.BaseExpression:
    """What methods that reshape a tensor are called on, or `value` itself."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and called_name(value) in _RESHAPING:
        value = value.func.value
    return value
