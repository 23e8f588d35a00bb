"""New parameters of functions, and arguments for them at call sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amplint.findings import Edit, Position, Span
from amplint.records import dataclass
from amplint.source import syntax as cst
from amplint.training.bindings import positional
from amplint.training.refusal import required
from amplint.training.script import Script


@dataclass(frozen=True, slots=True)
class New:
    """A new parameter of the type `kind`, with the `default` if the preceding parameter has one.

    Without one, it is keyword-only there.
    """

    name: str
    kind: str
    default: str | None = None


def takes_more(function: cst.FunctionDef) -> bool:
    """Whether the last parameter of `function` is positional: no `*args`, keyword-only parameters or `**kwargs`."""
    params = function.params
    starred = isinstance(params.star_arg, (cst.Param, cst.ParamStar))
    return not (starred or params.kwonly_params or params.star_kwarg)


def appended(script: Script, function: cst.FunctionDef, *new: New) -> Edit:
    """The edit that appends `new` to the parameters of `function`, which can take them."""
    every = positional(function)
    if every:
        return declared_behind(script, every[-1], *new)
    after = script.source.span(function.name).end
    place = Position(after.row, after.column + 1)
    return Edit(Span(place, place), ", ".join(one.name for one in new))


def declared_behind(script: Script, param: cst.Param, *new: New) -> Edit:
    """The edit that declares `new` after `param`, in its style."""
    optional = param.default is not None
    texts = ["*"] if optional and any(one.default is None for one in new) else []
    for one in new:
        annotation = f": {one.kind}" if param.annotation is not None else ""
        equals = " = " if annotation else "="
        given = f"{equals}{one.default}" if optional and one.default is not None else ""
        texts.append(f"{one.name}{annotation}{given}")
    return behind(script, param, *texts)


def behind(script: Script, param: cst.Param, *texts: str) -> Edit:
    """The edit that inserts `texts` after `param`, each on its own row if that has one."""
    last = param.default or (param.annotation.annotation if param.annotation is not None else param.name)
    end = script.rewrite.span(last).end
    before = script.rewrite.row_before(script.rewrite.span(param.name).start)
    gap = " " if before.strip() else script.source.newline + before
    return Edit(Span(end, end), "".join(f",{gap}{text}" for text in texts))


def passed_on(
    script: Script, function: cst.FunctionDef, calls: Iterable[cst.Call], new: Sequence[New], why: str
) -> list[Edit]:
    """The edits that append `new` to the parameters of `function`, and pass them on by these names in `calls`.

    Raises Refusal, with the reason `why` for a call that cannot pass them.
    """
    given = [(one, one.name) for one in new]
    edits = (required(passed_last(script, function, call, *given), call, why) for call in calls)
    return [appended(script, function, *new), *edits]


def passed_last(script: Script, function: cst.FunctionDef, call: cst.Call, *given: tuple[New, str]) -> Edit | None:
    """The edit that passes arguments for the new last parameters of `function`.

    They are positional where all others are and are present, else by keyword. None if unpacked arguments could bind to
    them.
    """
    every = positional(function)
    optional = bool(every) and every[-1].default is not None
    starred = any(argument.star for argument in call.args)
    if starred and optional:
        return None
    before = 0 if script.method_owner(function) is None else 1
    plain = len(call.args) + before == len(every) and all(argument.keyword is None for argument in call.args)
    by_name = starred or not plain or (optional and any(one.default is None for one, _ in given))
    text = ", ".join(f"{one.name}={value}" if by_name else value for one, value in given)
    return script.rewrite.insert_argument(call, len(call.args), text)
