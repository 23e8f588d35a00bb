"""The scaler's state in the checkpoints of a script that never saved apex's."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.reach import Reach
from amplint.codemods.script import Script
from amplint.edits.checkpoint_files import loaded_beside, saved_beside
from amplint.findings import Edit, Span
from amplint.source import syntax as cst


def states(script: Script, reach: Reach) -> Iterator[cst.Call]:
    """The calls that take the state of an optimizer, or restore it."""
    for call in script.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("state_dict", "load_state_dict"):
            continue
        if reach.objects.means(script.scope(call), script.text_of(func.value), "optimizer"):
            yield call


def kept_with_optimizer(script: Script, reach: Reach, made: int) -> Iterator[Edit]:
    """The scaler's state beside the optimizer's where that is saved and loaded, as far as the scaler gets there.

    It is `made` in that row.
    """
    for call in states(script, reach):
        scope = script.scope(call)
        if (scope != reach.home or script.row(call) >= made) and reach.can_need(scope):
            scaler = reach.scaler_in(scope)
            assert scaler is not None
            edit = _saved(script, call, scaler) if not call.args else _loaded(script, call, scaler)
            if edit is not None:
                yield edit


def _saved(script: Script, call: cst.Call, scaler: str) -> Edit | None:
    """The entry of the scaler below that of the optimizer, in a dict that is written out, or a file beside its own."""
    entry = script.source.parent(call)
    if not isinstance(entry, cst.DictElement) or not isinstance(entry.key, cst.SimpleString):
        return saved_beside(call, f"{scaler}.state_dict()", script.rewrite)
    quote = entry.key.quote
    end = script.source.span(call).end
    line = script.lines.line(end.row)
    alone = line[: script.source.span(entry).start.column - 1].strip() == ""
    rest = script.lines.after(end).strip()
    gap = f"{script.source.newline}{script.lines.indentation(end.row)}" if alone and rest[:1] in ("", ",") else " "
    return Edit(Span(end, end), f",{gap}{quote}scaler{quote}: {scaler}.state_dict()")


def _loaded(script: Script, call: cst.Call, scaler: str) -> Edit | None:
    """The scaler's state loaded after the optimizer's, from checkpoints that hold it."""
    given = call.args[0].value
    if not isinstance(script.source.parent(call), cst.Expr):
        return None
    if not isinstance(given, cst.Subscript):
        return loaded_beside(call, scaler, script.rewrite)
    key = given.slice[0].slice
    if not (
        isinstance(key, cst.Index) and isinstance(key.value, cst.SimpleString) and isinstance(given.value, cst.Name)
    ):
        return None
    quote, checkpoint = key.value.quote, given.value.value
    name = f"{quote}scaler{quote}"
    code = f"if {checkpoint}.get({name}):\n    {scaler}.load_state_dict({checkpoint}[{name}])"
    return script.rewrite.insert_after(call, code)
