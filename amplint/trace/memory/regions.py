"""Autocast regions of a variant: disabled, in another dtype, or added to a script without any."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from amplint.trace.replaced import replaced


class Seen:
    """The outermost regions of the unchanged script."""

    def __init__(self) -> None:
        self._dtypes: set[str] = set()

    def add(self, dtype: torch.dtype | None) -> None:
        """Record a region of this dtype, None for a disabled one."""
        self._dtypes.add(str(dtype).rpartition(".")[2])

    @property
    def autocast(self) -> str:
        """The `autocast` of the variant with equal regions; empty if there is none."""
        if self._dtypes <= {"None"}:
            return "off"
        return next(iter(self._dtypes)) if len(self._dtypes) == 1 else ""


@contextlib.contextmanager
def seeing(seen: Seen) -> Iterator[None]:
    """Record constructed regions in `seen`."""
    init: Any = torch.autocast.__init__

    def made(region: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        init(region, device_type, *args, **kwargs)
        if device_type == "cuda" and not torch.is_autocast_enabled("cuda"):
            seen.add(region.fast_dtype if region._enabled else None)

    with replaced(torch.autocast, __init__=made):
        yield


@contextlib.contextmanager
def regions(autocast: str) -> Iterator[None]:
    """Disable regions (`off`), or enable them in `float16` or `bfloat16`; a script without any gets one."""
    if not autocast:
        yield
        return
    dtype = None if autocast == "off" else getattr(torch, autocast)
    own = _Own(dtype)
    init: Any = torch.autocast.__init__
    call: Any = nn.Module.__call__
    run: Any = torch.autograd.backward

    def made(region: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        if device_type == "cuda":
            own.needed = False
            enabled = own.dtype is not None and (enabled or not torch.is_autocast_enabled("cuda"))
            dtype = own.dtype
        init(region, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    def called(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        own.begin(init)
        return call(module, *args, **kwargs)

    def backward(*args: Any, **kwargs: Any) -> None:
        own.end()
        run(*args, **kwargs)

    with (
        replaced(torch.autocast, __init__=made),
        replaced(nn.Module, __call__=called),
        replaced(torch.autograd, backward=backward),
    ):
        yield


class _Own:
    """The region added to a script without any: from a model's call to the backward pass."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        self.dtype = dtype
        self.needed = dtype is not None
        self._region: torch.autocast | None = None

    def begin(self, init: Any) -> None:
        """Enter the region if it is needed and not on."""
        if self.needed and self._region is None and torch.is_grad_enabled():
            region = torch.autocast.__new__(torch.autocast)
            init(region, "cuda", dtype=self.dtype)
            region.__enter__()  # type: ignore[no-untyped-call]
            self._region = region

    def end(self) -> None:
        """Exit the region."""
        if self._region is not None:
            self._region.__exit__(None, None, None)
            self._region = None
