"""Parts of networks."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn


class IntermediateLayerGetter(nn.ModuleDict):
    """The children of `model` up to the last in `return_layers`, which gives the results of some a name."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        names = [name for name, _ in model.named_children()]
        last = max(map(names.index, return_layers))
        super().__init__({name: model.get_submodule(name) for name in names[: last + 1]})
        self.return_layers = return_layers

    def forward(self, x: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        """The results that have a name."""
        results = OrderedDict()
        for name, layer in self.items():
            x = layer(x)
            if name in self.return_layers:
                results[self.return_layers[name]] = x
        return results
