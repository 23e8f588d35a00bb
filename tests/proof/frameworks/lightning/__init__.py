"""Stands in for Lightning: Fabric, and the part of LightningModule and Trainer that manual optimisation needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

DTYPES = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}
WEIGHTS = {"16-true": torch.float16, "bf16-true": torch.bfloat16}


class _Precision:
    def __init__(self, name: str) -> None:
        self.dtype = DTYPES.get(name)
        self.weights = WEIGHTS.get(name)
        self.scaler = torch.amp.GradScaler("cuda", enabled=name == "16-mixed")

    def region(self) -> torch.autocast:
        return torch.autocast("cuda", dtype=self.dtype or torch.float16, enabled=self.dtype is not None)

    def lifted(self, forward: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            with self.region():
                return forward(*(each.to(self.weights) for each in args), **options).float()

        return run

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        self.scaler.scale(loss).backward(**options)


class _Optimizer:
    def __init__(self, precision: _Precision, optimizer: torch.optim.Optimizer, hook: Any = None) -> None:
        self.unscales, self.hook = hook is not None, hook
        self.precision = precision
        self.optimizer = optimizer

    def step(self) -> None:
        if self.unscales:
            self.precision.scaler.unscale_(self.optimizer)
            self.hook(self)
        self.precision.scaler.step(self.optimizer)
        self.precision.scaler.update()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()


class Fabric:
    """Wraps model and optimizer; with mixed precision a plain `backward()` on what the model returns raises."""

    def __init__(self, precision: str = "32-true", accelerator: str = "auto") -> None:
        self._precision = _Precision(precision)
        self._inside = False
        self.device = torch.device("cuda")

    def setup(self, module: torch.nn.Module, *optimizers: torch.optim.Optimizer) -> Any:
        """The model and its optimizers."""
        forward = self._precision.lifted(module.to(self.device).to(self._precision.weights).forward)

        def run(*args: Any, **options: Any) -> Any:
            outputs = forward(*args, **options)
            if outputs.requires_grad and self._precision.dtype is not None:
                outputs.register_hook(self._check)
            return outputs

        module.forward = run  # type: ignore[method-assign]
        return (module, *(_Optimizer(self._precision, each) for each in optimizers)) if optimizers else module

    def _check(self, gradient: torch.Tensor) -> None:
        if not self._inside:
            raise RuntimeError("requires you to call `fabric.backward(loss)` instead of `loss.backward()`")

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """Backward on the scaled loss."""
        self._inside = True
        self._precision.backward(loss, **options)
        self._inside = False

    def clip_gradients(self, module: torch.nn.Module, optimizer: _Optimizer, max_norm: float) -> Any:
        """Unscale, then clip."""
        self._precision.scaler.unscale_(optimizer.optimizer)
        return torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm)


class LightningModule(torch.nn.Module):
    """A module that a `Trainer` drives."""

    automatic_optimization = True
    _precision: _Precision
    _optimizer: _Optimizer

    def optimizers(self) -> _Optimizer:
        """The optimizer, stepping through the scaler."""
        return self._optimizer

    def on_before_optimizer_step(self, optimizer: _Optimizer) -> None:
        """What is to be done with unscaled gradients."""

    def clip_gradients(self, optimizer: _Optimizer, gradient_clip_val: float, gradient_clip_algorithm: str) -> None:
        """Clip what is there."""
        torch.nn.utils.clip_grad_norm_(self.parameters(), gradient_clip_val)

    def manual_backward(self, loss: torch.Tensor, **options: Any) -> None:
        """Backward on the scaled loss."""
        self._precision.backward(loss, **options)


class Trainer:
    """Calls `training_step` under autocast; the module runs backward and steps itself, or the Trainer does."""

    def __init__(self, precision: str = "32-true", max_epochs: int = 1, strategy: Any = "auto") -> None:
        self._precision = _Precision(precision)
        self._epochs = max_epochs

    def fit(self, module: LightningModule, batches: Iterable[Any]) -> None:
        """Train."""
        module.to("cuda").to(self._precision.weights or "cuda")._precision = self._precision
        module._optimizer = _Optimizer(self._precision, module.configure_optimizers(), module.on_before_optimizer_step)  # type: ignore[operator]
        for _ in range(self._epochs):
            for index, batch in enumerate(batches):
                with self._precision.region():
                    loss = module.training_step(batch.to("cuda").to(self._precision.weights or "cuda"), index)  # type: ignore[operator]
                if module.automatic_optimization:
                    module._optimizer.zero_grad()
                    self._precision.backward(loss)
                    module._optimizer.step()

    def predict(self, module: LightningModule, batches: Iterable[Any]) -> list[Any]:
        """What `predict_step` returns for each batch."""
        module.to("cuda").to(self._precision.weights or "cuda")
        with torch.inference_mode(), self._precision.region():
            return [module.predict_step(batch.to("cuda"), index) for index, batch in enumerate(batches)]  # type: ignore[operator]
