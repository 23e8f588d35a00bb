"""Stands in for DeepSpeed 0.17.2 to 0.17.5: what its engine checks and does on one device, float32 copies included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

BFLOAT16 = {"enabled", "immediate_grad_update", "check_grad_overflow"}


class ValidationError(ValueError):
    """Stands in for pydantic's."""


class Engine:
    """Runs the model in its precision, scales the loss, and steps by float32 copies of the weights."""

    def __init__(self, model: torch.nn.Module, config: dict[str, Any]) -> None:
        half = {name: config.get(name, {}).get("enabled", False) for name in ("fp16", "bf16")}
        dtype = torch.float16 if half["fp16"] else torch.bfloat16 if half["bf16"] else torch.float32
        self.autocast = config.get("torch_autocast", {}).get("enabled", False)
        self.module = model.to("cuda")
        self.masters = [parameter.detach().clone().float() for parameter in model.parameters()]
        self.module.to(dtype)
        self.optimizer = torch.optim.SGD(self.masters, lr=config.get("lr", 0.1))
        power = config.get("fp16", {}).get("initial_scale_power", 16)
        self.scale = 2.0**power if half["fp16"] else 1.0
        self.skipped_steps = 0
        self.partitions = config.get("zero_optimization", {}).get("stage", 0) >= 2
        self.clips = config.get("gradient_clipping", 0.0)
        self.gradients: list[torch.Tensor | None] = []
        self.window = config.get("gradient_accumulation_steps", 1)
        self.micro_steps = 0

    def __call__(self, *inputs: Any) -> Any:
        """The forward pass."""
        if torch.is_autocast_enabled("cuda") and not self.autocast:
            raise AssertionError(
                "torch.autocast is enabled outside DeepSpeed, but not in the DeepSpeed config. "
                "Please enable torch.autocast through the DeepSpeed config to ensure the correct communication dtype "
                "is used."
            )
        dtype = next(self.module.parameters()).dtype
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.autocast):
            return self.module(*(each.to(dtype) for each in inputs))

    def backward(self, loss: torch.Tensor) -> None:
        """Backward on the scaled loss; from stage 2 of ZeRO on, no gradients stay on the parameters."""
        (loss * self.scale / self.window).backward()
        if self.partitions:
            weights = list(self.module.parameters())
            self.gradients = [weight.grad for weight in weights]
            for weight in weights:
                weight.grad = None

    def gradient_accumulation_steps(self) -> int:
        """The number of micro-batches in a window."""
        return self.window

    def step(self) -> None:
        """Step by the float32 copies at the end of a window, or skip the step and halve the scale."""
        self.micro_steps += 1
        if self.micro_steps % self.window:
            return
        weights = list(self.module.parameters())
        gradients = self.gradients if self.partitions else [weight.grad for weight in weights]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None):
            self.skipped_steps += 1
            self.scale /= 2
        else:
            for master, gradient in zip(self.masters, gradients, strict=True):
                master.grad = gradient.float() / self.scale if gradient is not None else None
            if self.clips:
                torch.nn.utils.clip_grad_norm_(self.masters, self.clips)
            self.optimizer.step()
            with torch.no_grad():
                for master, weight in zip(self.masters, weights, strict=True):
                    weight.copy_(master)
        self.module.zero_grad()


def initialize(
    model: torch.nn.Module, config: dict[str, Any], model_parameters: Iterable[torch.Tensor] = ()
) -> tuple[Engine, torch.optim.Optimizer, None, None]:
    """The engine and its optimizer."""
    fp16, bf16 = config.get("fp16", {}), config.get("bf16", {})
    for name in bf16.keys() - BFLOAT16:
        raise ValidationError(f"1 validation error for DeepSpeedBF16Config\n{name}\n  Extra inputs are not permitted")
    assert not (fp16.get("enabled") and bf16.get("enabled")), "bfloat16 and fp16 modes cannot be simultaneously enabled"
    engine = Engine(model, config)
    return engine, engine.optimizer, None, None
