"""Stands in for Hugging Face's transformers: a model to load, and a Trainer that trains as its arguments say."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch


class AutoModel(torch.nn.Linear):
    """Loads a small model in the dtype that is asked for."""

    @classmethod
    def from_pretrained(cls, name: str, torch_dtype: torch.dtype = torch.float32) -> AutoModel:
        """The model `name`."""
        return cls(4, 1, dtype=torch_dtype)


class AutoModelForCausalLM(AutoModel):
    """The same by transformers 5, saved in bfloat16."""

    attention = "sdpa"

    @classmethod
    def from_pretrained(
        cls, name: str, dtype: torch.dtype | str = torch.bfloat16, attn_implementation: str = "sdpa"
    ) -> AutoModelForCausalLM:
        """The model `name`."""
        model = cls(4, 1, dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype)
        model.attention = attn_implementation
        return model

    def lm_head(self, states: torch.Tensor) -> torch.Tensor:
        """The last layer alone."""
        return super().forward(states)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Attention takes queries in the dtype of the region that is on, or of the weights."""
        device = inputs.device.type
        on = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if on else self.weight.dtype
        if self.attention == "flash_attention_2" and dtype == torch.float32:
            raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
        return super().forward(inputs)


class TrainingArguments:
    """What a `Trainer` has to do."""

    def __init__(
        self,
        output_dir: str,
        fp16: bool = False,
        bf16: bool = False,
        learning_rate: float = 0.1,
        max_grad_norm: float = 1.0,
        deepspeed: dict[str, Any] | str | None = None,
    ) -> None:
        if fp16 and bf16:
            raise ValueError("At most one of fp16 and bf16 can be True, but not both")
        self.fp16 = fp16
        self.half = {"enabled": fp16 or bf16, "dtype": torch.bfloat16 if bf16 else torch.float16}
        self.learning_rate = learning_rate
        self.clip = max_grad_norm
        self.mismatches: list[str] = []
        if deepspeed is not None:
            config = json.loads(Path(deepspeed).read_text()) if isinstance(deepspeed, str) else deepspeed
            told = {"fp16": config.get("fp16", {}).get("enabled"), "bf16": config.get("bf16", {}).get("enabled")}
            told["max_grad_norm"] = config.get("gradient_clipping")
            given = {"fp16": fp16, "bf16": bf16, "max_grad_norm": max_grad_norm}
            self.mismatches = [key for key, value in told.items() if value not in (None, "auto", given[key])]
            self.clip = max_grad_norm if "gradient_clipping" in config else float("inf")


class HfArgumentParser:
    """Constructs data classes from a command line, which is empty here."""

    def __init__(self, dataclass_types: Sequence[type]) -> None:
        self.dataclass_types = dataclass_types

    def parse_args_into_dataclasses(self) -> tuple[Any, ...]:
        """One object of each class."""
        return tuple(cls("out") if issubclass(cls, TrainingArguments) else cls() for cls in self.dataclass_types)


class _Accelerator:
    """Scales losses."""

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self.scaler = scaler

    def backward(self, loss: torch.Tensor) -> None:
        """Backward on the loss, scaled."""
        self.scaler.scale(loss).backward()


class Trainer:
    """Trains under autocast, scales the loss, clips."""

    def __init__(self, model: torch.nn.Module, args: TrainingArguments, train_dataset: Sequence[Any] = ()) -> None:
        self.model = model.to("cuda")
        self.args = args
        self.batches = train_dataset

    def train(self) -> None:
        """One epoch."""
        if self.args.mismatches:
            raise ValueError(
                "Please correct the following DeepSpeed config values that mismatch TrainingArguments values:\n"
                + "\n".join(self.args.mismatches)
            )
        optimizer = torch.optim.SGD(self.model.parameters(), lr=self.args.learning_rate)
        scaler = torch.amp.GradScaler("cuda", enabled=self.args.fp16)
        self.accelerator = _Accelerator(scaler)
        for inputs in self.batches:
            optimizer.zero_grad()
            self.training_step(self.model, inputs)
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.args.clip)
            scaler.step(optimizer)
            scaler.update()

    def compute_loss(self, model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """The loss of one batch."""
        with self._region():
            return model(inputs.to("cuda")).float().mean() * 1e-2

    def _region(self) -> contextlib.AbstractContextManager[object]:
        """The region around a forward pass; without mixed precision there is none, and one around stays on."""
        return torch.autocast("cuda", **self.args.half) if self.args.half["enabled"] else contextlib.nullcontext()

    def training_step(self, model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
        """Forward and backward."""
        loss = self.compute_loss(model, inputs)
        self.accelerator.backward(loss)
        return loss.detach()

    def predict(self, inputs: torch.Tensor) -> torch.Tensor:
        """What the model says."""
        with torch.no_grad(), self._region():
            return self.model(inputs.to("cuda")).float()
