"""Emulation of `torch.cuda` and of functions that query it."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch import accelerator, cuda

from amplint.torchlib.policy import words
from amplint.trace.dry.beyond import REFUSED, refusing
from amplint.trace.dry.kinds import tensor_kinds
from amplint.trace.dry.library import library
from amplint.trace.dry.streams import Event, Generator, Stream
from amplint.trace.gpus import LIMITS, Gpu
from amplint.trace.placement import placement
from amplint.trace.replaced import replaced

_KIB, _GIB = 2**10, 2**30
_NOTHING = words(
    "_lazy_init init synchronize empty_cache empty_host_cache ipc_collect seed seed_all "
    "reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_accumulated_memory_stats "
    "reset_peak_host_memory_stats reset_accumulated_host_memory_stats set_per_process_memory_fraction set_stream "
    "set_sync_debug_mode change_current_allocator caching_allocator_enable "
    "_record_memory_history _dump_snapshot _set_allocator_settings"
)
"""Functions of torch.cuda without an effect here."""
_ZERO = words(
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached "
    "device_memory_used memory_usage utilization temperature power_draw clock_rate get_sync_debug_mode "
    "current_blas_handle current_solver_handle"
)
_STATISTICS = words("memory_stats memory_stats_as_nested_dict host_memory_stats host_memory_stats_as_nested_dict")
_TUNING = words("enable tuning_enable record_untuned_enable")
_PARTS = words("cuda cuda.memory cuda.random cuda.streams cuda.graphs accelerator accelerator.memory")
"""Modules that share functions: those present in each are replaced. Not every version of PyTorch has all of them."""


class _Library:
    """Substitute for the CUDA runtime and for NVTX: all calls succeed and do nothing."""

    cudaError = SimpleNamespace(success=0)

    def __getattr__(self, name: str) -> Callable[..., int]:
        return _always(0)


class _Ignored:
    """Substitute for memory pools and allocators."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.id = (0, 0)

    def allocator(self) -> _Ignored:
        """Itself."""
        return self


@contextlib.contextmanager
def cuda_module(gpu: Gpu) -> Iterator[None]:
    """Let `torch.cuda`, `torch.accelerator` and their users describe `gpu`; under torchrun each rank has one."""
    index, gpus = (int(os.environ.get(name, default)) for name, default in (("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1)))
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(placement, gpu=torch.device("cuda", index), gpus=gpus, process=None))
        functions = _functions(gpu)
        for part in map(_named, _PARTS):
            shared = {name: function for name, function in functions.items() if hasattr(part, name)}
            stack.enter_context(replaced(part, **shared))
        for owner, attributes in (
            (accelerator, {"current_accelerator": _always(torch.device("cuda"))}),
            (cuda, {"_cudart": _Library(), "default_generators": (Generator("cuda"),) * gpus}),
            (cuda.nvtx, {"_nvtx": _Library()}),
            (cuda.nccl, {"version": _always((2, 27, 5)), "is_available": _always(True)}),
            (cuda.tunable, {name: _always(None) for name in _TUNING}),
            (cuda.tunable, {name.replace("enable", "is_enabled"): _always(False) for name in _TUNING}),
            (cuda.amp.common, {"amp_definitely_not_available": _always(False)}),
            (torch, {"Generator": Generator, "Stream": Stream, "Event": Event}),
            (torch.Tensor, {"record_stream": _always(None)}),
            (torch.version, {"cuda": "13.0"}),
        ):
            stack.enter_context(replaced(owner, **attributes))
        for name in REFUSED:
            path, _, attribute = name.removeprefix("torch.").rpartition(".")
            if hasattr(_named(path), attribute):
                stack.enter_context(replaced(_named(path), **{attribute: refusing(name)}))
        stack.enter_context(tensor_kinds())
        stack.enter_context(library())
        yield


def _functions(gpu: Gpu) -> dict[str, Any]:
    memory = gpu.memory * _GIB
    index = placement.gpu.index
    return {
        **{name: _always(None) for name in _NOTHING},
        **{name: _always(0) for name in _ZERO},
        **{name: lambda *_, **__: Counter() for name in _STATISTICS},
        "is_available": _always(True),
        "is_initialized": _always(True),
        "is_current_stream_capturing": _always(False),
        "device_count": _always(placement.gpus),
        "current_device": _always(index),
        "current_device_index": _always(index),
        "current_device_idx": _always(index),
        "_exchange_device": _checked(index),
        "_maybe_exchange_device": _checked(index),
        "set_device": _checked(None),
        "set_device_index": _checked(None),
        "set_device_idx": _checked(None),
        "device_index": lambda *_: contextlib.nullcontext(),
        "can_device_access_peer": _always(True),
        "_check_bf16_tensor_supported": _always(True),
        "get_device_properties": _checked(_properties(gpu)),
        "get_device_name": _checked(gpu.name),
        "get_device_capability": _checked(gpu.capability),
        "get_arch_list": _always(["sm_{}{}".format(*gpu.capability)]),
        "mem_get_info": _checked((memory, memory)),
        "get_memory_info": _checked((memory, memory)),
        "get_per_process_memory_fraction": _always(1.0),
        "get_allocator_backend": _always("native"),
        "memory_summary": _always(""),
        "memory_snapshot": lambda *_, **__: [],
        "_snapshot": lambda *_, **__: {"segments": [], "device_traces": []},
        "list_gpu_processes": _always(f"GPU:{index}\nno processes are running"),
        "CUDAPluggableAllocator": _Ignored,
        "MemPool": _Ignored,
        "MemPoolContext": _Ignored,
        "use_mem_pool": lambda *_, **__: contextlib.nullcontext(),
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()] * placement.gpus,
        "set_rng_state": lambda state, *_: torch.set_rng_state(state),
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": torch.initial_seed,
        "manual_seed": _seeded,
        "manual_seed_all": _seeded,
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "stream": lambda *_, **__: Stream(),
        "current_stream": lambda *_, **__: Stream(),
        "default_stream": lambda *_, **__: Stream(),
        "get_stream_from_external": lambda *_, **__: Stream(),
    }


def _properties(gpu: Gpu) -> SimpleNamespace:
    """The result of `torch.cuda.get_device_properties` for `gpu`."""
    limits = LIMITS[gpu.capability]
    return SimpleNamespace(
        name=gpu.name,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        total_memory=gpu.memory * _GIB,
        multi_processor_count=gpu.multiprocessors,
        max_threads_per_multi_processor=limits.threads,
        max_threads_per_block=1024,
        warp_size=32,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 * _KIB,
        shared_memory_per_block_optin=limits.block * _KIB,
        shared_memory_per_multiprocessor=limits.shared * _KIB,
        L2_cache_size=gpu.cache * _KIB**2,
        is_integrated=0,
        is_multi_gpu_board=0,
    )


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _seeded(seed: int) -> None:
    """Seed the only generator."""
    torch.default_generator.manual_seed(int(seed))


def _checked(value: Any) -> Callable[..., Any]:
    """A function that returns `value`, and raises RuntimeError if its first argument names a nonexistent GPU."""

    def answer(device: Any = None, *_: Any, **__: Any) -> Any:
        index = device if isinstance(device, int) else torch.device(device).index if device is not None else None
        if index is not None and index >= placement.gpus:
            raise RuntimeError("CUDA error: invalid device ordinal")
        return value

    return answer


def _named(path: str) -> Any:
    """The attribute of `torch` at `path`; None if this version lacks it."""
    owner: Any = torch
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner
