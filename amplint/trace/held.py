"""What the parameters that are trained, and the optimizers' tensors for them, are held in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch.optim import Optimizer

from amplint.trace.frames import Line
from amplint.trace.modules import Modules
from amplint.trace.record import Held, dtype_name


def held(optimizers: Mapping[Optimizer, Line], modules: Modules) -> Iterator[Held]:
    """One entry for each parameter of `optimizers`; parameters without a name have a number instead."""
    for optimizer, line in optimizers.items():
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            state = {
                name: dtype_name(value.dtype)
                for name, value in optimizer.state.get(parameter, {}).items()
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape
            }
            name = modules.parameter(parameter) or f"parameter {number}"
            yield Held(name, type(optimizer).__name__, *line, dtype_name(parameter.dtype), tuple(sorted(state.items())))
