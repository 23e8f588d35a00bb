"""Residual networks and one of VGG's, with the layers' names and widths of the published ones, and random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from torchvision.models import vgg
from torchvision.models.vgg import VGG, VGG16_Weights, vgg16

__all__ = [
    "VGG",
    "ResNet",
    "VGG16_Weights",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "vgg",
    "vgg16",
]


class _Block(nn.Module):
    """Two 3x3 convolutions, or with `narrow` a 1x1, a 3x3 and a 1x1 that widens four times; and a shortcut."""

    def __init__(self, inner: int, planes: int, stride: int, narrow: bool, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        outer = 4 * planes if narrow else planes
        kernels = [1, 3, 1] if narrow else [3, 3]
        widths = [inner, planes, *([planes] if narrow else []), outer]
        strided = 1 if narrow else 0
        self.depth = len(kernels)
        for index, kernel in enumerate(kernels):
            step = stride if index == strided else 1
            conv = nn.Conv2d(widths[index], widths[index + 1], kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{index + 1}", conv)
            self.add_module(f"bn{index + 1}", norm(widths[index + 1]))
        self.relu = nn.ReLU(inplace=True)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), norm(outer))
            if stride != 1 or inner != outer
            else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(N, inner, H, W) -> (N, outer, H / stride, W / stride)."""
        shortcut = x if self.downsample is None else self.downsample(x)
        for index in range(1, self.depth + 1):
            x = self.get_submodule(f"bn{index}")(self.get_submodule(f"conv{index}")(x))
            if index < self.depth:
                x = self.relu(x)
        x += shortcut
        return self.relu(x)


class ResNet(nn.Module):
    """(N, 3, H, W) -> (N, num_classes). `zero_init_residual` begins blocks as identities; other options are ignored."""

    def __init__(
        self,
        depths: Sequence[int],
        narrow: bool,
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        norm_layer: Callable[[int], nn.Module] | None = None,
        **_: Any,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = norm(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inner = 64
        for number, depth in enumerate(depths):
            planes, blocks = 64 * 2**number, []
            for index in range(depth):
                blocks.append(_Block(inner, planes, 2 if number and not index else 1, narrow, norm))
                inner = 4 * planes if narrow else planes
            self.add_module(f"layer{number + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(inner, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if zero_init_residual and isinstance(module, _Block):
                nn.init.zeros_(module.get_parameter(f"bn{module.depth}.weight"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


resnet18 = partial(ResNet, (2, 2, 2, 2), False)
resnet34 = partial(ResNet, (3, 4, 6, 3), False)
resnet50 = partial(ResNet, (3, 4, 6, 3), True)
resnet101 = partial(ResNet, (3, 4, 23, 3), True)
resnet152 = partial(ResNet, (3, 8, 36, 3), True)
