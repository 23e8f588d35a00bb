"""Functions of `torch.utils.checkpoint` and the keywords that they take."""

from __future__ import annotations

CHECKPOINTS = {"torch.utils.checkpoint.checkpoint": 1, "torch.utils.checkpoint.checkpoint_sequential": 2}
"""Qualified name -> position of the first input."""
PASSES_KEYWORDS = "torch.utils.checkpoint.checkpoint"
"""The function that passes keywords which are not its own to the segment, without reentrance; with it, it raises."""
OWN_KEYWORDS = frozenset(
    {"function", "preserve_rng_state", "use_reentrant", "context_fn", "determinism_check", "debug", "early_stop"}
)
"""Keywords that are not passed to the segment.

Source: `checkpoint` in `torch/utils/checkpoint.py`: `preserve_rng_state` in all versions, `use_reentrant` since 1.11,
`context_fn`, `determinism_check` and `debug` since 2.1, `early_stop` in 2.13. What else is given to the reentrant
variant raises `ValueError: Unexpected keyword arguments`, in 1.0 to 2.13.
"""
