"""Transforms that give the type and the size that was asked for. What only changes pixels leaves them as they are."""

from torchvision.transforms import functional, transforms
from torchvision.transforms.functional import InterpolationMode
from torchvision.transforms.transforms import *  # noqa: F403

__all__ = ["InterpolationMode", "functional", "transforms"]
