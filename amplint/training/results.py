"""What calls of models give in a region, by interpretation: tensors with their dtypes, and tuples of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TypeAlias

from amplint.semantics import interpret
from amplint.semantics.events import Event, Operation, OutputInHalf, Returned
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.values.values import Const, Items, Tensor, Value
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS
from amplint.torchlib.names import HALF_DTYPES
from amplint.training.bindings import bound_paths, called_name, positional
from amplint.training.givers import is_model, models_by_settings, models_given, models_in_reach
from amplint.training.operands import constructors
from amplint.training.script import parsed
from amplint.training.surroundings import cached_by_text, check_time, whole_program

Result: TypeAlias = "frozenset[str | None] | tuple[Result, ...] | None"
"""A tensor by the dtypes it can have, None among them for an unknown one; the parts of a tuple or a list, or of a
dictionary without half; None if unknown. What holds no tensor has no dtype.
"""
_LONG = 400_000
"""The number of characters of reachable code from which no results are computed."""
_INTEGERS = ("bool", "int", "uint")
_PROBE = """import torch
from {module} import {cls}
model = {cls}(*values, **settings)
with torch.autocast("cuda", dtype=torch.float16):
    result = model{method}({arguments}).float()
"""
"""A script that runs a model of a file beside it."""
_CONSTANTS = (cst.SimpleString, cst.BaseNumber)
_NAMED = ("None", "True", "False")


def is_wide(result: Result) -> bool:
    """Whether a result certainly holds no half tensor."""
    if isinstance(result, tuple):
        return all(map(is_wide, result))
    return result is not None and result.isdisjoint({None, *HALF_DTYPES})


def is_floating(result: Result) -> bool:
    """Whether a result is one tensor, and of no dtype of integers as far as that is known."""
    whole = isinstance(result, frozenset) and any((one or "").startswith(_INTEGERS) for one in result)
    return isinstance(result, frozenset) and bool(result) and not whole


@cached_by_text
def results_cast(text: str, path: str) -> Mapping[tuple[int, str], Set[Result]]:
    """The results of the calls that `text` casts by `float()`, by row and code, on different paths."""
    check_time()
    source = parsed(text, path).source
    program, found = whole_program(source), dict[cst.CSTNode, set[Result]]()
    if sum(len(chunk.text) for chunk in program.chunks) > _LONG:
        return {}
    cast = {
        call.func.value
        for chunk in source.chunks
        for call in every(chunk.module, cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "float"
    }

    def tell(event: Event) -> None:
        if isinstance(event, Returned) and event.node in cast and (result := _result(event.result)) is not None:
            found.setdefault(event.node, set()).add(result)
        elif isinstance(event, OutputInHalf) and not event.is_tensor:
            found.setdefault(event.node, set()).add(None)

    layers = {
        called_name(call)
        for chunk in program.chunks
        for function in every(chunk.module, cst.FunctionDef)
        if function.name.value == "forward"
        for call in every(function, cst.Call)
    }
    kinds = {Operation.kind, OutputInHalf.kind, Returned.kind}
    interpret(program, tell, kinds, OPERATIONS.keys() | layers | {"float"}, halves=True)
    return {key_of(source, node): results for node, results in found.items()}


def key_of(source: Source, node: cst.CSTNode, row: int | None = None) -> tuple[int, str]:
    """What tells an expression from others: its row, or another one that it will have, and its code."""
    return row or source.span(node).start.row, "".join(source.code(node).split())


def _result(value: Value) -> Result:
    if isinstance(value, Tensor):
        return frozenset(value.among or {value.dtype})
    if isinstance(value, Items) and value.values:
        parts = tuple(map(_result, value.values))
        return parts if value.keys is None or is_wide(parts) else None
    return frozenset[str | None]() if isinstance(value, Const) else None


def _joined(left: Result, right: Result) -> Result:
    """What is either of two results; None if they differ in kind."""
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        return tuple(map(_joined, left, right))
    alike = isinstance(left, frozenset) and isinstance(right, frozenset) and bool(left) is bool(right)
    return left | right if alike and isinstance(left, frozenset) and isinstance(right, frozenset) else None


def unpacked(results: Iterable[Result], count: int) -> Result:
    """What each of `results` is; of those, where there are any, that are unpacked to `count` values, if not 0."""
    known = list(results)
    known = [one for one in known if isinstance(one, tuple) and len(one) == count] or known
    return functools.reduce(_joined, known) if known else None


def result_by_class(main: Source, call: cst.Call, count: int, *, method: bool) -> Result:
    """The result of `call`, which is unpacked to `count` variables or to none, by the classes of the project.

    They are those whose models it can run, or of which it runs a `method`.
    """
    path = dotted(call.func) or ""
    owner = path.rpartition(".")[0] if method else path
    program = whole_program(main)
    made = [program.resolve(main, name) for name in constructors(main, owner)]
    models = [one for one in made if isinstance(one, Chunk) and one.is_class]
    ways = (
        (one for _, one in way(main) if is_model(one))
        for way in (lambda main: models_given(main, {owner.rpartition(".")[2]}), models_by_settings, models_in_reach)
    )
    for chunks in [models] if models else map(list, ways):
        alike = [one for one in chunks if owner.rpartition(".")[2].lower() in (one.name or "").lower()]
        results = _probed(main, alike or chunks, call, f".{path.rpartition('.')[2]}" if method else "")
        result = unpacked((one for one in results if not count or not isinstance(one, frozenset)), count)
        if result is not None:
            return result
    return None


def _probed(main: Source, chunks: Iterable[Chunk], call: cst.Call, method: str) -> Iterator[Result]:
    """The results of `call` with each of the models that takes its arguments."""
    arguments = ", ".join(_argument(main, one, place) for place, one in enumerate(call.args))
    for chunk in dict.fromkeys(chunks):
        folder, file = os.path.split(os.path.abspath(chunk.source.path))
        module = file.removesuffix(".py")
        functions = every(chunk.module, cst.FunctionDef)
        run = next((one for one in functions if one.name.value == (method.removeprefix(".") or "forward")), None)
        if run is not None and not _accepts(run, call):
            continue
        if not chunk.source.path or not module.isidentifier() or (run is not None and _may_give_none(run)):
            yield None
            continue
        text = _PROBE.format(module=module, cls=chunk.name, method=method, arguments=arguments)
        yield from next(iter(results_cast(text, os.path.join(folder, "<probe>.py")).values()), {None})


def _may_give_none(function: cst.FunctionDef) -> bool:
    """Whether a part of what a method returns is None on one branch, which joins forget."""
    returned = {one.value for each in every(function, cst.Return) for one in every(each, cst.Name)}
    values = [each.value for each in every(function, cst.Return) if each.value is not None]
    values += (one.value for one in every(function, cst.Assign) if not returned.isdisjoint(bound_paths(one)))
    sides = [side for value in values for one in every(value, cst.IfExp) for side in (one.body, one.orelse)]
    return any(dotted(one) == "None" for one in (*values, *sides))


def _accepts(function: cst.FunctionDef, call: cst.Call) -> bool:
    """Whether a method takes the arguments of `call`."""
    params = function.params
    names = [one.name.value for one in (*positional(function), *params.kwonly_params)]
    keywords = {one.keyword.value for one in call.args if one.keyword is not None}
    places = sum(one.keyword is None and not one.star for one in call.args)
    enough = any(one.star for one in call.args) or all(
        one.default is not None or one.name.value in keywords for one in positional(function)[places + 1 :]
    )
    return (
        enough
        and (params.star_kwarg is not None or keywords <= set(names))
        and (isinstance(params.star_arg, cst.Param) or places < len(positional(function)))
    )


def _argument(main: Source, argument: cst.Arg, place: int) -> str:
    """An argument of a call as that of another: a constant, or an unknown value."""
    constant = isinstance(argument.value, _CONSTANTS) or dotted(argument.value) in _NAMED
    value = main.code(argument.value) if constant else f"value{place}"
    return f"{argument.keyword.value}={value}" if argument.keyword is not None else f"{argument.star}{value}"
