"""The calls of a function, and what they pass for one of its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amplint.semantics.reading.scopes import last_name
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every

if TYPE_CHECKING:
    from amplint.semantics.reading.program import Program

_LOOKS = frozenset({"super", "isinstance", "issubclass"})
"""Functions that only look at a class that they are given."""


@cached_per_file
def calls_of(program: Program, source: Source, name: str) -> list[tuple[Source, cst.Call]] | None:
    """The calls of a name of `source`, in the program and in what imports it, None if it has other uses."""
    importers = program.importers(name) if source is program.main else []
    chunks = [*program.chunks, *(chunk for one in importers or () for chunk in one.chunks)]
    found: list[tuple[Source, cst.Call]] = []
    for chunk in dict.fromkeys(chunks) if importers is not None else ():
        for call in every(chunk.module, cst.Call) if name in chunk.words else ():
            if last_name(call.func) in _LOOKS:
                continue
            if any(last_name(one.value) == name for one in call.args):
                return None
            if last_name(call.func) == name:
                found.append((chunk.source, call))
    return found


def given(call: cst.Call, position: int, param: cst.Param) -> cst.BaseExpression | None:
    """What a call passes for the parameter at a position, its default if nothing; None if that is not seen."""
    if any(argument.star for argument in call.args):
        return None
    named = [one.value for one in call.args if one.keyword is not None and one.keyword.value == param.name.value]
    placed = [one.value for one in call.args if one.keyword is None][position : position + 1]
    return next(iter((*named, *placed)), param.default)


def parameter_of(function: cst.FunctionDef, name: str) -> tuple[int, cst.Param] | None:
    """The position and the parameter of this name."""
    params = [*function.params.posonly_params, *function.params.params]
    found = ((position, one) for position, one in enumerate(params) if one.name.value == name)
    others = ((len(params), one) for one in function.params.kwonly_params if one.name.value == name)
    return next(iter((*found, *others)), None)
