"""Half outputs of models that leave their function, or sight: what is returned, handed on, or scaled to a unit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set

from amplint.findings import Span
from amplint.semantics.models.half_outputs import is_loss
from amplint.semantics.reading.program import Program
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import SPEAKS_OF_LOSS, UNSCALES, WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.source import Chunk, Source
from amplint.source.tree import every
from amplint.torchlib.catalogue import OPERATIONS
from amplint.training.bindings import bound_paths, called_name, matched, positional
from amplint.training.floating import Kind, kind_of
from amplint.training.halves import halves_of
from amplint.training.operands import constructors
from amplint.training.script import Script

_DATA = re.compile(r"^(?:inputs?|data|batch|samples?)(?:_dict)?$")
"""Names of dictionaries that a loader fills."""


def is_of_data_at(chunk: Chunk, span: Span) -> bool:
    """Whether the call at `span` makes an array of a parameter that is data by its name, or of what is float32."""
    calls = (one for one in every(chunk.module, cst.Call) if chunk.span(one) == span)
    value = next((one.func.value for one in calls if isinstance(one.func, cst.Attribute)), None)
    if value is None or kind_of(chunk.source, value) in (Kind.FLOAT32, Kind.OTHER):
        return value is not None
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        value = value.func.value
    function, keyed = chunk.source.function_around(value), isinstance(value, cst.Subscript)
    name = dotted(value.value if isinstance(value, cst.Subscript) else value) or ""
    given = {one.name.value for one in positional(function)} if function is not None else set()
    if name not in given:
        return False
    return _DATA.search(name) is not None if keyed else WHOLE_NUMBERS.search(name.lower()) is not None


def unscaling(script: Script, names: Mapping[cst.CSTNode | None, Set[str]]) -> Iterator[cst.Call]:
    """The calls, perhaps of unseen code, that scale one of the outputs with these `names` to the unit of the data."""
    for call in script.calls if names else ():
        given = {dotted(argument.value) for argument in call.args}
        if UNSCALES.search(called_name(call)) and given & names.get(script.function_of(call), set()):
            yield call


def leaving(script: Script, outputs: Set[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Those of `outputs`, not cast, that their function returns to code out of sight, or through another function."""
    for output in outputs:
        function, path = script.function_of(output), name_of(script, output)
        if path is None or not isinstance(function, cst.FunctionDef) or _is_cast(script, output, function, path):
            continue
        passed = {path} if all(called_name(call) != function.name.value for call in script.calls) else set[str]()
        for one in every(function, cst.Assign):
            if _is_computed_from(script.source, one.value, path) and not any(
                map(SPEAKS_OF_LOSS.search, bound_paths(one))
            ):
                passed |= bound_paths(one)
        if any(dotted(part) in passed for one in every(function, cst.Return) for part in _parts(one.value)):
            yield output


def unseen(script: Script, program: Program) -> Iterator[int]:
    """The rows of calls out of sight that are given half values: they may make arrays of NumPy, as plots do."""
    leaving = halves_of(script.text, script.path).leaving if script.path else {}
    known = (
        {one.name.value for chunk in program.chunks for one in every(chunk.module, cst.FunctionDef)} if leaving else ()
    )
    yield from (row for (name, _), (row, _) in leaving.items() if name not in known and not is_loss(name))


def names_of(script: Script, outputs: Set[cst.CSTNode]) -> dict[cst.CSTNode | None, set[str]]:
    """Function, or None for the top level -> the variables that `outputs` are assigned to there."""
    names: dict[cst.CSTNode | None, set[str]] = {}
    for node in outputs:
        path = name_of(script, node)
        if path is not None:
            names.setdefault(script.function_of(node), set()).add(path)
    return names


def name_of(script: Script, output: cst.CSTNode) -> str | None:
    """The variable or attribute that an output is bound to."""
    above = script.source.parent(output)
    while isinstance(above, cst.Attribute) and above.attr.value == "float":
        above = script.source.parent(script.source.parent(above) or above)
    return dotted(above.targets[0].target if isinstance(above, cst.Assign) else output)


def given_names(
    script: Script, function: cst.FunctionDef | None, names: Mapping[cst.CSTNode | None, Set[str]]
) -> set[str]:
    """The variables of a function that `names` lists there, and its parameters that are given such ones."""
    found = {*names.get(function, ())}
    for call in script.calls:
        if function is not None and called_name(call) == function.name.value:
            home = script.function_of(call)
            outputs = {*names.get(home, ())}
            loops = [one for one in script.of_kind(cst.CompFor) if script.function_of(one) is home]
            outputs |= {path for one in loops if dotted(one.iter) in outputs for path in bound_paths(one)}
            params = [one.name.value for one in positional(function) if one.name.value != "self"]
            found |= {param for param, one in matched(call, params) if dotted(one.value) in outputs}
    return found


def _parts(value: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """The elements of a tuple, or the value itself."""
    if isinstance(value, cst.Tuple):
        return [element.value for element in value.elements]
    return [value] if value is not None else []


def _is_computed_from(source: Source, value: cst.BaseExpression, path: str) -> bool:
    """Whether `value` is the result of a function or method of the project, and no layer, that takes `path` alone."""
    if not isinstance(value, cst.Call) or [dotted(one.value) for one in value.args] != [path]:
        return False
    owner, _, name = (dotted(value.func) or "").rpartition(".")
    plain = owner in ("", "self") and bool(name) and name not in OPERATIONS and not is_loss(name)
    return plain and not constructors(source, dotted(value.func) or "")


def _is_cast(script: Script, output: cst.CSTNode, function: cst.FunctionDef, path: str) -> bool:
    """Whether `output`, bound to `path`, is cast to float32 where it is bound or by another assignment."""
    above = script.source.parent(output)
    if isinstance(above, cst.Attribute) and above.attr.value == "float":
        return True
    values = (getattr(one, "value", None) for one in script.assignments(function, path))
    calls = (call.func for value in values if value is not None for call in every(value, cst.Call))
    casts = (func.value for func in calls if isinstance(func, cst.Attribute) and func.attr.value == "float")
    return any(dotted(cast) == path for cast in casts)
