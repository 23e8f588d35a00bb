"""The active autocast region, queried again only after it may have changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _RestorePythonTLSSnapshot as _outside  # type: ignore[attr-defined]

from amplint.trace.replaced import replaced

_SETTERS = [name for name in dir(torch) if name.startswith("set_autocast_")]
"""What `torch.autocast` and others change a region by: functions of `torch`."""


class Regions(dict[str, torch.dtype | None]):
    """Device -> the dtype of the active region, None without one, cached until one of the `_SETTERS` is called.

    For lookups in a dispatch mode. A backward pass runs in the region that it is called in, even on threads of its own.
    """

    def __missing__(self, device: str) -> torch.dtype | None:
        with _outside():  # the flag is off inside of a dispatch mode
            region = self[device] = region_of(device)
        return region

    def outside(self, device: str) -> torch.dtype | None:
        """The lookup outside of a dispatch mode."""
        return self[device] if device in self else region_of(device)

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Invalidate the cache on changes in this context."""
        self.clear()
        with replaced(torch, **{name: self._hearing(getattr(torch, name)) for name in _SETTERS}):
            yield

    def _hearing(self, setter: Callable[..., Any]) -> Callable[..., Any]:
        def set_and_forget(*args: Any) -> None:
            setter(*args)
            self.clear()

        return set_and_forget


def region_of(device: str) -> torch.dtype | None:
    """The dtype of the active region for `device`, None without one."""
    try:
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    except RuntimeError:  # a device without autocast, such as meta
        return None
