"""What the parameters that are trained, and the optimizers' tensors for them, are held in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from amplint.trace.frames import Line
from amplint.trace.modules import Modules
from amplint.trace.record import Held, dtype_name


def parameters(
    optimizer: Optimizer, path: Callable[[torch.Tensor], str]
) -> Iterator[tuple[str, torch.Tensor, dict[str, Any]]]:
    """The parameters that `optimizer` steps, each with its `path`, or a number where it has none, and its group."""
    pairs = [(parameter, group) for group in optimizer.param_groups for parameter in group["params"]]
    for number, (parameter, group) in enumerate(pairs):
        yield path(parameter) or f"parameter {number}", parameter, group


def held(
    optimizers: Mapping[Optimizer, Line], dtypes: Mapping[torch.Tensor, torch.dtype], modules: Modules
) -> Iterator[Held]:
    """One entry for each parameter of `optimizers` that is trained; `dtypes` are those in which they were stepped."""
    for optimizer, line in optimizers.items():
        for name, parameter, _ in parameters(optimizer, modules.parameter):
            if not parameter.requires_grad:
                continue
            dtype = dtypes.get(parameter, parameter.dtype)
            state = {
                key: dtype_name(value.dtype)
                for key, value in optimizer.state.get(parameter, {}).items()
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape
            }
            yield Held(name, type(optimizer).__name__, *line, dtype_name(dtype), tuple(sorted(state.items())))
