"""What datasets of images derive from."""

from torchvision.datasets import RandomImages as VisionDataset

__all__ = ["VisionDataset"]
