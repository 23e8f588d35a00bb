"""Stands in for torchvision: its datasets hold random images, of the published sizes until a transform changes them."""

from torchvision import datasets, models, ops, transforms, utils

__version__ = "0.9.0"
__all__ = ["datasets", "models", "ops", "transforms", "utils"]


def _is_tracing() -> bool:
    return False
