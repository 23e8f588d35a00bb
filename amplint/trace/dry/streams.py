"""Streams and events of a GPU that is always done, and generators of its random numbers."""

from __future__ import annotations

from typing import Any

import torch

from amplint.trace.placement import placement


class _Work:
    """Everything is done as soon as it is asked for."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = placement.gpu

    def query(self) -> bool:
        """All work is done."""
        return True

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    synchronize = wait = _nothing


class Event(_Work):
    """Stands in for `torch.cuda.Event`."""

    cuda_event = 0

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds, which are not measured."""
        return 0.0

    record = _Work._nothing


class Stream(_Work):
    """Stands in for `torch.cuda.Stream`."""

    cuda_stream = stream_id = priority = device_index = 0
    device_type = 1  # CUDA, as PyTorch numbers devices

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority, as on GPUs of today."""
        return 0, -5

    def is_capturing(self) -> bool:
        """No graph is being captured."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """The event that was recorded."""
        return event or Event()

    wait_event = wait_stream = _Work._nothing


class Generator(torch.Generator):
    """A generator of random numbers of the CPU that says it is of the device that was asked for."""

    _asked: torch.device

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Make one for the CPU."""
        generator: Generator = super().__new__(cls, torch.device("cpu"))  # type: ignore[call-arg]
        generator._asked = torch.device(device)
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that was asked for."""
        return placement.gpu if self._asked.type == "cuda" else self._asked
