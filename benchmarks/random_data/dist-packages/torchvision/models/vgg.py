"""The network of 16 layers by the Visual Geometry Group, with the layers' places and widths, and random weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

__all__ = ["VGG", "VGG16_Weights", "vgg16"]

_BLOCKS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Width and number of convolutions."""
VGG16_Weights = SimpleNamespace(DEFAULT=None, IMAGENET1K_V1=None, IMAGENET1K_FEATURES=None)


class VGG(nn.Module):
    """(N, 3, H, W) -> (N, num_classes)."""

    def __init__(self, num_classes: int = 1000, **_: Any) -> None:
        super().__init__()
        layers, inner = list[nn.Module](), 3
        for width, count in _BLOCKS:
            for _index in range(count):
                layers += [nn.Conv2d(inner, width, 3, padding=1), nn.ReLU(inplace=True)]
                inner = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        wide = (nn.Linear(49 * inner, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(True))
        self.classifier = nn.Sequential(*wide, nn.Dropout(), nn.Linear(4096, num_classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


def vgg16(pretrained: bool = False, weights: object = None, **options: Any) -> VGG:
    """The network, in random numbers whatever weights are asked for."""
    return VGG(**options)
