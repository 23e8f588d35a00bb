"""Finiteness of results on a device that must not be synchronised: one flag per result, read once a step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from amplint.records import dataclass
from amplint.torchlib.catalogue import operations_with
from amplint.trace.tally import Kind
from amplint.trace.values import is_plain, total

_BLANK = operations_with("blank")
_UNKNOWN = -1
"""The flag of memory that nothing was written to yet."""
_MOST = 20_000
"""So many results are read at the latest, also where no step ends."""


@dataclass(frozen=True, slots=True)
class Result:
    """One execution of `kind`: whether it leads to gradients, and whether it `matters` if it is not finite."""

    kind: Kind
    leads_to_gradients: bool
    matters: bool

    @classmethod
    def of(cls, kind: Kind, inputs: list[Tensor], made: list[Tensor]) -> Result:
        """An execution of `kind` on `inputs`."""
        leads = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
        single = made[0].numel() == 1
        return cls(kind, leads, kind.phase in ("backward", "optimizer") or (leads and single))


class Flags:
    """Collects sums of results and, when they are read, passes those that are not finite to `judge`, in order.

    The inputs of an operation are identified by their memory, so that most need no sum of their own. `judge` also gets
    whether there is a NaN, and whether all inputs were finite; `confirm` is called if a whole model's output is not.
    """

    def __init__(self, judge: Callable[[Result, bool, bool, None], None], confirm: Callable[[], None]) -> None:
        self._judge = judge
        self._confirm = confirm
        self._sums: list[Tensor] = []
        self._memory: dict[int, int] = {}
        self._seen: list[tuple[Result | None, list[int], list[int]]] = []

    def look(self, kind: Kind, inputs: list[Tensor], outputs: list[Tensor], meant: bool) -> None:
        """Record the results of `kind`; `meant` says that the user wrote inf or NaN."""
        if kind.func.is_view or (kind.device == "cuda" and torch.cuda.is_current_stream_capturing()):
            return
        made = [tensor for tensor in outputs if is_plain(tensor)]
        given = [self._known(tensor, any(tensor is result for result in made)) for tensor in inputs if is_plain(tensor)]
        blank = kind.op.rstrip("_") in _BLANK
        results = [_UNKNOWN if blank else self._sum(tensor) for tensor in made]
        self._memory.update(zip(map(_memory, made), results, strict=True))
        if kind.computes and made:
            self._seen.append((Result.of(kind, inputs, made), [*given, _UNKNOWN] if meant else given, results))
        if len(self._sums) > _MOST:
            self.read()

    def leave_model(self, output: Tensor) -> None:
        """A whole model returned `output`."""
        self._seen.append((None, [], [self._sum(output)]))

    def read(self) -> None:
        """Synchronise with the devices, once, and judge."""
        values = _values(self._sums)
        for result, given, made in self._seen:
            bad = [values[index] for index in made if values[index] - values[index] != 0]
            if bad and result is None:
                self._confirm()
            elif bad and result is not None:
                finite = all(index != _UNKNOWN and values[index] - values[index] == 0 for index in given)
                self._judge(result, any(value != value for value in bad), finite, None)
        self._sums.clear()
        self._memory.clear()
        self._seen.clear()

    def _known(self, tensor: Tensor, rewritten: bool) -> int:
        index = self._memory.get(_memory(tensor))
        if index is None:
            index = self._memory[_memory(tensor)] = _UNKNOWN if rewritten else self._sum(tensor)
        return index

    def _sum(self, tensor: Tensor) -> int:
        self._sums.append(total(tensor).float())
        return len(self._sums) - 1


def _values(sums: list[Tensor]) -> list[float]:
    """The values of `sums`, with one synchronisation per device."""
    devices: dict[torch.device, list[int]] = {}
    for index, value in enumerate(sums):
        devices.setdefault(value.device, []).append(index)
    values = [0.0] * len(sums)
    for indices in devices.values():
        for index, value in zip(indices, torch.stack([sums[index] for index in indices]).tolist(), strict=True):
            values[index] = value
    return values


def _memory(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
