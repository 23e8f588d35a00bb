"""Calls outside of regions that hand a function both half values and a model, which it runs on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amplint.codemods.bindings import bound_paths, called_name, paths, positional
from amplint.codemods.conversion import Remark
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every, walk

_DEPTH = 3
"""The number of functions through which a model is followed."""
_WIDENING = frozenset({"float", "double", "item", "tolist", "numpy", "long", "int"})


def models_run_on_half(program: Program, regions: Iterable[cst.With]) -> Iterator[Remark]:
    """A remark for each such call in the file, once for each model."""
    source, every_region = program.main, list(regions)
    inside = {id(node) for region in every_region for node in walk(region)}
    told = set[str]()
    for region in every_region:
        function = next((one for one in source.ancestors(region) if isinstance(one, cst.FunctionDef)), None)
        bound = {path for assign in every(region, cst.Assign) for path in bound_paths(assign)}
        half = {path for path in bound if not SPEAKS_OF_LOSS.search(path)}
        for call in every(function or source.chunk_of(region).module, cst.Call):
            if id(call) in inside or source.span(call).start < source.span(region).start:
                continue
            given = [
                one for one in call.args if not any(called_name(each) in _WIDENING for each in every(one, cst.Call))
            ]
            if not any(isinstance(one.value, (cst.Name, cst.Subscript)) and paths(one.value) & half for one in given):
                continue
            for name in _models_run_by(program, source, call, half):
                if name not in told:
                    told.add(name)
                    why = f"{dotted(call.func)}() can run {name} on half tensors here, outside of a region; cast them"
                    yield Remark(source.span(call).start.row, why)


def _models_run_by(program: Program, source: Source, call: cst.Call, half: set[str]) -> Iterator[str]:
    """The arguments of `call`, other than those in `half`, that the function it runs calls."""
    for argument, (home, function, name) in _passed(program, source, call):
        path = dotted(argument.value)
        if path is not None and not paths(argument.value) & half and _is_called(program, home, function, name, _DEPTH):
            yield path


def _is_called(program: Program, source: Source, function: cst.FunctionDef, name: str, depth: int) -> bool:
    """Whether `function`, or one that it hands its parameter `name`, calls that with arguments."""
    for call in every(function, cst.Call) if depth else ():
        if dotted(call.func) == name and call.args:
            return True
        for argument, (home, inner, given) in _passed(program, source, call):
            if dotted(argument.value) == name and _is_called(program, home, inner, given, depth - 1):
                return True
    return False


def _passed(
    program: Program, source: Source, call: cst.Call
) -> Iterator[tuple[cst.Arg, tuple[Source, cst.FunctionDef, str]]]:
    """The arguments of a call of a function that imports and definitions lead to, each with its parameter."""
    target = program.resolve(source, dotted(call.func) or "")
    visible = isinstance(target, Chunk) and not target.is_class and "autocast" not in target.words
    functions = target.module.body if visible and isinstance(target, Chunk) else ()
    for function in (one for one in functions if isinstance(one, cst.FunctionDef)):
        assert isinstance(target, Chunk)
        params = [param.name.value for param in positional(function)]
        for index, argument in enumerate(call.args):
            named = argument.keyword.value if argument.keyword is not None else None
            name = named or (params[index] if index < len(params) and not argument.star else None)
            if name is not None:
                yield argument, (target.source, function, name)
