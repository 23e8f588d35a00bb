"""Smaller batches and images from data loaders, so that a step takes seconds where it would take minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import BatchSampler, DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from amplint.trace.frames import calling_line
from amplint.trace.replaced import replaced

_CHANNELS = (1, 3, 4)
"""How many channels integers have that are an image's."""

Tell = Callable[[str], None]
Paused = Callable[[], AbstractContextManager[None]]


@contextlib.contextmanager
def shrunk(max_batch: int | None, image_size: int | None, tell: Tell, paused: Paused) -> Iterator[None]:
    """Let data loaders give batches of at most `max_batch` samples and images of at most `image_size` pixels."""
    with contextlib.ExitStack() as stack:
        if max_batch is not None:
            stack.enter_context(smaller_batches(max_batch, tell))
        if image_size is not None:
            stack.enter_context(smaller_images(image_size, tell, paused))
        yield


@contextlib.contextmanager
def smaller_batches(samples: int, tell: Tell) -> Iterator[None]:
    """Let each `DataLoader` that is made in this context give the first `samples` of each of its batches.

    Its length stays as it was, also with `drop_last`, and so do epochs, schedules and windows of accumulation. `tell`
    is told of loaders that cannot be made smaller, and where there was none.
    """
    init = DataLoader.__init__
    made = False

    def make(self: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
        nonlocal made
        made = True
        init(self, *args, **kwargs)
        name = "batch_sampler" if self.batch_sampler is not None else "sampler"
        batches = getattr(self, name)
        if name == "batch_sampler" or isinstance(batches, BatchSampler):
            vars(self)[name] = FirstOfEach(batches, samples)  # which setattr refuses after the making
            vars(self)["batch_size"] = self.batch_size and min(self.batch_size, samples)
        else:
            filename, row = calling_line()
            tell(f"{Path(filename).name}:{row}: --max-batch leaves this DataLoader as it is: its dataset makes batches")

    with replaced(DataLoader, __init__=make):
        yield
    if not made:
        tell("--max-batch changed nothing: no DataLoader was made")


class FirstOfEach(BatchSampler):
    """The first samples of each batch of another sampler, which it otherwise is like."""

    def __init__(self, batches: Any, samples: int) -> None:
        self.batches, self.samples = batches, samples
        self.batch_size = min(getattr(batches, "batch_size", samples), samples)

    def __iter__(self) -> Iterator[list[int]]:
        for batch in self.batches:
            yield batch[: self.samples]

    def __len__(self) -> int:
        return len(self.batches)

    def __getattr__(self, name: str) -> Any:
        if name == "batches":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self.batches, name)


@contextlib.contextmanager
def smaller_images(size: int, tell: Tell, paused: Paused) -> Iterator[None]:
    """Let data loaders give images whose longer side has at most `size` pixels, of which every n-th is taken.

    Images are batches of four dimensions, of floating point or of integers with 1, 3 or 4 channels, channels first or
    last. What has the height and width of an image in the same batch, such as a mask, goes along. `paused` is on
    meanwhile; `tell` is told where there were none.
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
    """Height and width of a batch of images, None of anything else."""
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
