"""Smaller batches and images from data loaders, so that a step takes seconds instead of minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data.dataloader import _BaseDataLoaderIter

from amplint.trace.frames import Line, calling_line
from amplint.trace.replaced import replaced

_CHANNELS = (1, 3, 4)
"""How many channels integers have that are an image's."""

Tell = Callable[[str], None]
Paused = Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def shrunk(max_batch: int | None, image_size: int | None, tell: Tell, paused: Paused) -> Iterator[None]:
    """Limit the batches of data loaders to `max_batch` samples and images to `image_size` pixels."""
    with contextlib.ExitStack() as stack:
        if max_batch is not None:
            stack.enter_context(smaller_batches(max_batch, tell))
        if image_size is not None:
            stack.enter_context(smaller_images(image_size, tell, paused))
        yield


@contextlib.contextmanager
def smaller_batches(samples: int, tell: Tell) -> Iterator[None]:
    """Truncate each batch of a `DataLoader` to its first `samples`.

    The loader's length is unchanged, also with `drop_last`, and with it epochs, schedules and accumulation windows.
    `tell` is called for loaders that cannot be truncated, and if there was none.
    """
    following: Callable[..., Any] = _BaseDataLoaderIter._next_index
    reported: set[Line] = set()
    found = False

    def following_fewer(self: Any) -> Any:
        nonlocal found
        found = True
        indices = following(self)
        if isinstance(indices, (list, tuple)):
            return indices[:samples]
        line = calling_line()
        if line not in reported:
            reported.add(line)
            place = f"{Path(line[0]).name}:{line[1]}"
            tell(f"{place}: --max-batch leaves this DataLoader as it is: its dataset makes the batches")
        return indices

    with replaced(_BaseDataLoaderIter, _next_index=following_fewer):
        yield
    if not found:
        tell("--max-batch changed nothing: no DataLoader was used")


@contextlib.contextmanager
def smaller_images(size: int, tell: Tell, paused: Paused) -> Iterator[None]:
    """Subsample images of data loaders so that their longer side has at most `size` pixels.

    Images are batches of four dimensions, of floating point or of integers with 1, 3 or 4 channels, channels first or
    last. Other tensors of an image's height and width in the same batch, such as a mask, are subsampled alike, in the
    context `paused`; `tell` is called if there were none.
    """
    following = _BaseDataLoaderIter.__next__
    found = False

    def following_smaller(self: Any) -> Any:
        nonlocal found
        batch = following(self)
        spaces = {_space(value) for value in tree_leaves(batch) if isinstance(value, torch.Tensor)}
        large = {space for space in spaces if space is not None and max(space) > size}
        if not large:
            return batch
        found = True
        with paused():
            return tree_map(lambda value: _smaller(value, large, size), batch)

    with replaced(_BaseDataLoaderIter, __next__=following_smaller):
        yield
    if not found:
        tell(f"--image-size changed nothing: no DataLoader gave batches of images that are larger than {size}")


def _space(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Height and width of a batch of images, None for anything else."""
    if tensor.dim() != 4:
        return None
    last = tensor.shape[3] in _CHANNELS and tensor.shape[1] not in _CHANNELS
    channels = tensor.shape[3 if last else 1]
    if not tensor.is_floating_point() and channels not in _CHANNELS:
        return None
    height, width = tensor.shape[1:3] if last else tensor.shape[2:4]
    return height, width


def _smaller(value: Any, large: set[tuple[int, int]], size: int) -> Any:
    if not isinstance(value, torch.Tensor) or value.dim() < 3:
        return value
    for first in (value.dim() - 2, 1):
        height, width = value.shape[first : first + 2]
        if (height, width) in large:
            longer = max(height, width)
            for axis, pixels in ((first, height), (first + 1, width)):
                kept = max(1, pixels * size // longer)
                value = value.index_select(axis, torch.arange(kept, device=value.device) * pixels // kept)
            return value
    return value
