"""`--from mmcv`: configs and decorators of mmcv 1.x become those of mmengine and regions of PyTorch."""

from __future__ import annotations

from amplint.codemods.conversion import Change, Plan, Remark, Wish
from amplint.codemods.mmcv.configs import converted
from amplint.codemods.mmcv.settings import NAMES
from amplint.codemods.rows import changed_edits, row_after
from amplint.codemods.script import Refused
from amplint.findings import Fix


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Convert what a file takes from mmcv for mixed precision; refuse where a part of it cannot be understood."""
    if not any(name in text for name in NAMES):
        return Plan()
    try:
        new, remarks = converted(text, path)
    except Refused as refusal:
        return Plan(refused=(refusal.remark,))
    if new == text:
        return Plan()
    fix = Fix("Say what mmengine's optim_wrapper is", changed_edits(text, new))
    first = min(edit.span.start.row for edit in fix.edits)
    left = tuple(Remark(row_after(text, new, remark.row), remark.text) for remark in remarks)
    return Plan((Change(fix, (Remark(first, fix.message),), left),))
