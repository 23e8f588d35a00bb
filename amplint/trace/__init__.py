"""The runtime tracer: dtypes of every operation of a real run, and the behaviour of the loss scale.

The only part of amplint that runs the user's code, and the only one that imports torch.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.trace.watching import Watch


def watch(
    *,
    steps: int | None = None,
    skip: int = 0,
    every: int = 1,
    numerics: str = "sample",
    compare_float32: bool = False,
    dry_run: bool = False,
    gpu: str = "a100",
    follow: Collection[str] = (),
) -> Watch:
    """Record what runs inside of a `with` block.

    `steps` is the number of optimizer steps to record, all if None; the first `skip` are not recorded, and of the
    others every `every`-th is. `numerics` is the level of numerical checks: `off` only counts operations by dtype;
    `sample` also finds the origins of inf and NaN, before the window too, and samples the rest; `full` checks
    everything. With `compare_float32` every operation also runs in float32, to measure the error of half precision.
    With `dry_run` the block runs as on CUDA without a GPU: `gpu` is one of `amplint trace --gpu`, and tensors are moved
    to it inside of the block.

    Installed packages in `follow`, such as `("transformers",)`, count as the user's code; findings elsewhere name the
    user's line and the library's line that it called.

    The block gets a `Record`, which is complete when the block ends.

        with amplint.trace.watch() as record:
            train_one_epoch()
        record.assert_dtype("model.head", torch.float16)

    Raises RuntimeError if a block is being watched already, ValueError for an unknown `numerics` or `gpu`, an invalid
    window and packages that are not installed, and ImportError without PyTorch.
    """
    from amplint.trace.gpus import GPUS
    from amplint.trace.packages import refusal
    from amplint.trace.watching import Watch
    from amplint.trace.window import Window

    if gpu not in GPUS:
        raise ValueError(f"gpu is one of {', '.join(GPUS)}")
    for refused in filter(None, map(refusal, follow)):
        raise ValueError(refused)
    window = Window(steps=steps, skip=skip, every=every)
    pretended = GPUS[gpu] if dry_run else None
    return Watch(window, numerics=numerics, compare_float32=compare_float32, gpu=pretended, follow=follow)
