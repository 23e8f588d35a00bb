"""Watching a real run: which dtype every operation computes in, and what the loss scale does.

The only part of amplint that runs the code it speaks about, and the only one that imports torch.
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

    `steps` is how many optimizer steps to record, all of them when None; the first `skip` are left out, and of the
    others every `every`-th is recorded. `numerics` is how much of the numbers is looked at: `off` only counts
    operations by dtype; `sample` finds where inf and NaN come from, before the window too, and takes samples of the
    rest; `full` takes all.
    With `compare_float32` every operation runs once more in float32, which tells what half precision changes.
    With `dry_run` the block runs as on CUDA without a GPU: `gpu` is one of `amplint trace --gpu`, and what is to lie on
    it is put there inside of the block.
    Lines of installed packages in `follow`, such as `("transformers",)`, count as yours; a finding elsewhere names your
    line, and with it that of the library which it has called.
    The block gets a `Record`, which is complete when the block ends.

        with amplint.trace.watch() as record:
            train_one_epoch()
        record.assert_dtype("model.head", torch.float16)

    Raises RuntimeError where a block is being watched already, ValueError for another `numerics` or `gpu`, a window
    that makes no sense and packages that are not installed, and ImportError without PyTorch.
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
