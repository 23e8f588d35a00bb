"""Registry of codemods, which are imported when needed.

Every codemod is one module with a function `plan(text, wish, path)` that returns a `Plan`. It is called again on its
own result until it plans nothing more, so it has to recognise what is converted already.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from amplint.codemods.conversion import Plan, Remark, Wish

Codemod = Callable[[str, Wish, str], Plan]

GOALS = {
    "amp": "amplint.codemods.amp",
    "bfloat16": "amplint.codemods.to_bfloat16",
    "float8": "amplint.codemods.float8",
}
"""Value of `--to` -> module."""

SOURCES = {
    "apex": "amplint.codemods.apex",
    "cuda-amp": "amplint.codemods.cuda_amp",
    "float16": "amplint.codemods.bfloat16",
    "mmcv": "amplint.codemods.mmcv",
}
"""Value of `--from` -> module."""
DTYPES = ("float16", "bfloat16")
DEVICES = ("cuda", "cpu", "auto")
_ON_DEVICES = ("apex", "mmcv")
"""The values of `--from` whose results name a device."""
LEAST_WINDOW = 2
"""The least number of batches per step for which accumulation makes sense."""
ACCUMULATION = "amplint.codemods.accumulation"


def find(wish: Wish) -> Codemod:
    """The codemod for `wish`; accumulation begins where the other one has nothing left to do.

    Raises ValueError if there is none.
    """
    module = SOURCES.get(wish.source) if wish.source is not None else GOALS.get(wish.to or "")
    if module is None and (wish.accumulate is None or wish.source is not None or wish.to is not None):
        raise ValueError(f"no codemod converts {wish.source or 'float32'} to {wish.to or 'what is current'}")
    modules = (module, ACCUMULATION if wish.accumulate is not None else None)
    plans = [_plan(name) for name in modules if name is not None]

    def in_turn(text: str, wish: Wish, path: str) -> Plan:
        left: tuple[Remark, ...] = ()
        for each in [*plans]:
            found = each(text, wish, path)
            if found.changes or found.refused:
                if found.complete:
                    plans.remove(each)
                return found
            left += found.left
        return Plan(left=left)

    return in_turn


def conflict(wish: Wish, dash: str = "") -> str | None:
    """The conflict between options of `wish`, None if there is none; names begin with `dash`."""
    source = f"{dash}from {wish.source}" if dash else f"source_api {wish.source!r}"
    if wish.source is not None and wish.to is not None:
        return f"{source} decides what the code becomes: leave {dash}to {wish.to} out"
    if wish.dtype != "float16" and wish.to != "amp":
        return f"{dash}dtype says what {dash}to amp computes in, and means nothing without it"
    if wish.device != "cuda" and wish.to != "amp" and wish.source not in _ON_DEVICES:
        return f"{dash}device says what {dash}to amp is for, and means nothing without it"
    if wish.device == "auto" and wish.source is not None:
        return f"{source} asks no torch.device: {dash}device is cuda or cpu"
    add_flag = f"{dash}add-flag" if dash else "add_flag"
    if wish.add_flag and (wish.source is not None or (wish.to != "amp" and wish.accumulate is None)):
        return f"{add_flag} adds options for {dash}to amp and {dash}accumulate, and means nothing without them"
    return None


def require(wish: Wish) -> None:
    """Raise ValueError, with the valid values, for an invalid part of `wish`."""
    for what, word, known in (
        ("to", wish.to, GOALS),
        ("source_api", wish.source, SOURCES),
        ("dtype", wish.dtype, DTYPES),
        ("device", wish.device, DEVICES),
    ):
        if word is not None and word not in known:
            raise ValueError(f"{what} is one of {', '.join(known)}, not {word!r}")
    if wish.accumulate is not None and wish.accumulate < LEAST_WINDOW:
        raise ValueError(f"accumulate is at least {LEAST_WINDOW}, not {wish.accumulate!r}")
    find(wish)
    why = conflict(wish)
    if why is not None:
        raise ValueError(why)


def _plan(module: str) -> Codemod:
    codemod: Codemod = importlib.import_module(module).plan
    return codemod
