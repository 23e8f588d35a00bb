"""Explicit attention in float32, in place of GPU kernels that accept only half."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

HALF_ONLY = frozenset(
    f"_scaled_dot_product_{kind}_attention{backward}" for kind in ("flash", "cudnn") for backward in ("", "_backward")
)
"""Operators without a kernel for float32."""


def attention(given: Mapping[str, Any]) -> list[Tensor] | None:
    """The output, or with `grad_out` the gradients of query, key and value, each (N, H, L, E) as in PyTorch.

    `given` are an operator's arguments by name, in float32. None for grouped heads and for dropout.
    """
    query, key, value = given["query"], given["key"], given["value"]
    if given["dropout_p"] or not query.shape[1] == key.shape[1] == value.shape[1]:
        return None
    factor = 1 / math.sqrt(query.shape[-1]) if given.get("scale") is None else given["scale"]
    scores = query @ key.mT * factor
    bias = given.get("attn_bias")
    if bias is not None and bias.numel():
        scores = scores + bias
    if given["is_causal"]:
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1)
    output = given.get("grad_out")
    if output is None:
        return [weights @ value]
    slopes = output @ value.mT
    pushed = weights * (slopes - (slopes * weights).sum(-1, keepdim=True)) * factor
    return [pushed @ key, pushed.mT @ query, weights.mT @ output]
