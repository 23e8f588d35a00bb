"""Stands in for Accelerate: what an `Accelerator` does with loss, gradients and optimizer, on one device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "no": None, None: None}


class GradientAccumulationPlugin:
    """The number of micro-batches."""

    def __init__(self, num_steps: int) -> None:
        self.num_steps = num_steps


class Accelerator:
    """Scales the loss in `backward`, divides it over micro-batches, unscales before clipping."""

    def __init__(
        self,
        mixed_precision: str | None = None,
        gradient_accumulation_steps: int = 1,
        gradient_accumulation_plugin: GradientAccumulationPlugin | None = None,
    ) -> None:
        self.mixed_precision = mixed_precision or "no"
        steps = int(os.environ.get("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", gradient_accumulation_steps))
        self.gradient_accumulation_steps = (
            gradient_accumulation_plugin.num_steps if gradient_accumulation_plugin else steps
        )
        self.sync_gradients = True
        self.device = torch.device("cuda")
        self.is_main_process = True
        self.scaler = torch.amp.GradScaler("cuda") if mixed_precision == "fp16" else None
        self._optimizers: list[AcceleratedOptimizer] = []
        self._micro_batches = 0

    def prepare(self, *objects: Any) -> Any:
        """The same objects: models go to the device and run under autocast, optimizers step through the scaler."""
        ready = tuple(self._prepare(each) for each in objects)
        return ready[0] if len(ready) == 1 else ready

    def _prepare(self, each: Any) -> Any:
        if isinstance(each, torch.nn.Module):
            each.to(self.device)
            each.forward = self._lifted(each.forward)
        elif isinstance(each, torch.optim.Optimizer):
            each = AcceleratedOptimizer(self, each)
            self._optimizers.append(each)
        return each

    def _lifted(self, forward: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            with self.autocast():
                outputs = forward(*args, **options)
            return outputs.float() if isinstance(outputs, torch.Tensor) else outputs

        return run

    def autocast(self) -> torch.autocast:
        """The region that the mixed precision asks for."""
        dtype = DTYPES[self.mixed_precision]
        return torch.autocast("cuda", dtype=dtype or torch.float16, enabled=dtype is not None)

    @contextlib.contextmanager
    def accumulate(self, *models: torch.nn.Module) -> Iterator[None]:
        """One micro-batch; steps count only at the end of a window."""
        self._micro_batches += 1
        self.sync_gradients = self._micro_batches % self.gradient_accumulation_steps == 0
        yield

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """Backward on the loss, divided and scaled."""
        loss = loss / self.gradient_accumulation_steps
        (loss if self.scaler is None else self.scaler.scale(loss)).backward(**options)

    def gather(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensors of all ranks, of which there is one."""
        return tensor.clone()

    def unwrap_model(self, model: torch.nn.Module) -> torch.nn.Module:
        """The model itself."""
        return model

    def unscale_gradients(self) -> None:
        """Divide the gradients of every optimizer by the scale."""
        if self.scaler is not None:
            for optimizer in self._optimizers:
                self.scaler.unscale_(optimizer.optimizer)

    def clip_grad_norm_(self, parameters: Iterable[torch.Tensor], max_norm: float, norm_type: float = 2) -> Any:
        """Unscale, then clip."""
        self.unscale_gradients()
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Iterable[torch.Tensor], clip_value: float) -> None:
        """Unscale, then clip."""
        self.unscale_gradients()
        torch.nn.utils.clip_grad_value_(parameters, clip_value)


class AcceleratedOptimizer:
    """Steps through the scaler, and only where a window of micro-batches ends."""

    def __init__(self, accelerator: Accelerator, optimizer: torch.optim.Optimizer) -> None:
        self.accelerator = accelerator
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups

    def step(self) -> None:
        """Step and set the next scale."""
        scaler = self.accelerator.scaler
        if not self.accelerator.sync_gradients:
            return
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()

    def zero_grad(self) -> None:
        """Clear the gradients."""
        if self.accelerator.sync_gradients:
            self.optimizer.zero_grad()
