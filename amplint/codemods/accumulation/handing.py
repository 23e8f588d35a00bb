"""Functions that are told more by those that call them."""

from __future__ import annotations

from collections.abc import Sequence

from amplint.codemods.calls import Calls
from amplint.codemods.refusal import Refusal
from amplint.codemods.script import Script
from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.source import syntax as cst


@dataclass(frozen=True)
class Handed:
    """The edits that add parameters to a function and its calls, and these calls."""

    edits: tuple[Edit, ...]
    calls: tuple[cst.Call, ...]


def handed_on(script: Script, known: Calls, function: cst.FunctionDef, parameters: Sequence[tuple[str, str]]) -> Handed:
    """Let `function` take `parameters` as its last, and every call of it pass what goes by their names.

    Each comes with what it is by default, which it gets where the parameter before it has a default.

    Raises Refusal where not every call is known.
    """
    name, params = function.name.value, function.params
    every = [*params.posonly_params, *params.params]
    star = isinstance(params.star_arg, (cst.Param, cst.ParamStar))
    calls = known.callers(function)
    if not calls:
        raise Refusal(function, f"{name}() trains on one batch, and the loop over batches is not in sight")
    if star or params.kwonly_params or params.star_kwarg:
        raise Refusal(function, f"{name}() would need to know its place in a window, and cannot be told here")
    edits = [_declared(script, function, every[-1] if every else None, parameters)]
    before = 0 if script.method_owner(function) is None else 1
    for call in calls:
        plain = len(call.args) + before == len(every) and all(argument.keyword is None for argument in call.args)
        text = ", ".join(one if plain else f"{one}={one}" for one, _ in parameters)
        edit = script.rewrite.insert_argument(call, len(call.args), text)
        if edit is None or any(argument.star for argument in call.args):
            raise Refusal(call, f"{name}() is called here in a way that leaves no place for more arguments")
        edits.append(edit)
    return Handed(tuple(edits), tuple(calls))


def _declared(
    script: Script, function: cst.FunctionDef, last: cst.Param | None, parameters: Sequence[tuple[str, str]]
) -> Edit:
    """The edit that declares `parameters` behind `last`, as that is declared."""
    if last is None:
        after = script.source.span(function.name).end
        place = Position(after.row, after.column + 1)
        return Edit(Span(place, place), ", ".join(name for name, _ in parameters))
    kept = last.default or (last.annotation.annotation if last.annotation is not None else last.name)
    end = script.source.span(kept).end
    annotation = ": int" if last.annotation is not None else ""
    equals = " = " if annotation else "="
    defaults = [f"{equals}{default}" if last.default is not None else "" for _, default in parameters]
    added = [f", {name}{annotation}{default}" for (name, _), default in zip(parameters, defaults, strict=True)]
    return Edit(Span(end, end), "".join(added))
