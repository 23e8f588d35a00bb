"""Devices as Python code sees them: placement, creation and transfers of tensors on the GPU."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors
from torch.utils._pytree import tree_map

from amplint.trace.calls import tensors
from amplint.trace.dry.fourier import TRANSFORMS
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

CPU = torch.device("cpu")
_END = re.compile(r"(, (size|dtype|layout|requires_grad|grad_fn|nnz)=[^\]]*)?\)$")
"""The suffix after the device in a tensor's `repr`."""
_TO_NUMPY = "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."


class Devices(TorchFunctionMode):
    """Answers queries of devices, and interprets "cuda" as the placement of a result on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`. Raises RuntimeError for a nonexistent GPU, and TypeError for a GPU tensor passed to NumPy."""
        kwargs = kwargs or {}
        if isinstance(func, OpOverload) and not _asks_for_gpu(kwargs.get("device")):
            return func(*args, **kwargs)  # PyTorch's own call, whose "cpu" is the real device
        answer = _ANSWERS.get(func)
        if answer is not None:
            return answer(func, *args, **kwargs)
        kwargs.pop("pin_memory", None)
        if type(kwargs.get("device")) is int:
            kwargs["device"] = torch.device("cuda", kwargs["device"])
        elif kwargs.get("device") is None and func in _device_constructors() and (default := default_device()):
            kwargs["device"] = default
        asked = [gpu for gpu in map(_asks_for_gpu, (*args, kwargs.get("device"))) if gpu is not None]
        if not asked:
            if not placement.used and "generator" not in kwargs:
                return func(*args, **kwargs)
            around = any(map(placement.on_gpu, tensors((*args, *kwargs.values()))))
            _check_generator(kwargs.get("generator"), around)
            with placement.making(placement.wanted, around=around):
                return func(*args, **kwargs)
        _check_generator(kwargs.get("generator"), asked[0])
        with placement.making(asked[0]):
            result = func(*map(_on_cpu, args), **{name: _on_cpu(value) for name, value in kwargs.items()})
        return tree_map(lambda value: moved(value, asked[0]) if isinstance(value, torch.Tensor) else value, result)


@contextlib.contextmanager
def devices() -> Iterator[Devices]:
    """Enter `Devices`, also within callbacks from PyTorch: a mode is off while it handles a function."""
    mode = Devices()

    def on(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            off = mode not in _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
            with mode if off else contextlib.nullcontext():
                return function(*args, **kwargs)

        return run

    hooks = torch.autograd.graph.saved_tensors_hooks
    init, backward = hooks.__init__, torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def made(self: Any, pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        init(self, on(pack), on(unpack))

    with (
        replaced(torch.autograd, _engine_run_backward=on(backward)),
        replaced(hooks, __init__=made),
        replaced(FakeTensor, __new__=staticmethod(_fake)),
        replaced(torch.Tensor, _make_wrapper_subclass=staticmethod(_wrapper)),
        mode,
    ):
        yield mode


_new_fake: Callable[..., FakeTensor] = FakeTensor.__new__


def _fake(cls: type, mode: Any, element: torch.Tensor, device: torch.device, *args: Any, **kwargs: Any) -> FakeTensor:
    """A fake tensor on the CPU: PyTorch aborts the process if one on a GPU takes part in autograd without CUDA."""
    return _new_fake(cls, mode, element, CPU if device.type == "cuda" else device, *args, **kwargs)


_new_wrapper: Callable[..., torch.Tensor] = torch.Tensor._make_wrapper_subclass


def _wrapper(*args: Any, device: Any = None, **kwargs: Any) -> torch.Tensor:
    """A wrapper tensor, such as a distributed one, on the CPU as the tensors in it are."""
    return _new_wrapper(*args, device=_on_cpu(device), **kwargs)


def _check_generator(generator: torch.Generator | None, gpu: bool) -> None:
    """Raise RuntimeError for random numbers on one device from a generator of the other."""
    if generator is not None and (generator.device.type == "cuda") != gpu:
        wanted = "cuda" if gpu else "cpu"
        raise RuntimeError(f"Expected a '{wanted}' device type for generator but found '{generator.device.type}'")


def default_device() -> torch.device | None:
    """The device set by `torch.set_default_device`."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context is not None else None


def moved(tensor: torch.Tensor, gpu: bool) -> torch.Tensor:
    """`tensor` on the GPU or the CPU: itself if it is there already, otherwise a copy."""
    if placement.on_gpu(tensor) == gpu:
        return tensor
    if tensor.requires_grad and torch.is_grad_enabled():
        result: torch.Tensor = _Move.apply(tensor, gpu)  # type: ignore[no-untyped-call]
        return result
    return _copy(tensor, gpu)


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, gpu: bool) -> torch.Tensor:
        """A copy on the other device."""
        ctx.gpu = gpu
        return _copy(tensor, gpu)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The gradient, copied back."""
        return _copy(gradient, not ctx.gpu), None


def _copy(tensor: torch.Tensor, gpu: bool) -> torch.Tensor:
    with placement.making(gpu):
        copy: torch.Tensor = torch.ops.aten._to_copy.default(tensor.detach())
        return copy


def _asks_for_gpu(value: Any) -> bool | None:
    """Whether `value` names a GPU; None if it names no device. Raises RuntimeError for a nonexistent GPU."""
    index: int | None
    if isinstance(value, torch.device):
        kind, index = value.type, value.index
    elif isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu"):
        kind, _, number = value.partition(":")
        index = int(number) if number.isdigit() else None
    else:
        return None
    if kind == "cuda" and index and index >= placement.gpus:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return kind == "cuda" if kind in ("cuda", "cpu") else None


def _on_cpu(value: Any) -> Any:
    return CPU if _asks_for_gpu(value) else value


def _device(func: Any, tensor: torch.Tensor, *_: Any) -> Any:
    return placement.gpu if placement.on_gpu(tensor) else func(tensor)


def _is_cuda(func: Any, tensor: torch.Tensor, *_: Any) -> Any:
    return placement.on_gpu(tensor)


def _is_cpu(func: Any, tensor: torch.Tensor, *_: Any) -> Any:
    return func(tensor) and not placement.on_gpu(tensor)


def _get_device(func: Any, tensor: torch.Tensor) -> Any:
    return placement.gpu.index if placement.on_gpu(tensor) else func(tensor)


def _cuda(func: Any, tensor: torch.Tensor, device: Any = None, *_: Any, **__: Any) -> torch.Tensor:
    _asks_for_gpu(torch.device("cuda", device) if isinstance(device, int) else device)
    return moved(tensor, True)


def _cpu(func: Any, tensor: torch.Tensor, **_: Any) -> torch.Tensor:
    return moved(tensor, False)


def _to(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    other = args[0] if args and isinstance(args[0], torch.Tensor) else kwargs.get("other")
    if other is not None:
        return moved(tensor, placement.on_gpu(other)).to(other.dtype)
    options = {name: value for name, value in kwargs.items() if name not in ("copy", "non_blocking")}
    if type(options.get("device")) is int:
        options["device"] = torch.device("cuda", options["device"])
    flags = [value for value in args if isinstance(value, bool)]  # non_blocking and copy, both positional
    named = [value for value in args if not isinstance(value, bool)]
    device, dtype, _, layout = _named(torch._C._nn._parse_to, *named, **options)
    gpu = _asks_for_gpu(device)
    if gpu is None and device is not None:
        return func(tensor, *args, **kwargs)
    result = tensor if gpu is None else moved(tensor, gpu)
    copy = (kwargs.get("copy") or any(flags[1:])) and result is tensor
    rest = {"dtype": dtype, "memory_format": layout, "copy": copy or None}
    return func(result, **{name: value for name, value in rest.items() if value is not None})


def _type_as(func: Any, tensor: torch.Tensor, other: torch.Tensor) -> Any:
    return func(moved(tensor, placement.on_gpu(other)), other)


def _named(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that parses a device but makes no tensor; a number is that of a GPU."""
    if args and type(args[0]) is int:
        args = (torch.device("cuda", args[0]), *args[1:]) if func is not torch.device else ("cuda", *args)
    return func(*args, **kwargs)


def _type(func: Any, tensor: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if isinstance(dtype, torch.dtype):
        return func(tensor, dtype, *args, **kwargs)
    if dtype is None:
        name: str = func(tensor)
        return name.replace("torch.", "torch.cuda.", 1) if placement.on_gpu(tensor) else name
    name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
    return func(moved(tensor, name.startswith("torch.cuda.")), name.replace("torch.cuda.", "torch."), *args, **kwargs)


def _repr(func: Any, tensor: torch.Tensor, **kwargs: Any) -> str:
    text: str = func(tensor, **kwargs)
    end = _END.search(text) if placement.on_gpu(tensor) else None
    return f"{text[: end.start()]}, device='{placement.gpu}'{text[end.start() :]}" if end else text


def _numpy(func: Any, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    if placement.on_gpu(tensor):
        raise TypeError(_TO_NUMPY.format(placement.gpu))
    return func(tensor, *args, **kwargs)


def _pin_memory(func: Any, tensor: torch.Tensor, *_: Any) -> torch.Tensor:
    if placement.on_gpu(tensor):
        raise RuntimeError(f"cannot pin '{tensor.type()}' only dense CPU tensors can be pinned")
    return tensor


def _ctc_loss(func: Any, probabilities: torch.Tensor, targets: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Accept lengths on either device, and targets on the CPU, as cuDNN requires."""
    gpu = placement.on_gpu(probabilities)
    if targets.dim() == 1 and targets.dtype == torch.int32:
        targets = moved(targets, gpu)
    given = [moved(value, gpu) if isinstance(value, torch.Tensor) else value for value in args]
    named = {name: moved(value, gpu) if isinstance(value, torch.Tensor) else value for name, value in kwargs.items()}
    return func(probabilities, targets, *given, **named)


def _deepcopy(func: Any, tensor: torch.Tensor, memo: Any) -> torch.Tensor:
    result: torch.Tensor = func(tensor, memo)
    if placement.on_gpu(tensor):
        placement.put(result)
    return result


_ANSWERS: dict[Any, Callable[..., Any]] = {
    torch.device: _named,
    torch._C._nn._parse_to: _named,
    torch.Tensor.device.__get__: _device,
    torch.Tensor.is_cuda.__get__: _is_cuda,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: _is_cpu,  # type: ignore[attr-defined]
    torch.Tensor.get_device: _get_device,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.to: _to,
    torch.Tensor.type: _type,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.pin_memory: _pin_memory,
    torch.Tensor.__deepcopy__: _deepcopy,
    torch.nn.functional.ctc_loss: _ctc_loss,
    torch.ctc_loss: _ctc_loss,
    **TRANSFORMS,
}
