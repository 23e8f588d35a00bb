"""CUDA's autocast on the CPU: regions for "cuda" apply to operands on the GPU, those for "cpu" to operands on the CPU.

PyTorch keeps one autocast state per device type, and applies that of a tensor's own. Here all tensors are the CPU's,
so its autocast kernels are replaced by kernels that dispatch on the placement of the operands, and run in regions of
both device types.

The casting policies are those of PyTorch's aten/src/ATen/autocast_mode.h. The names that begin with an underscore are
not public API; tests/trace/test_dry_autocast.py compares the results with the kernels of CUDA, and with the CPU's.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.library import Library
from torch.utils._pytree import tree_leaves, tree_map

from amplint.records import dataclass
from amplint.torchlib.tables import operators, versions
from amplint.trace.calls import tensors
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

_KEY = torch._C.DispatchKey.AutocastCPU
_KEYS = torch._C.DispatchKeySet(_KEY)
_OVERRIDE = {"allow_override": True} if "allow_override" in inspect.signature(Library.impl).parameters else {}
"""PyTorch before 2.8 allows overriding its own kernels without this option."""
_RECURRENT = [f"{kind}.{form}" for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu") for form in ("input", "data")]
"""Operators that cuDNN runs in float16, whatever the region's dtype: by a kernel that only builds with cuDNN have."""
_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. Many models use a sigmoid "
    "layer right before the binary cross entropy layer. Combine the two in BCEWithLogitsLoss, which is safe."
)

Kernel = Callable[..., Any]


class _Regions(threading.local):
    """Whether a region for "cpu" is on in this thread: PyTorch's state for it is on in regions of both types."""

    on_cpu = False


@contextlib.contextmanager
def cuda_autocast() -> Iterator[None]:
    """Apply autocast as on a machine with a GPU, by the tables of this version, or else of the newest known one."""
    library: Any = Library("aten", "IMPL", _KEY.name)  # type: ignore[no-untyped-call]
    weights, regions = _Weights(), _Regions()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for overridden kernels
            _install(library, weights, regions)
        with (
            _both_kinds(regions),
            replaced(torch, clear_autocast_cache=weights.clearing(torch.clear_autocast_cache)),
        ):
            yield
    finally:
        library._destroy()


class _Weights:
    """The cache of half copies of parameters, filled once per region."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[torch.Tensor], torch.Tensor]] = {}

    def cast(self, tensor: torch.Tensor, dtype: torch.dtype, gpu: bool) -> torch.Tensor:
        """`tensor` cast to `dtype`, if it is eligible for autocast on the GPU, or else on the CPU."""
        if not _takes_part(tensor, gpu) or tensor.dtype == dtype:
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
        """`clear`, followed by clearing this cache."""

        def both() -> None:
            clear()
            self._copies.clear()

        return both


def _install(library: Any, weights: _Weights, regions: _Regions) -> None:
    """Replace the kernels of all operators in autocast's policy of either device."""
    version: str | None = ".".join(torch.__version__.split(".")[:2])
    if version not in versions():
        version = None
    kernels = {device: _kernels(device, version, weights) for device in ("cuda", "cpu")}
    for name in kernels["cuda"].keys() | kernels["cpu"].keys():
        operator = _operator(name)
        if operator is not None:
            kernel = _choosing(operator, kernels["cuda"].get(name), kernels["cpu"].get(name), regions)
            library.impl(name, kernel, with_keyset=True, **_OVERRIDE)


def _kernels(device: str, version: str | None, weights: _Weights) -> dict[str, Kernel]:
    """Operator (`pow.Scalar`) -> the autocast kernel for `device`, if the running PyTorch has one."""
    makers: dict[str, Callable[[OpOverload, _Run, str], Kernel]] = {
        "lower": _lower,
        "float32": _float32,
        "float32_set_dtype": _set_dtype,
        "float32_append_dtype": _append_dtype,
        "promote": _promote,
        "banned": lambda operator, run, device: _refuse,
    }
    table = operators(device, version)
    treated = {name: maker for treatment, maker in makers.items() for name in table[treatment]}
    known = torch._C._dispatch_has_kernel_for_dispatch_key
    key = f"Autocast{device.upper()}"
    treated = {name: maker for name, maker in treated.items() if _operator(name) and known(f"aten::{name}", key)}
    if device == "cuda":
        treated |= {name: _recurrent for name in _RECURRENT if _operator(name)}
    run = _Run(weights, device == "cuda")
    return {name: maker(_existing(name), run, device) for name, maker in treated.items()}


def _choosing(operator: OpOverload, on_gpu: Kernel | None, on_cpu: Kernel | None, regions: _Regions) -> Kernel:
    """A kernel that runs the autocast kernel for the operands' device, or the plain one without such or a region."""

    def kernel(keys: Any, *args: Any, **options: Any) -> Any:
        gpu = any(placement.on_gpu(operand) for operand in tensors((args, options)))
        chosen = on_gpu if gpu else on_cpu
        if chosen is not None and (torch.is_autocast_enabled("cuda") if gpu else regions.on_cpu):
            return chosen(*args, **options)
        return operator.redispatch(keys - _KEYS, *args, **options)

    return kernel


def _operator(name: str) -> OpOverload | None:
    """The operator of this name (`pow.Scalar`); None if this build of PyTorch lacks it."""
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    return getattr(packet, overload or "default", None)


def _existing(name: str) -> OpOverload:
    operator = _operator(name)
    assert operator is not None
    return operator


def _takes_part(value: Any, gpu: bool) -> bool:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64
    return floating and placement.on_gpu(value) == gpu


@dataclass(frozen=True)
class _Run:
    """Runs operators without autocast on operands cast to a dtype, those on the GPU, or else those on the CPU."""

    weights: _Weights
    gpu: bool

    def __call__(self, operator: OpOverload, dtype: torch.dtype, args: Any, options: Any) -> Any:
        """The result of `operator` on operands in `dtype`."""

        def cast(value: Any) -> Any:
            return self.weights.cast(value, dtype, self.gpu) if isinstance(value, torch.Tensor) else value

        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return operator(*tree_map(cast, args), **tree_map(cast, options))


def _lower(operator: OpOverload, run: _Run, device: str) -> Kernel:
    return lambda *args, **options: run(operator, torch.get_autocast_dtype(device), args, options)


def _float32(operator: OpOverload, run: _Run, device: str) -> Kernel:
    return lambda *args, **options: run(operator, torch.float32, args, options)


def _promote(operator: OpOverload, run: _Run, device: str) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        taking_part = [value for value in tree_leaves((args, options)) if _takes_part(value, run.gpu)]
        return run(operator, _widest(taking_part, torch.get_autocast_dtype(device)), args, options)

    return kernel


def _widest(operands: list[torch.Tensor], half: torch.dtype) -> torch.dtype:
    """Float32 if an operand has it, else the region's dtype. Raises RuntimeError for the other half before that."""
    for operand in operands:
        if operand.dtype == torch.float32:
            return torch.float32
        if operand.dtype != half:
            raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
    return half


def _set_dtype(operator: OpOverload, run: _Run, device: str) -> Kernel:
    arguments = operator._schema.arguments
    position = next(number for number, argument in enumerate(arguments) if argument.name == "dtype")

    def kernel(*args: Any, **options: Any) -> Any:
        given = args[position] if position < len(args) else options.get("dtype")
        if given is None and _takes_part(args[0], run.gpu):
            args, options = args[:position], {**options, "dtype": torch.float32}
            missing = [argument for argument in arguments[len(args) : position] if not argument.kwarg_only]
            args += tuple(options.pop(argument.name, argument.default_value) for argument in missing)
            if not arguments[position].kwarg_only:
                args += (options.pop("dtype"),)
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return operator(*args, **options)

    return kernel


def _append_dtype(operator: OpOverload, run: _Run, device: str) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        more = {"dtype": torch.float32} if _takes_part(args[0], run.gpu) else {}
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return operator.overloadpacket(*args, **options, **more)

    return kernel


def _recurrent(operator: OpOverload, run: _Run, device: str) -> Kernel:
    def kernel(*args: Any, **options: Any) -> Any:
        enabled = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)  # `flags` would warn about TF32 each time
        try:
            return run(operator, torch.float16, args, options)
        finally:
            torch._C._set_mkldnn_enabled(enabled)

    return kernel


def _refuse(*args: Any, **options: Any) -> None:
    raise RuntimeError(_BANNED)


@contextlib.contextmanager
def _both_kinds(regions: _Regions) -> Iterator[None]:
    """Make regions of the device types independent, while PyTorch's state for the CPU is on in both."""
    enabled, enable = torch.is_autocast_enabled, torch.set_autocast_enabled
    before = enabled("cpu")

    def is_enabled(device_type: str = "cuda") -> bool:
        return regions.on_cpu if device_type == "cpu" else enabled(device_type)

    def set_enabled(*args: Any) -> None:
        device, on = args if len(args) == 2 else ("cuda", *args)
        if device == "cpu":
            regions.on_cpu = on
        else:
            enable(device, on)
        enable("cpu", regions.on_cpu or enabled("cuda"))

    set_enabled("cpu", before)
    try:
        with replaced(
            torch,
            is_autocast_enabled=is_enabled,
            set_autocast_enabled=set_enabled,
            is_autocast_cpu_enabled=lambda: is_enabled("cpu"),
            set_autocast_cpu_enabled=lambda on: set_enabled("cpu", on),
        ):
            yield
    finally:
        enable("cpu", before)
