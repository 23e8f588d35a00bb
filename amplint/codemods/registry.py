"""Which module fulfils which wish; a codemod is imported when it is needed.

Every codemod is one module with a function `plan(text, wish, path)` that returns a `Plan`. It is asked again about its
own result until it plans nothing more, so it has to recognise what is converted already.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from amplint.codemods.conversion import Plan, Wish

Codemod = Callable[[str, Wish, str], Plan]

GOALS = {"amp": "amplint.codemods.amp"}
"""Value of `--to` -> module."""

SOURCES = {
    "apex": "amplint.codemods.apex",
    "cuda-amp": "amplint.codemods.cuda_amp",
    "float16": "amplint.codemods.bfloat16",
    "mmcv": "amplint.codemods.mmcv",
}
"""Value of `--from` -> module."""


def find(wish: Wish) -> Codemod:
    """The codemod for `wish`. Raises ValueError where there is none."""
    module = SOURCES.get(wish.source) if wish.source is not None else GOALS.get(wish.to or "")
    if module is None:
        raise ValueError(f"no codemod converts {wish.source or 'float32'} to {wish.to or 'what is current'}")
    codemod: Codemod = importlib.import_module(module).plan
    return codemod
