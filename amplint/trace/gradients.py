"""Gradients that still carry the loss scale when they are used: by a norm, a clip, a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.utils import clip_grad
from torch.optim import Optimizer

from amplint.records import dataclass
from amplint.trace.calls import tensors
from amplint.trace.frames import calling_line, is_own
from amplint.trace.sightings import Sightings
from amplint.trace.tally import Kind

_NORMS = frozenset({"norm", "linalg_vector_norm", "_foreach_norm", "_foreach_powsum", "square", "pow", "dot"})
"""Operators that say how large gradients are."""
_CLIPS = frozenset(
    {"clamp", "clamp_max", "clamp_min", "_foreach_clamp_max", "_foreach_clamp_min", "_foreach_minimum"}
    | {"_foreach_maximum"}
)
_COPIES = frozenset({"cat", "stack", "clone", "_to_copy", "abs"})
"""Operators whose result carries the scale of gradients that they take."""
_PASSES = frozenset(
    {"stack", "cat", "sum", "mean", "sqrt", "add", "max", "amax", "maximum", "abs", "_to_copy", "clone", "copy"}
    | {"linalg_vector_norm", "norm", "pow", "square", "_foreach_add", "_foreach_sqrt"}
)
"""Operators whose result says how large gradients are where their input does."""
_COMPARES = frozenset({"lt", "gt", "le", "ge", "clamp", "clamp_max", "clamp_min", "minimum", "sub", "rsub"})
_RESCALES = frozenset({"mul", "div", "_foreach_mul", "_foreach_div", "copy", "zero", "_foreach_zero"})
WATCHED = _NORMS | _CLIPS | _COPIES | _PASSES | _COMPARES | _RESCALES | {"reciprocal"}
"""Names of operators that may see scaled gradients, without the mark of their in-place form."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A value computed by `kind` from gradient norms; `inverse` for a reciprocal."""

    storage: StorageWeakRef
    kind: Kind
    dtype: torch.dtype
    inverse: bool = False


class Gradients:
    """Tracks the gradients of `parameters()` from a backward pass of a scaled loss until they are unscaled.

    `scaled_ones` has the storages of gradients that carry a scale.
    """

    def __init__(self, sightings: Sightings, parameters: Callable[[], Iterable[Tensor]]) -> None:
        self._sightings = sightings
        self._parameters = parameters
        self._scale = 1.0
        self._losses: set[int] = set()
        self._pending = False
        self._all: dict[int, int] = {}
        self.scaled_ones: dict[int, StorageWeakRef] = {}
        self._sizes: dict[int, _Size] = {}

    def is_gradient(self, storage: int) -> bool:
        """Whether a storage, by its address, holds the gradient of a parameter."""
        return storage in self._all

    def scaled(self, losses: object, scale: float) -> None:
        """A scaler returned `losses`, which carry `scale`."""
        self._pending, self._scale = scale != 1, scale
        self._losses = {id(one) for one in tensors((losses,))}

    def computed(self, losses: object, results: object) -> None:
        """`torch.autograd.grad` returned `results` for `losses`."""
        if self._pending and any(id(one) in self._losses for one in tensors((losses,))):
            for one in tensors((results,)):
                self._carry(one)

    def backward_ended(self) -> None:
        """A backward pass ended."""
        before, self._all = self._all, {}
        for parameter in self._parameters():
            gradient = parameter.grad
            if gradient is not None:
                address, version = _address(gradient), gradient._version
                self._all[address] = version
                if self._pending and before.get(address) != version:
                    self._carry(gradient)
        self._pending = False

    def unscaled(self, optimizer: Optimizer) -> None:
        """The gradients of `optimizer` were unscaled."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self.scaled_ones.pop(_address(parameter.grad), None)

    def step(self, optimizer: Optimizer) -> None:
        """`optimizer` steps, not called by a scaler."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and self._carries(parameter.grad):
                    name = f"{type(optimizer).__name__}.step"
                    self._sightings.add_at("stepped", name, calling_line(), "", parameter.grad.dtype, size=self._scale)
                    return

    def end_step(self) -> None:
        """A step ended: values computed from its gradients are discarded."""
        self._sizes.clear()
        self.scaled_ones = {key: one for key, one in self.scaled_ones.items() if not one.expired()}  # type: ignore[no-untyped-call]

    def look(self, kind: Kind, args: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Check an operator of `WATCHED` in the forward phase."""
        name = kind.op.rstrip("_")
        carrying = [one for one in inputs if self._carries(one)]
        if carrying:
            self._use(kind, name, args, carrying, outputs)
        elif self._sizes:
            self._compare(kind, name, args, outputs)

    def _use(self, kind: Kind, name: str, args: Any, carrying: list[Tensor], outputs: list[Tensor]) -> None:
        if name in _CLIPS:
            self._see("clipped", kind, carrying[0].dtype)
        elif name in _NORMS:
            self._keep(outputs, kind, carrying[0].dtype)
        elif name in _COPIES:
            for one in outputs:
                self._carry(one)
        elif name in _RESCALES and kind.op.endswith("_"):
            for one in tensors(args[:1]):
                self.scaled_ones.pop(_address(one), None)

    def _compare(self, kind: Kind, name: str, args: Any, outputs: list[Tensor]) -> None:
        found = [self._size(one) for one in tensors(args)]
        sizes = [one for one in found if one is not None]
        if not sizes:
            return
        first, inverse = sizes[0], sizes[0].inverse
        if name in _COMPARES:
            if not _allows(self._scale):
                self._see("compared", first.kind, first.dtype)
            self._sizes.clear()
        elif name == "reciprocal" or (name == "div" and found[0] is None):
            share = args[0] if name == "div" else 1.0
            if not (isinstance(share, (int, float)) and share >= self._scale):
                self._keep(outputs, first.kind, first.dtype, inverse=True)
        elif name in _PASSES or (inverse and name in ("mul", "add")):
            self._keep(outputs, first.kind, first.dtype, inverse=inverse)

    def _keep(self, outputs: list[Tensor], kind: Kind, dtype: torch.dtype, *, inverse: bool = False) -> None:
        for one in outputs:
            address = _address(one)
            if address:
                self._sizes[address] = _Size(_reference(one), kind, dtype, inverse)

    def _size(self, tensor: Tensor) -> _Size | None:
        size = self._sizes.get(_address(tensor))
        return size if size is not None and not size.storage.expired() else None  # type: ignore[no-untyped-call]

    def _see(self, what: str, kind: Kind, dtype: torch.dtype) -> None:
        self._sightings.add(what, kind, dtype, size=self._scale)

    def _carry(self, tensor: Tensor) -> None:
        address = _address(tensor)
        if address:
            self.scaled_ones[address] = _reference(tensor)

    def _carries(self, tensor: Tensor) -> bool:
        reference = self.scaled_ones.get(_address(tensor))
        return reference is not None and not reference.expired()  # type: ignore[no-untyped-call]


def _allows(scale: float) -> bool:
    """Whether PyTorch's own clip runs with a limit of at least the scale."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_own(frame.f_code):
        if frame.f_code.co_filename == clip_grad.__file__ and "max_norm" in frame.f_locals:
            return float(frame.f_locals["max_norm"]) >= scale
        frame = frame.f_back
    return False


def _address(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse, or wrapped by a transform
        return 0


def _reference(tensor: Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
