"""What lies on the GPU, and what lay there when most did: a dispatch mode that sees storages come and go.

It counts what PyTorch's caching allocator would: blocks in multiples of 512 bytes (c10/cuda/CUDACachingAllocator.h),
which is what `torch.cuda.max_memory_allocated` reports.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    Optimizer,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from amplint.trace.frames import NOWHERE, Line, calling_line
from amplint.trace.gpus import Gpu
from amplint.trace.memory.estimates import KINDS
from amplint.trace.memory.workspaces import cublas, transient
from amplint.trace.placement import placement
from amplint.trace.tally import op_name

_BLOCK = 512


class _Block:
    """Bytes on the GPU, as the allocator rounds them, what for, and how many operations came before."""

    __slots__ = ("born", "kind", "reference", "size")

    def __init__(self, kind: str, size: int, born: int, reference: Any) -> None:
        self.kind, self.size, self.born, self.reference = kind, size, born, reference


class Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts bytes on `gpu` by kind. `peak` is how they stood when the sum was highest, the last time.

    `phase` and `line` say what ran then: in the backward pass, the line whose gradient was computed.
    """

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = dict.fromkeys(KINDS, 0)
        self.peak = dict(self.now)
        self.line: Line = NOWHERE
        self.phase = ""
        self._lines: dict[int, Line] = {}
        self._gpu = gpu
        self._total = self._highest = 0
        self._operations = self._peak_at = 0
        self._blocks: dict[int, _Block] = {}
        self._handles: set[bool] = set()
        self._stepping = self._evaluates = False
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Tracker:
        hooks = (
            register_module_forward_pre_hook(self._called),
            register_optimizer_step_pre_hook(self._begin_step),
            register_optimizer_step_post_hook(self._end_step),
        )
        self._undo = [hook.remove for hook in hooks]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        while self._undo:
            self._undo.pop()()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`, and count what it makes."""
        result = func(*args, **kwargs or {})
        self._operations += 1
        with torch._C.DisableTorchFunction():
            self._ran(func, args, result)
        return result

    def _ran(self, func: Any, args: Any, result: Any) -> None:
        backward = torch._C._current_graph_task_id() != -1
        if not backward:
            self._lines.setdefault(torch._C._autograd._get_sequence_nr() - 1, calling_line())
        made = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        fresh = [block for block in map(functools.partial(self._add, func, args, backward), made) if block]
        if backward and made and _accumulates():
            self.mark(made[0], "gradients")
        name = op_name(func)
        workspace = cublas(name, self._gpu)
        if workspace and backward not in self._handles and placement.on_gpu(made[0]):
            self._handles.add(backward)
            self._grow("workspaces", workspace)
        if fresh and not (backward and name == "add"):  # where gradients meet, CUDA adds one to the other in place
            self._compare(transient(name, args) if backward else 0, backward)

    def _add(self, func: Any, args: Any, backward: bool, tensor: torch.Tensor) -> _Block | None:
        if not placement.on_gpu(tensor):
            return None
        storage = tensor.untyped_storage()
        size = -(-storage.nbytes() // _BLOCK) * _BLOCK
        known = self._blocks.get(storage._cdata)
        if known is not None:
            self._grow(known.kind, size - known.size)
            known.size = size
            return None
        forget = functools.partial(self._forget, storage._cdata)
        block = _Block(self._kind(func, args, backward), size, self._operations, weakref.ref(storage, forget))
        self._blocks[storage._cdata] = block
        self._grow(block.kind, size)
        return block

    def _kind(self, func: Any, args: Any, backward: bool) -> str:
        if self._updates() or (backward and not torch.is_grad_enabled()):
            return "temporary"
        operands = [value for value in tree_leaves(args) if isinstance(value, torch.Tensor)]
        name = op_name(func)
        if not any(map(placement.on_gpu, operands)) or name == "set_":
            return "inputs and buffers"
        if name == "clone" and self._kind_of(operands[0]) in ("parameters", "inputs and buffers"):
            return "inputs and buffers"
        if name == "_to_copy" and self._kind_of(operands[0]) == "parameters":
            return "half copies"
        return "activations"

    def _kind_of(self, tensor: torch.Tensor) -> str:
        block = self._blocks.get(tensor.untyped_storage()._cdata)
        return block.kind if block else ""

    def _forget(self, key: int, _: object) -> None:
        block = self._blocks.pop(key)
        self._grow(block.kind, -block.size)

    def _grow(self, kind: str, size: int) -> None:
        self.now[kind] += size
        self._total += size

    def _compare(self, passing: int, backward: bool) -> None:
        if self._total + passing >= self._highest:
            self._highest = self._total + passing
            self._peak_at = self._operations
            self.peak = dict(self.now)
            self.peak["workspaces"] += passing
            self.phase = "backward" if backward else "optimizer" if self._updates() else "forward"
            node: Any = torch._C._current_autograd_node() if backward else None
            known = self._lines.get(node._sequence_nr()) if node is not None else None
            self.line = known or calling_line()

    def mark(self, tensor: torch.Tensor, kind: str) -> None:
        """What `tensor` holds is of this kind, and was so at the peak, if it was there."""
        block = self._blocks.get(tensor.untyped_storage()._cdata)
        if block is not None and block.kind != kind:
            for sizes in (self.now, self.peak) if block.born <= self._peak_at else (self.now,):
                sizes[block.kind] -= block.size
                sizes[kind] += block.size
            block.kind = kind

    def _called(self, module: nn.Module, *_: object) -> None:
        with torch._C.DisableTorchFunction():
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.mark(parameter, "parameters")

    def _updates(self) -> bool:
        """Whether an optimizer computes; passes that its step takes, as LBFGS does, are passes."""
        return self._stepping and not (self._evaluates and torch.is_grad_enabled())

    def _begin_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._stepping = True
        self._evaluates = any(map(callable, (*args[1:], *kwargs.values())))
        with torch._C.DisableTorchFunction():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self.mark(parameter, "parameters")

    def _end_step(self, optimizer: Optimizer, *_: object) -> None:
        self._stepping = False
        self._lines.clear()
        with torch._C.DisableTorchFunction():
            for value in tree_leaves([*optimizer.state.values()]):
                if isinstance(value, torch.Tensor):
                    self.mark(value, "optimizer")


def _accumulates() -> bool:
    """Whether a gradient is being stored in its leaf."""
    node: Any = torch._C._current_autograd_node()
    return node is not None and node.name().endswith("AccumulateGrad")
