"""Images to tensors and back, and their sizes. An image is PIL's, or a tensor (..., height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import torch
from PIL import Image

Size = int | Sequence[int]


class InterpolationMode(Enum):
    """How a size is changed, which does not matter here."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"
    BOX = "box"
    HAMMING = "hamming"


def to_tensor(image: Any) -> torch.Tensor:
    """(channels, height, width), float32 from 0 to 1."""
    pixels = torch.from_numpy(np.array(image))
    pixels = pixels.permute(2, 0, 1) if pixels.dim() == 3 else pixels[None]
    return pixels.contiguous().float() / 255


def to_pil_image(image: Any, mode: str | None = None) -> Any:
    """An image of PIL's, of a tensor (channels, height, width) from 0 to 1 or of an array of bytes."""
    if isinstance(image, torch.Tensor):
        image = (image.detach().clamp(0, 1) * 255).byte().movedim(0, -1).numpy()
    return Image.fromarray(image.squeeze(-1) if image.shape[-1] == 1 else image)


def normalize(tensor: torch.Tensor, mean: Any, std: Any, inplace: bool = False) -> torch.Tensor:
    """Each channel shifted and scaled."""
    shift, scale = (torch.as_tensor(numbers).to(tensor).view(-1, 1, 1) for numbers in (mean, std))
    return (tensor - shift) / scale


def sized(image: Any, size: Size, *_: Any, **__: Any) -> Any:
    """`image` in the height and the width of `size`; a single number is both."""
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    if not isinstance(image, torch.Tensor):
        return image.resize((width, height))
    return torch.nn.functional.interpolate(image[None].float(), (height, width))[0].to(image.dtype)


def get_image_size(image: Any) -> list[int]:
    """Width and height."""
    return list(image.shape[:-3:-1] if isinstance(image, torch.Tensor) else image.size)


def crop(image: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of `image`."""
    if isinstance(image, torch.Tensor):
        return image[..., top : top + height, left : left + width]
    return image.crop((left, top, left + width, top + height))


def unchanged(image: Any, *_: Any, **__: Any) -> Any:
    """`image` itself."""
    return image


def resized_crop(image: Any, top: int, left: int, height: int, width: int, size: Size, *_: Any) -> Any:
    """A part of `image`, in the height and the width of `size`."""
    return sized(crop(image, top, left, height, width), size)


pil_to_tensor = to_tensor
resize = center_crop = sized
hflip = vflip = rotate = adjust_brightness = adjust_contrast = adjust_saturation = adjust_hue = gaussian_blur = (
    unchanged
)
