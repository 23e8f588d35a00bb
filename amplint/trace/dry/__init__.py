"""Emulation of a CUDA device: the CPU computes, under CUDA's autocast policy, and scripts see a GPU.

Tensors that a script puts on "cuda" stay in the memory of the CPU, and their placement is recorded (`placement`).
Operations on them follow the tables of CUDA's autocast (`autocast`), and raise where the GPU would, for operands on two
devices (`operators`). Python code sees the emulated device (`devices`), and `torch.cuda` describes a GPU (`cuda`).
Where that is not enough the run stops (`beyond`).

Values are the CPU's: they show overflow, underflow and dtypes, not a GPU's last bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch._dynamo  # noqa: F401  builds its tables from the functions that are replaced here, so it comes first

from amplint.trace.dry.autocast import cuda_autocast
from amplint.trace.dry.beyond import CannotFollow, understood
from amplint.trace.dry.cuda import cuda_module
from amplint.trace.dry.devices import devices
from amplint.trace.dry.operators import Placing
from amplint.trace.dry.threads import threads
from amplint.trace.gpus import Gpu

__all__ = ["CannotFollow", "dry_run"]


@contextlib.contextmanager
def dry_run(gpu: Gpu) -> Iterator[None]:
    """Emulate `gpu` for code in this context. Raises CannotFollow where emulation is not enough."""
    placing = Placing()  # type: ignore[no-untyped-call]
    with cuda_module(gpu), cuda_autocast(), placing, devices() as mode, threads(mode):
        try:
            yield
        except Exception as failure:
            beyond = understood(failure)
            if beyond is None:
                raise
            raise beyond.with_traceback(failure.__traceback__) from None
