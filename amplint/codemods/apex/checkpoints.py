"""The states of optimizers in the checkpoints of a script that uses apex."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.codemods.apex.reach import Reach
from amplint.codemods.script import Script
from amplint.source import syntax as cst


def states(script: Script, reach: Reach) -> Iterator[cst.Call]:
    """The calls that take the state of an optimizer, or restore it."""
    for call in script.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("state_dict", "load_state_dict"):
            continue
        if reach.objects.means(script.scope(call), script.text_of(func.value), "optimizer"):
            yield call


def hand_on_scaler(script: Script, reach: Reach, made: int) -> None:
    """Hand the scaler, which is `made` in that row, to what saves or restores optimizers, as far as it gets there."""
    for call in states(script, reach):
        scope = script.scope(call)
        if scope != reach.home or script.row(call) >= made:
            reach.can_need(scope)
