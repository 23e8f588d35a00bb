"""CUDA's autocast on the CPU: its tables in place of the CPU's kernels, and its regions in place of the CPU's.

PyTorch keeps one state of autocast for each device type, and applies that of a tensor's own. All tensors are the CPU's
here, so the state of the CPU stands for CUDA's; that of CUDA, which no tensor has, stands for the CPU's, whose regions
therefore change nothing. Operands that do not lie on the GPU are left as they are.

What the treatments mean is in PyTorch's aten/src/ATen/autocast_mode.h. The names that begin with an underscore are not
public API; tests/trace/test_dry_autocast.py compares what they give with the kernels of CUDA.
"""

from __future__ import annotations

import contextlib
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.library import Library
from torch.utils._pytree import tree_leaves, tree_map

from amplint.torchlib.tables import operators, versions
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

_KEY = torch._C.DispatchKey.AutocastCPU
_KEYS = torch._C.DispatchKeySet(_KEY)
_RECURRENT = [f"{kind}.{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")]
"""Operators that cuDNN runs in float16, whatever the region's dtype: by a kernel that only builds with cuDNN have."""
_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Many models use a sigmoid "
    "layer right before the binary cross entropy layer. Combine the two in BCEWithLogitsLoss, which is safe."
)

Kernel = Callable[..., Any]


@contextlib.contextmanager
def cuda_autocast() -> Iterator[None]:
    """Let regions for "cuda" treat what lies on the GPU as CUDA does, in the newest known version at worst."""
    library: Any = Library("aten", "IMPL", _KEY.name)  # type: ignore[no-untyped-call]
    weights = _Weights()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that kernels are overridden
            _install(library, weights)
        with _exchanged_states(), replaced(torch, clear_autocast_cache=weights.clearing(torch.clear_autocast_cache)):
            yield
    finally:
        library._destroy()


class _Weights:
    """The half copies of parameters that a region makes once."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """`tensor` in `dtype`, where it takes part in autocast."""
        if not _takes_part(tensor) or tensor.dtype == dtype:
            return tensor
        kept = tensor.requires_grad and tensor.is_leaf and tensor.dtype == torch.float32 and dtype != torch.float32
        if not kept or tensor._is_view() or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        known, copy = self._copies.get(id(tensor), (None, None))
        unlearnable = copy is not None and torch.is_grad_enabled() and not copy.requires_grad  # made under no_grad
        if copy is None or known is None or known() is not tensor or unlearnable:
            copy = tensor.to(dtype)
            self._copies[id(tensor)] = weakref.ref(tensor), copy
        return copy

    def clearing(self, clear: Callable[[], None]) -> Callable[[], None]:
        """`clear`, and forget the copies."""

        def both() -> None:
            clear()
            self._copies.clear()

        return both


def _install(library: Any, weights: _Weights) -> None:
    makers: dict[str, Callable[[OpOverload, _Weights], Kernel]] = {
        "lower": _lower,
        "float32": _float32,
        "float32_set_dtype": _set_dtype,
        "float32_append_dtype": _append_dtype,
        "promote": _promote,
        "banned": lambda operator, weights: _refuse,
    }
    version: str | None = ".".join(torch.__version__.split(".")[:2])
    if version not in versions():
        version = None
    table = operators("cuda", version)
    kernels = {name: maker for treatment, maker in makers.items() for name in table[treatment]}
    kernels |= dict.fromkeys(_RECURRENT, _recurrent)
    on_cpu = {name for treated in operators("cpu", version).values() for name in treated}
    for name in on_cpu - kernels.keys():
        library.impl(name, torch.library.fallthrough_kernel, allow_override=True)
    for name, maker in kernels.items():
        operator = _operator(name)
        if operator is not None:
            library.impl(name, maker(operator, weights), allow_override=True)


def _operator(name: str) -> OpOverload | None:
    """The operator of this name (`pow.Scalar`), None where this build of PyTorch lacks it."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None)


def _takes_part(value: Any) -> bool:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64
    return floating and placement.on_gpu(value)


def _below(operator: OpOverload, weights: _Weights, dtype: torch.dtype, args: Any, options: Any) -> Any:
    """Run `operator` without autocast, its operands cast to `dtype`."""

    def cast(value: Any) -> Any:
        return weights.cast(value, dtype) if isinstance(value, torch.Tensor) else value

    with torch._C._ExcludeDispatchKeyGuard(_KEYS):
        return operator(*tree_map(cast, args), **tree_map(cast, options))


def _lower(operator: OpOverload, weights: _Weights) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        return _below(operator, weights, torch.get_autocast_dtype("cuda"), args, options)

    return kernel


def _float32(operator: OpOverload, weights: _Weights) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        return _below(operator, weights, torch.float32, args, options)

    return kernel


def _promote(operator: OpOverload, weights: _Weights) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        return _below(operator, weights, _widest(tree_leaves((args, options))), args, options)

    return kernel


def _widest(operands: list[Any]) -> torch.dtype:
    """Float32 where an operand has it, otherwise the region's dtype. Raises RuntimeError for the other half before."""
    half = torch.get_autocast_dtype("cuda")
    for operand in filter(_takes_part, operands):
        if operand.dtype == torch.float32:
            return torch.float32
        if operand.dtype != half:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return half


def _set_dtype(operator: OpOverload, weights: _Weights) -> Kernel:
    arguments = operator._schema.arguments
    position = next(number for number, argument in enumerate(arguments) if argument.name == "dtype")

    def kernel(*args: Any, **options: Any) -> Any:
        given = args[position] if position < len(args) else options.get("dtype")
        if given is None and _takes_part(args[0]):
            args, options = args[:position], {**options, "dtype": torch.float32}
            missing = [argument for argument in arguments[len(args) : position] if not argument.kwarg_only]
            args += tuple(options.pop(argument.name, argument.default_value) for argument in missing)
            if not arguments[position].kwarg_only:
                args += (options.pop("dtype"),)
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return operator(*args, **options)

    return kernel


def _append_dtype(operator: OpOverload, weights: _Weights) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        more = {"dtype": torch.float32} if _takes_part(args[0]) else {}
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return operator.overloadpacket(*args, **options, **more)

    return kernel


def _recurrent(operator: OpOverload, weights: _Weights) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        enabled = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)  # `flags` would warn of TF32 each time
        try:
            return _below(operator, weights, torch.float16, args, options)
        finally:
            torch._C._set_mkldnn_enabled(enabled)

    return kernel


def _refuse(*args: Any, **options: Any) -> None:
    raise RuntimeError(_BANNED)


def exchange_dtypes() -> None:
    """Give each of this thread's two states the dtype of the other: each thread begins with PyTorch's own."""
    cuda, cpu = torch.get_autocast_dtype("cuda"), torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cuda", cpu)
    torch.set_autocast_dtype("cpu", cuda)


@contextlib.contextmanager
def _exchanged_states() -> Iterator[None]:
    """Let each state be asked and set under the name of the other device."""
    other = {"cuda": "cpu", "cpu": "cuda"}
    enabled, dtype = torch.is_autocast_enabled, torch.get_autocast_dtype
    enable, set_dtype = torch.set_autocast_enabled, torch.set_autocast_dtype
    dtypes = {device: dtype(device) for device in other}

    def is_enabled(device_type: str = "cuda") -> bool:
        return enabled(other.get(device_type, device_type))

    def set_enabled(*args: Any) -> None:
        device, on = args if len(args) == 2 else ("cuda", *args)
        enable(other.get(device, device), on)

    def get(device_type: str) -> torch.dtype:
        return dtype(other.get(device_type, device_type))

    def put(device_type: str, half: torch.dtype) -> None:
        set_dtype(other.get(device_type, device_type), half)

    for device, half in dtypes.items():
        put(device, half)
    try:
        with replaced(
            torch,
            is_autocast_enabled=is_enabled,
            set_autocast_enabled=set_enabled,
            get_autocast_dtype=get,
            set_autocast_dtype=put,
            is_autocast_cpu_enabled=lambda: is_enabled("cpu"),
            get_autocast_gpu_dtype=lambda: get("cuda"),
            get_autocast_cpu_dtype=lambda: get("cpu"),
            set_autocast_gpu_dtype=lambda half: put("cuda", half),
            set_autocast_cpu_dtype=lambda half: put("cpu", half),
        ):
            yield
    finally:
        for device, half in dtypes.items():
            set_dtype(device, half)
