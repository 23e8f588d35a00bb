"""Tracker of GPU memory and its peak: a dispatch mode that observes allocations and releases of storages.

It counts as PyTorch's caching allocator does: blocks in multiples of 512 bytes (c10/cuda/CUDACachingAllocator.h),
which is what `torch.cuda.max_memory_allocated` reports.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import field
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

from amplint.records import dataclass
from amplint.trace.frames import NOWHERE, Line, calling_line
from amplint.trace.gpus import Gpu
from amplint.trace.memory.blocks import repeated
from amplint.trace.memory.estimates import KINDS
from amplint.trace.memory.workspaces import cublas, transient
from amplint.trace.modules import Modules
from amplint.trace.placement import placement
from amplint.trace.tally import op_name

_BLOCK = 512

Place = tuple[Line, str]
"""A line of the user's code, and the path of the module that ran."""


@dataclass(slots=True)
class _Block:
    """An allocation on the GPU: kind, size as rounded by the allocator, number of earlier operations, and origin.

    `passes` is the number of backward passes begun before.
    """

    kind: str
    size: int
    born: int
    passes: int
    place: Place
    reference: Any


@dataclass(slots=True)
class Peak:
    """The sizes by kind at the peak, the number of operations before it, and the line that ran.

    `gone` are the allocations that existed at the peak and were released since.
    """

    sizes: dict[str, int]
    at: int = 0
    line: Line = NOWHERE
    gone: list[_Block] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The sum of all kinds."""
        return sum(self.sizes.values())


class Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts bytes on `gpu` by kind. `peaks` has the latest peak of each phase.

    In the backward pass, its line is the one whose gradient was computed. Allocations of the forward pass released
    before a backward pass begins are temporary, also at the peak. `batch` is the number of samples in the first tensor
    passed to a trained model, 0 if unknown, `unit` the bytes of the largest repeated block of a model, and `trained`
    are the dtypes of parameters that optimizers step.
    """

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = dict.fromkeys(KINDS, 0)
        self.peaks: dict[str, Peak] = {}
        self.batch = self.unit = 0
        self.trained: set[torch.dtype] = set()
        self._roots: set[int] = set()
        self._modules = Modules()
        self._places: dict[int, Place] = {}
        self._gpu = gpu
        self._total = self._operations = self._passes = 0
        self._passing = False
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
        self._undo = [*(hook.remove for hook in hooks), self._modules.detach]
        self._modules.attach()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *failure: Any) -> None:
        super().__exit__(*failure)  # type: ignore[no-untyped-call]
        while self._undo:
            self._undo.pop()()

    @property
    def phase(self) -> str:
        """The phase with the highest peak, the last of them; empty if nothing was on the GPU."""
        return max(reversed(self.peaks), key=lambda phase: self.peaks[phase].total, default="")

    @property
    def peak(self) -> dict[str, int]:
        """The sizes by kind at the peak."""
        return self.peaks[self.phase].sizes if self.peaks else dict.fromkeys(KINDS, 0)

    @property
    def line(self) -> Line:
        """The line that ran at the peak."""
        return self.peaks[self.phase].line if self.peaks else NOWHERE

    def holders(self) -> dict[tuple[str, Place], int]:
        """The bytes at the peak by kind and origin."""
        peak = self.peaks[self.phase]
        found: Counter[tuple[str, Place]] = Counter()
        for block in (*peak.gone, *(block for block in self._blocks.values() if block.born <= peak.at)):
            found[block.kind, block.place] += block.size
        return dict(found)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run `func`, and count its results."""
        result = func(*args, **kwargs or {})
        self._operations += 1
        with torch._C.DisableTorchFunction():
            self._ran(func, args, result)
        return result

    def _ran(self, func: Any, args: Any, result: Any) -> None:
        backward = torch._C._current_graph_task_id() != -1
        self._passes += backward and not self._passing
        self._passing = backward
        if not backward:
            place = calling_line(), self._modules.current
            self._places.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)
        made = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        fresh = [block for block in map(functools.partial(self._add, func, args, backward), made) if block]
        if backward and made and _accumulates():
            self.mark(made[0], "gradients")
        name = op_name(func)
        workspace = cublas(name, self._gpu)
        if workspace and backward not in self._handles and placement.on_gpu(made[0]):
            self._handles.add(backward)
            self._grow("workspaces", workspace)
        if fresh and not (backward and name == "add"):  # gradients are summed in place on CUDA
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
        block = _Block(
            self._kind(func, args, backward),
            size,
            self._operations,
            self._passes,
            self._place(backward),
            weakref.ref(storage, forget),
        )
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

    def _place(self, backward: bool) -> Place:
        """The origin of an allocation: in the backward pass the line, and the module, of the forward pass."""
        node: Any = torch._C._current_autograd_node() if backward else None
        known = self._places.get(node._sequence_nr()) if node is not None else None
        return known or (calling_line(), self._modules.current)

    def _forget(self, key: int, _: object) -> None:
        block = self._blocks.pop(key)
        if block.kind == "activations" and block.passes == self._passes and not self._passing:
            self._turn(block, "temporary")
        self._grow(block.kind, -block.size)
        for peak in self.peaks.values():
            if block.born <= peak.at:
                peak.gone.append(block)

    def _grow(self, kind: str, size: int) -> None:
        self.now[kind] += size
        self._total += size

    def _compare(self, passing: int, backward: bool) -> None:
        phase = "backward" if backward else "optimizer" if self._updates() else "forward"
        highest = self.peaks.get(phase)
        if highest is None or self._total + passing >= highest.total:
            sizes = {**self.now, "workspaces": self.now["workspaces"] + passing}
            self.peaks.pop(phase, None)  # to keep the order
            self.peaks[phase] = Peak(sizes, self._operations, self._place(backward)[0])

    def _turn(self, block: _Block, kind: str) -> None:
        """Change the kind of `block`, also in the peaks at which it existed."""
        for sizes in (self.now, *(peak.sizes for peak in self.peaks.values() if block.born <= peak.at)):
            sizes[block.kind] -= block.size
            sizes[kind] += block.size
        block.kind = kind

    def mark(self, tensor: torch.Tensor, kind: str) -> None:
        """Change the kind of the storage of `tensor`, also in the peaks at which it existed."""
        block = self._blocks.get(tensor.untyped_storage()._cdata)
        if block is not None and block.kind != kind:
            self._turn(block, kind)

    def _called(self, module: nn.Module, inputs: tuple[object, ...]) -> None:
        with torch._C.DisableTorchFunction():
            if not self._modules.current:
                self._train(module, inputs)
            for parameter in module._parameters.values():
                if parameter is not None:
                    self.mark(parameter, "parameters")

    def _train(self, model: nn.Module, inputs: tuple[object, ...]) -> None:
        if id(model) not in self._roots:
            self._roots.add(id(model))
            blocks = repeated(model) or [model]
            sizes = [sum(one.nbytes for one in block.parameters()) for block in blocks]
            self.unit = max(self.unit, *sizes)
        first = next((value for value in inputs if isinstance(value, torch.Tensor)), None)
        if not self.batch and torch.is_grad_enabled() and first is not None and first.dim():
            self.batch = len(first)

    def _updates(self) -> bool:
        """Whether an optimizer step is running; passes that its closure runs, as LBFGS does, count as passes."""
        return self._stepping and not (self._evaluates and torch.is_grad_enabled())

    def _begin_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._stepping = True
        self._evaluates = any(map(callable, (*args[1:], *kwargs.values())))
        with torch._C.DisableTorchFunction():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self.trained.add(parameter.dtype)
                    self.mark(parameter, "parameters")

    def _end_step(self, optimizer: Optimizer, *_: object) -> None:
        self._stepping = False
        self._places.clear()
        with torch._C.DisableTorchFunction():
            for value in tree_leaves([*optimizer.state.values()]):
                if isinstance(value, torch.Tensor):
                    self.mark(value, "optimizer")


def _accumulates() -> bool:
    """Whether a gradient is being accumulated into its leaf."""
    node: Any = torch._C._current_autograd_node()
    return node is not None and node.name().endswith("AccumulateGrad")
