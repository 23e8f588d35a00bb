"""One process of several: DistributedDataParallel as far as it takes memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


class OneOfSeveral(nn.Module):
    """In the place of `DistributedDataParallel`: the module, and buckets as large as its gradients.

    Gradients that are views into buckets take no memory beside them.
    """

    def __init__(self, module: nn.Module, *_: Any, gradient_as_bucket_view: bool = False, **__: Any) -> None:
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        kept = [] if gradient_as_bucket_view else parameters
        self._buckets = [torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in kept]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns."""
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Nothing is exchanged in any case."""
        yield

    def register_comm_hook(self, *_: Any) -> None:
        """Nothing is exchanged."""
