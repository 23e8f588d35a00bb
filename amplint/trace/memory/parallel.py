"""Emulation of distributed training in one process: groups of one member, collectives, and the memory of DDP."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, nn

from amplint.trace.replaced import replaced


@contextlib.contextmanager
def one_process() -> Iterator[None]:
    """Let scripts initialise a process group of one, without a port, which other variants may use."""
    with contextlib.ExitStack() as stack:
        for module in (nn.parallel, nn.parallel.distributed):
            stack.enter_context(replaced(module, DistributedDataParallel=OneOfSeveral))
        if distributed.is_available():
            begin = distributed.init_process_group

            def begun(backend: str | None = None, *_: Any, **__: Any) -> None:
                begin(backend, store=torch._C._distributed_c10d.HashStore(), rank=0, world_size=1)

            stack.enter_context(replaced(distributed, init_process_group=begun))
        yield


def exchanged(func: Any, args: Any) -> Any:
    """Result of an operator of `torch.ops.c10d` in a group with one member, where no data moves.

    By the operator's schema: None, a completed `Work`, or the first argument (the tensors) and the `Work`.
    """
    if not func._schema.returns:
        return None
    done: Any = torch.futures.Future()
    done.set_result(None)
    groups: Any = torch._C._distributed_c10d
    work = groups._create_work_from_future(done).boxed()
    return (args[0], work) if len(func._schema.returns) > 1 else work


class OneOfSeveral(nn.Module):
    """Substitute for `DistributedDataParallel`: the module, and buckets as large as its gradients.

    Gradients that are views of buckets take no additional memory.
    """

    def __init__(self, module: nn.Module, *_: Any, gradient_as_bucket_view: bool = False, **__: Any) -> None:
        super().__init__()
        self.module = module
        self.require_backward_grad_sync = True
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        kept = [] if gradient_as_bucket_view else parameters
        self._buckets = [torch.empty(each.shape, dtype=each.dtype, device=each.device) for each in kept]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the module."""
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Do nothing: there is no communication."""
        yield

    def register_comm_hook(self, *_: Any) -> None:
        """Do nothing: there is no communication."""
