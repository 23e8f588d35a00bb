"""The types of the devices that tensors and models are on, where the code says so."""

from __future__ import annotations

from collections.abc import Iterable, Set

from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.values import Const, Device, Method, Tensor, Value


def device_type(value: Value | None) -> str | None:
    """The device type that an argument names, None if it names none for sure."""
    if isinstance(value, Device) and value.types is not None and len(value.types) == 1:
        return next(iter(value.types))
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value.partition(":")[0]
    if isinstance(value, Method) and value.name == "device" and isinstance(value.owner, Tensor):
        return value.owner.device
    return value.device if isinstance(value, Tensor) else None


def moved_to(name: str, arguments: Arguments) -> str | None:
    """Where `x.cuda()`, `x.cpu()` or `x.to(...)` moves `x`, None if that is not certain."""
    if name in ("cuda", "cpu"):
        return name
    return next((found for value in arguments.values if (found := device_type(value)) is not None), None)


def stays(arguments: Arguments) -> bool:
    """Whether `x.to(...)` leaves `x` where it is: it is given a dtype alone."""
    return len(arguments.given) == 1 and arguments.given[0].keyword in (None, "dtype")


def common(values: Iterable[Value]) -> str | None:
    """The device type of what is computed from `values`: a tensor without dimensions may come from the CPU."""
    found = {value.device for value in values if isinstance(value, Tensor) and value.rank != 0}
    return next(iter(found)) if len(found) == 1 else None


def reaches(devices: Set[str] | None, device: str | None) -> bool:
    """Whether a region of one of these device types can cast what is on a device of type `device`; None for any."""
    return devices is None or device is None or device in devices
