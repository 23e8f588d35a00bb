"""What an object inherits, or is given from outside, and only computes when it is called."""

from __future__ import annotations

from amplint.semantics.words import CALLED_MODULE, LOSS, NO_LOSS
from amplint.torchlib.methods import INHERITED_HARMLESS


def only_computes(name: str) -> bool:
    """Whether what is called by this name, and defined out of sight, steps no optimizer and updates no scaler."""
    if name in INHERITED_HARMLESS or CALLED_MODULE.search(name):
        return True
    return LOSS.search(name) is not None and NO_LOSS.search(name) is None
