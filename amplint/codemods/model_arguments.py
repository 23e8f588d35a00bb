"""Calls outside of regions that hand half values to a function which runs a model or kernels on them."""

from __future__ import annotations

from collections.abc import Iterator, Set

from amplint.codemods.conversion import Remark
from amplint.codemods.mending import as_cures
from amplint.edits.casting import used_as_tensor
from amplint.findings import Applicability, Fix
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.training.bindings import matched, paths, positional
from amplint.training.halves import Halves
from amplint.training.reached import kernels, made_of

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


def kernels_run_on_half(program: Program, halves: Halves) -> Iterator[Remark]:
    """A remark for each such call in the file of a function that leads to kernels of half, which take float32."""
    main = program.main
    for call, _, row in halves.calls_outside():
        target = program.resolve(main, dotted(call.func) or "")
        if (
            not isinstance(target, Chunk)
            or target.source is main
            or not any(kernels(program, made_of(program, [target])))
        ):
            continue
        rewrite, given = Rewriter(main), halves.arguments(call)
        casts = tuple(rewrite.add_float(one) for one in given if used_as_tensor(one, rewrite))
        fix = Fix("Give kernels float32", casts, Applicability.UNSAFE) if len(casts) == len(given) else None
        why = "leads to kernels that may take no half, outside of a region; give it float32"
        yield Remark(row, f"{dotted(call.func)}() {why}", cures=as_cures(main, fix))


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
