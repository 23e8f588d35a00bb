"""Let a program written for CUDA run on a machine without a GPU, for what the fixtures need and no more.

Every tensor lives on the CPU and is taken to be on the GPU. Regions for "cuda" are on, with CUDA's default dtype and
CUDA's treatment of the operations that it lifts to float32 or refuses and the CPU does not; regions for "cpu" are off,
because no tensor is there. Values are the CPU's, so they show overflow, underflow and dtypes but not a GPU's last bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

LIFTED = (
    "cosh cosine_similarity cumprod cumsum exp expm1 group_norm layer_norm linalg_vector_norm log log10 log1p log2 "
    "log_softmax logsumexp norm pow prod reciprocal rms_norm rsqrt sinh softmax softplus sum tan"
)
"""Operations that autocast lifts to float32 on CUDA and leaves in half on the CPU."""
NOT_LIFTED = "quantile"
"""Operations that autocast lifts to float32 on the CPU and leaves alone on CUDA."""
LOWERED = ("einsum",)
"""Operations that autocast runs in half on CUDA and, on the CPU, leaves to the operations they are made of."""
COMPOSITE = ("cross_entropy_loss",)
"""Operations that autocast lifts on the CPU and, on CUDA, leaves to the operations they are made of."""
BANNED = "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast."
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Redirect "cuda" to the CPU for the rest of this process."""
    _impersonate_device()
    _impersonate_autocast()
    library = torch.library.Library("aten", "IMPL", "AutocastCPU")
    for name in LIFTED.split():
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            _lift(library, getattr(packet, overload))
    for name in NOT_LIFTED.split():
        packet = getattr(torch.ops.aten, name)
        for overload in filter(None, (part.replace("default", "") for part in packet.overloads())):
            library.impl(f"{name}.{overload}", torch.library.fallthrough_kernel, allow_override=True)
        library.impl(name, torch.library.fallthrough_kernel, allow_override=True)
    for name in LOWERED:
        library.impl(name, _in_half(getattr(torch.ops.aten, name).default), allow_override=True)
    for name in COMPOSITE:
        library.impl(name, getattr(torch.ops.aten, name).default.decompose, allow_override=True)
    library.impl("binary_cross_entropy", _refuse, allow_override=True)
    with _OnCpu():
        yield


def _lift(library: torch.library.Library, operator: Any) -> None:
    schema = operator._schema
    if any(argument.alias_info is not None for argument in schema.arguments):
        return
    name = schema.name.removeprefix("aten::") + ("." + schema.overload_name if schema.overload_name else "")
    library.impl(name, _in_float32(operator), allow_override=True)


def _in_float32(operator: Any) -> Callable[..., Any]:
    halves = (torch.float16, torch.bfloat16)
    return _converting(operator, lambda value: value.float() if value.dtype in halves else value)


def _in_half(operator: Any) -> Callable[..., Any]:
    def lower(value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.get_autocast_dtype("cpu")) if value.dtype == torch.float32 else value

    return _converting(operator, lower)


def _converting(operator: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def converted(value: Any) -> Any:
        return convert(value) if isinstance(value, torch.Tensor) else value

    def kernel(*args: Any, **options: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return operator(*tree_map(converted, args), **tree_map(converted, options))

    return kernel


def _refuse(*args: Any, **options: Any) -> None:
    raise RuntimeError(BANNED)


def _impersonate_device() -> None:
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.is_bf16_supported = lambda *args: True
    cuda.device_count = lambda: 1
    cuda.current_device = lambda: 0
    cuda.amp.common.amp_definitely_not_available = lambda: False


def _impersonate_autocast() -> None:
    region = torch.amp.autocast_mode.autocast
    original: Callable[..., None] = region.__init__

    def init(
        self: Any,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type == "cuda":
            original(self, "cpu", dtype or torch.float16, enabled, cache_enabled)
        else:
            original(self, device_type, dtype, enabled and device_type != "cpu", cache_enabled)

    region.__init__ = init  # type: ignore[method-assign]
    for name in ("is_autocast_enabled", "get_autocast_dtype"):
        setattr(torch, name, _of_cpu(getattr(torch, name)))


def _of_cpu(ask: Callable[[str], Any]) -> Callable[[str], Any]:
    """`ask` about the CPU where CUDA is meant: that is where the regions are."""
    return lambda device="cuda": ask("cpu" if device == "cuda" else device)


class _OnCpu(TorchFunctionMode):
    """Reads "cuda" as "cpu" wherever a device is asked for."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.device:
            return func(*args, **(kwargs or {}))
        options = {name: _device(value) for name, value in (kwargs or {}).items()}
        return func(*(_device(value) for value in args), **options)


def _device(value: Any) -> Any:
    text = str(value) if isinstance(value, (str, torch.device)) else ""
    return torch.device("cpu") if text == "cuda" or text.startswith("cuda:") else value
