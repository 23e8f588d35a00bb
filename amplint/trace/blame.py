"""The culprit of a wrong result: the operation that suffices to be run in float32 for the result to be right.

It is found by rerunning operations: the one with the wrong result, and those that produced its inputs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from amplint.records import dataclass
from amplint.trace.calls import tensors
from amplint.trace.drift import distance
from amplint.trace.exact import FAILURES
from amplint.trace.partings import Culprit
from amplint.trace.shadows import Shadow, Shadows
from amplint.trace.values import in_float32, is_plain

_REMEMBERED = 256
_LEAST, _ROOM = 16, 2**30
"""So many results are remembered however large they are, and more up to this many bytes."""
_DEPTH = 12

Cures = Callable[[Tensor], bool]
"""Whether a result is right, or less wrong by far."""


@dataclass(eq=False)
class Ran:
    """An operation `func` with its original arguments; `own` is its place."""

    func: Any
    args: Any
    kwargs: Any
    own: Culprit
    _versions: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._versions = self._current_versions()

    def inputs(self) -> list[Tensor]:
        """Its distinct input tensors."""
        found = [one for one in (*tensors(self.args), *tensors(self.kwargs.values())) if is_plain(one)]
        return list({id(one): one for one in found}.values())

    def unchanged(self) -> bool:
        """Whether its inputs have not been modified since."""
        return self._current_versions() == self._versions

    def recomputed(self, index: int, instead: dict[int, Tensor]) -> Tensor | None:
        """Its result at `index` in float32, from the original inputs or, by identity, those in `instead`."""
        writes = self.func._schema.is_mutable

        def value(one: Any) -> Any:
            if isinstance(one, Tensor) and is_plain(one):
                given = instead.get(id(one), in_float32(one))
                return given.clone() if writes else given
            if isinstance(one, (list, tuple)):
                return type(one)(map(value, one))
            return in_float32(one)

        try:
            result = self.func(*map(value, self.args), **{name: value(one) for name, one in self.kwargs.items()})
        except FAILURES:
            return None
        made = [result] if isinstance(result, Tensor) else tensors((result,))
        return made[index] if index < len(made) else None

    def _current_versions(self) -> list[int]:
        return [0 if one.is_inference() else one._version for one in self.inputs()]


@dataclass(frozen=True, slots=True)
class _ShadowWrite:
    """The last write to a shadow: the `index`-th result of `ran`, stored in `real`."""

    shadow: Shadow
    ran: Ran
    index: int
    real: Tensor

    @property
    def nbytes(self) -> int:
        return self.real.nbytes + self.shadow.numbers.nbytes


class Blame:
    """A history of recent operations, searched for culprits."""

    def __init__(self, shadows: Shadows) -> None:
        self._shadows = shadows
        self._made: OrderedDict[int, _ShadowWrite] = OrderedDict()
        self._nbytes = 0

    def remember(self, ran: Ran, index: int, real: Tensor, shadow: Shadow) -> None:
        """Record `real`, a result of `ran`, as the tensor that `shadow` belongs to."""
        before = self._made.pop(id(shadow), None)
        made = self._made[id(shadow)] = _ShadowWrite(shadow, ran, index, real.detach())
        self._nbytes += made.nbytes - (before.nbytes if before is not None else 0)
        while len(self._made) > (_LEAST if self._nbytes > _ROOM else _REMEMBERED):
            self._nbytes -= self._made.popitem(last=False)[1].nbytes

    def forget(self) -> None:
        """Clear the history at the end of a step."""
        self._made.clear()
        self._nbytes = 0

    def for_zeros(self, ran: Ran, index: int, real: Tensor, exact: Tensor) -> Culprit | None:
        """The culprit of zeros in `real` that are nonzero in `exact`, None if there are none."""
        wrong = (real == 0) & (exact != 0)
        if not bool(wrong.any()):
            return None
        alone = ran.recomputed(index, {})
        if alone is not None and alone.shape == real.shape and bool((wrong & (alone != 0)).any()):
            return ran.own
        shadows = filter(None, map(self._shadows.find, ran.inputs()))
        return next((one.zeroed for one in shadows if one.zeroed), None)

    def for_infinity(self, ran: Ran, index: int, real: Tensor, exact: Tensor) -> Culprit:
        """The culprit of values that are finite in `exact` only."""
        wrong = exact.isfinite() & ~real.isfinite()
        return self._find(ran, index, lambda one: not bool((wrong & ~one.isfinite()).any()))

    def for_error(self, ran: Ran, index: int, real: Tensor, exact: Tensor) -> Culprit:
        """The culprit of more than half of the error of `real`."""
        allowed = distance(real, exact).gap / 2
        return self._find(ran, index, lambda one: distance(one, exact).gap < allowed)

    def _find(self, ran: Ran, index: int, cures: Cures) -> Culprit:
        def right(one: Tensor | None, shape: torch.Size) -> bool:
            return one is not None and one.shape == shape and cures(one)

        first = ran.recomputed(index, {})
        if first is None or cures(first):
            return ran.own
        shape = first.shape

        def search(ran: Ran, result: Callable[[dict[int, Tensor]], Tensor | None], depth: int) -> Culprit | None:
            """The culprit among the producers of the inputs of `ran`.

            `result` computes the end result with some of these inputs replaced.
            """
            for one in ran.inputs():
                shadow = self._shadows.find(one)
                if shadow is None or not right(result({id(one): self._shadows.exact(one)}), shape):
                    continue
                made = self._made.get(id(shadow))
                if made is None or not depth or not made.ran.unchanged():
                    return shadow.zeroed or shadow.culprit

                def through(
                    instead: dict[int, Tensor], one: Tensor = one, shadow: Shadow = shadow, made: _ShadowWrite = made
                ) -> Tensor | None:
                    numbers = made.ran.recomputed(made.index, instead)
                    if numbers is None or numbers.shape != made.real.shape:
                        return None
                    whole = shadow.numbers.clone()
                    whole.as_strided(made.real.size(), made.real.stride(), made.real.storage_offset()).copy_(numbers)
                    return result({id(one): whole.as_strided(one.size(), one.stride(), one.storage_offset())})

                if right(through({}), shape):
                    return made.ran.own
                return search(made.ran, through, depth - 1) or shadow.zeroed or shadow.culprit
            return together(ran, result)

        def together(ran: Ran, result: Callable[[dict[int, Tensor]], Tensor | None]) -> Culprit | None:
            """The culprit that several inputs of `ran` have in common."""
            found: dict[Culprit, dict[int, Tensor]] = {}
            for one in ran.inputs():
                shadow = self._shadows.find(one)
                if shadow is not None and shadow.culprit is not None:
                    found.setdefault(shadow.culprit, {})[id(one)] = self._shadows.exact(one)
            return next((one for one, group in found.items() if len(group) > 1 and right(result(group), shape)), None)

        return search(ran, lambda instead: ran.recomputed(index, instead), _DEPTH) or ran.own
