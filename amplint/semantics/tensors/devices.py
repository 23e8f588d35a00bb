"""Device types of tensors and models."""

from __future__ import annotations

from collections.abc import Iterable, Set

from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.values import Const, Device, Method, Tensor, Value


def device_type(value: Value | None) -> str | None:
    """The device type that an argument names; None if that is not certain."""
    if isinstance(value, Device) and value.types is not None and len(value.types) == 1:
        return next(iter(value.types))
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value.partition(":")[0]
    if isinstance(value, Method) and value.name == "device" and isinstance(value.owner, Tensor):
        return value.owner.device
    return value.device if isinstance(value, Tensor) else None


def moved_to(name: str, arguments: Arguments) -> str | None:
    """The device type to which `x.cuda()`, `x.cpu()` or `x.to(...)` moves `x`; None if that is not certain."""
    if name in ("cuda", "cpu"):
        return name
    return next((found for value in arguments.values if (found := device_type(value)) is not None), None)


def stays(arguments: Arguments) -> bool:
    """Whether `x.to(...)` only casts: its single argument is a dtype."""
    return len(arguments.given) == 1 and arguments.given[0].keyword in (None, "dtype")


def common(values: Iterable[Value]) -> str | None:
    """The common device type of `values`; None if they differ. A tensor without dimensions may come from the CPU."""
    found = {value.device for value in values if isinstance(value, Tensor) and value.rank != 0}
    return next(iter(found)) if len(found) == 1 else None


def reaches(devices: Set[str] | None, device: str | None) -> bool:
    """Whether a region of one of these device types (None for any) casts operations on a device of type `device`."""
    return devices is None or device is None or device in devices
