"""Limits of a dry run: it stops there, with the line and a workaround in the message."""

from __future__ import annotations

import linecache
import os
import traceback
from typing import Any, NoReturn

from amplint.trace.frames import Line, calling_line, is_own, raising_line

_WIDTH = 80
_BOILERPLATE = " This could be because"
"""The text that begins the dispatcher's list of registrations."""
_EAGER = "Let the script do without it in this run, or trace it on a GPU."
_KERNELS = "Let the script take its way in plain PyTorch in this run, or trace it on a GPU."
_TRITON = f"TRITON_INTERPRET=1 in the environment lets Triton run kernels on the CPU. {_KERNELS}"
_NEWER = "Run it with a newer version, or trace it on a GPU."

REFUSED = {
    "torch.cuda.CUDAGraph": ("CUDA graphs", _EAGER),
    "torch.cuda.graph": ("CUDA graphs", _EAGER),
    "torch.cuda.graph_pool_handle": ("CUDA graphs", _EAGER),
    "torch.accelerator.Graph": ("CUDA graphs", _EAGER),
    "torch.cuda.jiterator._create_jit_fn": ("kernels written in CUDA", _KERNELS),
    "torch.cuda.jiterator._create_multi_output_jit_fn": ("kernels written in CUDA", _KERNELS),
    "torch.cuda.caching_allocator_alloc": ("memory that is taken by hand", _EAGER),
    "torch.cuda.caching_allocator_delete": ("memory that is taken by hand", _EAGER),
    **{
        f"torch.cuda.gds.{name}": ("GPUDirect storage", _EAGER)
        for name in ("GdsFile", "gds_register_buffer", "gds_deregister_buffer")
    },
    "torch.cuda.GreenContext.create": ("green contexts", _EAGER),
    **{
        f"torch.cuda.nccl.{name}": ("calls of NCCL", "Use torch.distributed, whose nccl is gloo here.")
        for name in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
    },
}
"""Functions and classes of PyTorch that need a GPU -> their name for users, and a workaround."""

_SIGNS = (
    (("/triton/", "active drivers", "triton installation"), "Triton kernels", _TRITON),
    (("CUDA_HOME", "nvcc"), "CUDA extensions that are compiled", _KERNELS),
    (("libcud", "libc10_cuda", "libtorch_cuda", "libnvrtc", "libcublas"), "compiled CUDA extensions", _KERNELS),
    (("nccl", "NCCL", "with Gloo", "not support gloo"), "calls that only NCCL has", "Trace it on a GPU."),
    (("_scaled_mm' with arguments from the 'CPU'",), "products of float8 in this version of PyTorch", _NEWER),
    (("arguments from the 'CPU' backend",), "operators that only CUDA has", _KERNELS),
    (("_cuda", "cuda_array_interface", "ATen_cuda", "NVIDIA driver", "CUDA driver"), "what needs a real GPU", _EAGER),
    (("compiled with CUDA", "compiled without CUDA", "CUDA build"), "what needs a real GPU", _EAGER),
    (
        ("with support for cuda", "recognized: cuda", "CUDA support", "dummy base", "_gds_"),
        "what needs a real GPU",
        _EAGER,
    ),
)
"""Texts in messages of PyTorch and Python that indicate a missing GPU or its libraries."""


class CannotFollow(RuntimeError):
    """The script needs a real GPU."""


class _Refused(type):
    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise refused(*REFUSED[cls.__name__])


def refusing(name: str) -> type:
    """A substitute for the function or class `name` of `REFUSED`: a class, since scripts use it in `isinstance`."""
    return _Refused(name, (), {})


def refused(what: str, instead: str) -> CannotFollow:
    """The exception to raise for `what`, at the line of the user's code that uses it."""
    return CannotFollow(_message(calling_line(), what, instead))


def understood(failure: Exception) -> CannotFollow | None:
    """The meaning of `failure`, which ended the script, if it is due to a missing GPU; otherwise None.

    A missing package is the script's own failure, and so is a dtype without a CUDA kernel.
    """
    text = f"{failure} {failure.__cause__} {_file(failure)}"
    if isinstance(failure, (CannotFollow, ModuleNotFoundError)) or '_cuda" not implemented for' in text:
        return None
    for signs, what, instead in _SIGNS:
        if any(sign in text for sign in signs):
            return CannotFollow(_message(raising_line(failure), what, instead, failure))
    return None


def _file(failure: Exception) -> str:
    """The file that raised, if it is Triton's; otherwise empty."""
    frames = traceback.extract_tb(failure.__traceback__)
    file = frames[-1].filename.replace(os.sep, "/") if frames else ""
    return file if "/triton/backends/" in file or "/triton/runtime/" in file else ""


def _message(line: Line, what: str, instead: str, failure: Exception | None = None) -> str:
    """A message such as `train.py:41: a dry run cannot follow CUDA graphs: graph = torch.cuda.CUDAGraph()`."""
    filename, row = line
    source = linecache.getline(filename, row).strip()[:_WIDTH]
    near = os.path.relpath(filename) if filename else ""
    place = f"{filename if near.startswith(os.pardir) else near}:{row}: " if filename else ""
    message = f"{place}a dry run cannot follow {what}{': ' if source else ''}{source}"
    if failure is None:
        return f"{message}\n{instead}"
    reason = str(failure).strip().partition("\n")[0].partition(_BOILERPLATE)[0]
    return f"{message}{_in_library(failure)}\n{instead}\nPyTorch said: {type(failure).__name__}: {reason}"


def _in_library(failure: Exception) -> str:
    """A line on the library, other than PyTorch, that failed when the user's code called it; otherwise empty."""
    found = ""
    for frame, row in traceback.walk_tb(failure.__traceback__):
        name = frame.f_code.co_filename.replace(os.sep, "/")
        _, packages, inside = name.rpartition("-packages/")
        if is_own(frame.f_code):
            found = ""
        elif packages and not inside.startswith(("torch/", "amplint/")):
            source = linecache.getline(frame.f_code.co_filename, row).strip()[:_WIDTH]
            found = f"\n  in {inside}:{row}: {source}"
    return found
