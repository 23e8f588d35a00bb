"""Calls every public function of torch.cuda in a dry run, and prints what came of each."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import cuda, nn

from amplint.torchlib.policy import words
from amplint.trace.dry import CannotFollow, dry_run
from amplint.trace.gpus import GPUS

MODULES = words(
    "cuda cuda.amp cuda.comm cuda.nccl cuda.nvtx cuda.profiler cuda.tunable cuda.gds cuda.sparse accelerator"
)
PRIVATE = words(
    "cuda.memory._record_memory_history cuda.memory._snapshot cuda.memory._dump_snapshot cuda.memory.memory_allocated "
    "cuda.jiterator._create_jit_fn cuda.jiterator._create_multi_output_jit_fn cuda.random.get_rng_state"
)
KINDS = words("BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short")
NOT_CALLED = words(
    "cuda.CudaError cuda.DeferredCudaCallError cuda.cudaStatus cuda.GreenContext cuda.cast cuda.check_error"
)
"""Exceptions, tables and helpers, and a class without a constructor."""
GIVEN: dict[str, Callable[[], tuple[Any, ...]]] = {
    **{f"cuda.{kind}Storage": lambda: (2,) for kind in KINDS},
    **{f"cuda.nccl.{name}": lambda: ([there()],) for name in words("all_reduce reduce broadcast is_available")},
    **{f"cuda.nccl.{name}": lambda: ([there()], [there()]) for name in words("all_gather reduce_scatter")},
    **{f"cuda.nvtx.{name}": lambda: ("a",) for name in words("range_push range_start mark range")},
    **{f"cuda.tunable.{name}": lambda: (1,) for name in words("set_max_tuning_duration set_max_tuning_iterations")},
    **{f"cuda.tunable.{name}": lambda: (os.devnull,) for name in words("set_filename read_file tune_gemm_in_file")},
    **{
        f"cuda.jiterator.{name}": lambda: ("T f(T x)", 1)
        for name in words("_create_jit_fn _create_multi_output_jit_fn")
    },
    **{f"cuda.{name}": lambda: (0,) for name in words("manual_seed manual_seed_all set_device device ExternalStream")},
    "cuda.caching_allocator_alloc": lambda: (16,),
    "cuda.caching_allocator_delete": lambda: (0,),
    "cuda.can_device_access_peer": lambda: (0, 0),
    "cuda.change_current_allocator": lambda: (cuda.CUDAPluggableAllocator("x.so", "a", "b"),),
    "cuda.CUDAPluggableAllocator": lambda: ("x.so", "a", "b"),
    "cuda.get_stream_from_external": lambda: (0,),
    "cuda.make_graphed_callables": lambda: (nn.Linear(2, 2).cuda(), (there(),)),
    "cuda.set_per_process_memory_fraction": lambda: (0.5,),
    "cuda.set_rng_state": lambda: (cuda.get_rng_state(),),
    "cuda.set_rng_state_all": lambda: (cuda.get_rng_state_all(),),
    "cuda.set_stream": lambda: (cuda.Stream(),),
    "cuda.stream": lambda: (cuda.Stream(),),
    "cuda.StreamContext": lambda: (cuda.Stream(),),
    "cuda.set_sync_debug_mode": lambda: ("warn",),
    "cuda.use_mem_pool": lambda: (cuda.MemPool(),),
    "cuda.device_of": lambda: (there(),),
    "cuda.graph": lambda: (cuda.CUDAGraph(),),
    "cuda.amp.custom_fwd": lambda: (len,),
    "cuda.amp.custom_bwd": lambda: (len,),
    "cuda.comm.broadcast": lambda: (there(), [0]),
    "cuda.comm.broadcast_coalesced": lambda: ([there()], [0]),
    "cuda.comm.reduce_add": lambda: ([there()],),
    "cuda.comm.reduce_add_coalesced": lambda: ([[there()]],),
    "cuda.comm.scatter": lambda: (there(), [0]),
    "cuda.comm.gather": lambda: ([there()],),
    "cuda.nvtx.range_end": lambda: (0,),
    "cuda.gds.gds_register_buffer": lambda: (there().untyped_storage(),),
    "cuda.gds.gds_deregister_buffer": lambda: (there().untyped_storage(),),
    "cuda.gds.GdsFile": lambda: ("x", 0),
    "cuda.memory._dump_snapshot": lambda: ("x",),
    "cuda.tunable.mgpu_tune_gemm_in_file": lambda: ("x?", 1),
    "cuda.tunable.set_cublaslt_requested_algo_count": lambda: (1,),
    "cuda.tunable.write_file_on_exit": lambda: (False,),
    "cuda.profiler.init": lambda: ("x",),
    "cuda.MemPoolContext": lambda: (cuda.MemPool(),),
    "cuda.export_dot": lambda: ("x",),
    "cuda.export_graph_data": lambda: ("x",),
    "cuda.tunable.set_rotating_buffer_size": lambda: (1,),
    "cuda.tunable.set_numerical_check_tolerances": lambda: (True,),
    "accelerator.set_device_index": lambda: (0,),
    "accelerator.set_device_idx": lambda: (0,),
    "accelerator.device_index": lambda: (0,),
    "accelerator.set_stream": lambda: (cuda.Stream(),),
}
"""Function -> what makes its arguments; the others are called without."""


def there() -> torch.Tensor:
    """A small tensor on the GPU."""
    return torch.ones(1, 2, device="cuda")


def names() -> Iterator[str]:
    """The functions and classes, such as `cuda.nvtx.mark`."""
    for path in sorted(MODULES):
        module = import_module(f"torch.{path}")
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name)
            own = inspect.isclass(value) or getattr(value, "__module__", "").startswith("torch")
            if own and callable(value) and not name.startswith("_") and f"{path}.{name}" not in NOT_CALLED:
                yield f"{path}.{name}"
    yield from sorted(PRIVATE)


def called(name: str) -> str:
    """What comes of a call in a dry run: `works`, `CannotFollow`, or another exception with its message."""
    path, _, last = name.rpartition(".")
    try:
        with dry_run(GPUS["a100"]):
            function = getattr(import_module(f"torch.{path}"), last)
            made = function(*GIVEN.get(name, tuple)())
            if last in ("device", "stream", "range", "use_mem_pool", "device_of", "StreamContext", "device_index"):
                with made:
                    there()
    except CannotFollow as failure:
        return f"CannotFollow {str(failure).splitlines()[0]}"
    except Exception as failure:
        return f"{type(failure).__name__} {failure}"
    return "works"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for one in names():
        print(f"calling {one}", flush=True)  # PyTorch's C++ prints, too, and may end the process
        print(one, called(one), flush=True)
