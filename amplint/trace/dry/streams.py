"""Streams, events and random generators of a GPU that completes work immediately."""

from __future__ import annotations

from typing import Any

import torch

from amplint.trace.placement import placement


class _Work:
    """Work that is complete as soon as it is submitted."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = placement.gpu

    def query(self) -> bool:
        """Whether all work is complete, which is true."""
        return True

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    synchronize = wait = _nothing


class Event(_Work):
    """Substitute for `torch.cuda.Event`."""

    cuda_event = 0

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds, which are not measured."""
        return 0.0

    record = _Work._nothing


class Stream(_Work):
    """Substitute for `torch.cuda.Stream`."""

    cuda_stream = stream_id = priority = device_index = 0
    device_type = 1  # CUDA, in PyTorch's numbering of devices

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority, as on current GPUs."""
        return 0, -5

    def is_capturing(self) -> bool:
        """Whether a graph is being captured, which is false."""
        return False

    def record_event(self, event: Event | None = None) -> Event:
        """The recorded event."""
        return event or Event()

    wait_event = wait_stream = _Work._nothing


class Generator(torch.Generator):
    """A random generator of the CPU that reports the requested device."""

    _asked: torch.device

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Construct a generator of the CPU."""
        generator: Generator = super().__new__(cls, torch.device("cpu"))  # type: ignore[call-arg]
        generator._asked = torch.device(device)
        return generator

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The requested device."""
        return placement.gpu if self._asked.type == "cuda" else self._asked
