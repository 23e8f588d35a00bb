"""Random images in place of published ones. Nothing is read or downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

_LENGTH = int(os.environ.get("RANDOM_IMAGES", "1024"))
"""Images of each dataset: enough for two batches of most scripts, and few where one goes through all of them."""


class RandomImages(Dataset[Any]):
    """PIL images of `size` (height, width) in `mode` (L, RGB) and their classes, the same for each index every time."""

    size, mode, count = (256, 256), "RGB", 10

    def __init__(
        self,
        root: object,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        **_: Any,
    ) -> None:
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        self.classes = [f"class {number}" for number in range(self.count)]
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}
        self.targets = torch.randint(self.count, (_LENGTH,), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image: Any = Image.fromarray(self._pixels(index), self.mode)
        target: Any = int(self.targets[index])
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return image, target

    @property
    def data(self) -> Any:
        """All images, unsigned bytes."""
        return np.stack([self._pixels(index) for index in range(_LENGTH)])

    def _pixels(self, index: int) -> Any:
        if not 0 <= index < _LENGTH:
            raise IndexError(index)
        depth = () if self.mode == "L" else (3,)
        return np.random.default_rng(index).integers(0, 256, (*self.size, *depth), dtype=np.uint8)


class ImageFolder(RandomImages):
    def __init__(self, root: object, transform: Callable[[Any], Any] | None = None, **options: Any) -> None:
        super().__init__(root, transform=transform, **options)


class MNIST(RandomImages):
    size, mode = (28, 28), "L"

    @property
    def data(self) -> Any:
        """The same as a tensor."""
        return torch.from_numpy(super().data)


class FashionMNIST(MNIST):
    pass


class CIFAR10(RandomImages):
    size = (32, 32)


class CIFAR100(CIFAR10):
    count = 100


class STL10(RandomImages):
    size = (96, 96)


class KMNIST(MNIST):
    pass


class QMNIST(MNIST):
    pass


class ImageNet(ImageFolder):
    count = 1000


class CocoDetection(RandomImages):
    """Images with three boxes each: dictionaries as COCO has them, `bbox` is (x, y, width, height) in pixels."""

    def __init__(self, root: object, annFile: object, **options: Any) -> None:
        super().__init__(root, **options)
        self.ids = list(range(_LENGTH))
        self.coco = None

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, _ = super().__getitem__(index)
        boxes = np.random.default_rng(index).integers(16, 96, (3, 4)).tolist()
        return image, [
            {"bbox": box, "area": box[2] * box[3], "category_id": 1 + number, "iscrowd": 0, "image_id": index}
            for number, box in enumerate(boxes)
        ]
