"""The dtypes of trained parameters and of their optimizer state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from amplint.trace.data import Held, dtype_name
from amplint.trace.frames import Line
from amplint.trace.modules import Modules


def parameters(
    optimizer: Optimizer, path: Callable[[torch.Tensor], str]
) -> Iterator[tuple[str, torch.Tensor, dict[str, Any]]]:
    """The parameters that `optimizer` steps, each with its `path`, or a number without one, and its group."""
    pairs = [(parameter, group) for group in optimizer.param_groups for parameter in group["params"]]
    for number, (parameter, group) in enumerate(pairs):
        yield path(parameter) or f"parameter {number}", parameter, group


def held(
    optimizers: Mapping[Optimizer, Line], dtypes: Mapping[torch.Tensor, torch.dtype], modules: Modules
) -> Iterator[Held]:
    """One entry per trained parameter of `optimizers`; `dtypes` are those in which they were stepped."""
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
