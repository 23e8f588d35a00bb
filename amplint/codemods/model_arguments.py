"""Calls outside of regions that hand a function both half values and a model, which it runs on them."""

from __future__ import annotations

from collections.abc import Iterator, Set

from amplint.codemods.conversion import Remark
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import matched, paths, positional
from amplint.training.halves import Halves

_DEPTH = 3
"""The number of functions through which a model is followed."""


def models_run_on_half(program: Program, halves: Halves) -> Iterator[Remark]:
    """A remark for each such call in the file, once for each model."""
    reported = set[str]()
    for call, half, row in halves.calls_outside():
        for name in _models_run_by(program, program.main, call, half):
            if name not in reported:
                reported.add(name)
                yield Remark(
                    row, f"{dotted(call.func)}() can run {name} on half tensors here, outside of a region; cast them"
                )


def _models_run_by(program: Program, source: Source, call: cst.Call, half: Set[str]) -> Iterator[str]:
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
        for name, argument in matched(call, params):
            if not argument.star:
                yield argument, (target.source, function, name)
