"""Optimizer states in the checkpoints of a script that uses apex."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.reach import Reach
from amplint.edits.checkpoints import restored, saved
from amplint.findings import Edit
from amplint.source import syntax as cst
from amplint.training.script import Script


def states(script: Script, reach: Reach) -> Iterator[cst.Call]:
    """The calls that read or restore the state of an optimizer."""
    for call in script.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("state_dict", "load_state_dict"):
            continue
        if reach.objects.means(script.scope(call), script.text_of(func.value), "optimizer"):
            yield call


def kept_with_optimizer(script: Script, reach: Reach, made: int) -> Iterator[Edit]:
    """The edits that save and load the scaler's state beside the optimizer's, where the scaler is available.

    It is constructed in the row `made`.
    """
    for call in states(script, reach):
        scope = script.scope(call)
        if (scope != reach.home or script.row(call) >= made) and reach.can_need(scope):
            scaler = reach.scaler_in(scope)
            assert scaler is not None
            edit = restored(call, scaler, script.rewrite) if call.args else saved(call, scaler, script.rewrite)
            if edit is not None:
                yield edit
