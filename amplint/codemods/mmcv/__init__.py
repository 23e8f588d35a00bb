"""`--from mmcv`: configs and decorators of mmcv 1.x become those of mmengine and regions of PyTorch."""

from __future__ import annotations

from amplint.codemods.conversion import Plan, Remark, Wish
from amplint.codemods.editing import remarks_on
from amplint.codemods.mmcv import configs, decorators
from amplint.codemods.mmcv.decorated import AUTO, FLAG, FORCE, REFUSED
from amplint.codemods.mmcv.settings import NAMES
from amplint.codemods.rows import rewritten
from amplint.training.refusal import Refusal
from amplint.training.script import Script

_MODULE = (AUTO, FORCE, FLAG, *REFUSED)


def plan(text: str, wish: Wish, path: str) -> Plan:
    """Convert the file's uses of mmcv's mixed precision; refuse if a part of them is not understood."""
    try:
        new, remarks, what = text, list[Remark](), ""
        if any(name in text for name in _MODULE):
            new, remarks = decorators.converted(text, wish, path)
            what = "Use torch.autocast"
        if new == text and any(name in text for name in NAMES):
            new, remarks = configs.converted(text, path)
            what = "Say it in optim_wrapper"
    except Refusal as refusal:
        return Plan(refused=remarks_on(refusal, Script(text, path)))
    change = rewritten(text, new, what, remarks)
    if change is None:
        return Plan()
    if wish.dtype != "float16":
        return Plan(refused=(Remark(1, "mmcv computes in float16: convert from mmcv without --dtype"),))
    return Plan((change,))
