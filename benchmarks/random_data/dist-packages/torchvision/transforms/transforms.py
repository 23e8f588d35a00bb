"""The classes of transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchvision.transforms import functional


class Compose:
    """One after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], *_: Any, **__: Any) -> None:
        self.transforms = transforms

    def __call__(self, image: Any) -> Any:
        """The image after the last of them."""
        for transform in self.transforms:
            image = transform(image)
        return image


class Lambda:
    """A function."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        self.lambd = lambd

    def __call__(self, image: Any) -> Any:
        """What the function makes of it."""
        return self.lambd(image)


class ToTensor:
    """(channels, height, width), float32 from 0 to 1."""

    def __call__(self, image: Any) -> Any:
        """See the class."""
        return functional.to_tensor(image)


class ToPILImage:
    """An image of PIL's."""

    def __call__(self, image: Any) -> Any:
        """See the class."""
        return functional.to_pil_image(image)


class Normalize:
    """Channels shifted and scaled."""

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        self.mean, self.std = mean, std

    def __call__(self, tensor: Any) -> Any:
        """See the class."""
        return functional.normalize(tensor, self.mean, self.std)


class Sized:
    """An image in the size that was asked for."""

    def __init__(self, size: functional.Size, *_: Any, **__: Any) -> None:
        self.size = size

    def __call__(self, image: Any) -> Any:
        """See the class."""
        return functional.sized(image, self.size)


class RandomCrop(Sized):
    """The corner of an image."""

    @staticmethod
    def get_params(image: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """The place of the part: top, left, height, width."""
        return 0, 0, output_size[0], output_size[1]


class Unchanged:
    """The image as it is."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, image: Any) -> Any:
        """See the class."""
        return image


PILToTensor = ToTensor
RandomApply = RandomOrder = Compose
Resize = CenterCrop = RandomResizedCrop = Sized
ColorJitter = GaussianBlur = Grayscale = Pad = RandomAdjustSharpness = RandomAffine = RandomAutocontrast = Unchanged
RandomEqualize = RandomErasing = RandomGrayscale = RandomHorizontalFlip = RandomInvert = RandomPerspective = Unchanged
RandomPosterize = RandomRotation = RandomSolarize = RandomVerticalFlip = AutoAugment = RandAugment = Unchanged
TrivialAugmentWide = AugMix = Unchanged
