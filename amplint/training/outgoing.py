"""Names of the half outputs of models, also where functions of the file are given them, and arrays of data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from amplint.findings import Span
from amplint.semantics.reading.scopes import dotted
from amplint.semantics.words import WHOLE_NUMBERS
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.source.tree import every
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import TO_FLOAT32
from amplint.training.bindings import bound_paths, called_name, matched, positional
from amplint.training.floating import Kind, kind_of
from amplint.training.script import Script

_SAME = operations_with("reshapes") | {"float"}
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


def names_of(script: Script, outputs: Set[cst.CSTNode]) -> dict[cst.CSTNode | None, set[str]]:
    """Function, or None for the top level -> the variables that `outputs` are assigned to there."""
    names: dict[cst.CSTNode | None, set[str]] = {}
    for node in outputs:
        path = name_of(script, node)
        if path is not None:
            names.setdefault(script.function_of(node), set()).add(path)
    return names


def name_of(script: Script, output: cst.CSTNode) -> str | None:
    """The variable or attribute that an output is bound to, cast or in another shape."""
    above = script.source.parent(output)
    while above is not None and _keeps_it(script, above):
        above = script.source.parent(script.source.parent(above) or above)
    return dotted(above.targets[0].target if isinstance(above, cst.Assign) else output)


def _keeps_it(script: Script, node: cst.CSTNode) -> bool:
    """Whether `node` belongs to a call that casts or shapes a value."""
    if isinstance(node, cst.Attribute):
        return node.attr.value in _SAME
    call = script.source.parent(node)
    return isinstance(node, cst.Arg) and isinstance(call, cst.Call) and called_name(call) == TO_FLOAT32


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
