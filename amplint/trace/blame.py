"""Which input of an operation is to blame for a wrong 0, inf or NaN in its result: by running it again without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amplint.trace.calls import tensors
from amplint.trace.partings import Culprit
from amplint.trace.shadows import Shadows
from amplint.trace.values import in_float32, is_plain

FAILURES = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
"""What an operator raises that does not take what it gets."""


@dataclass(frozen=True, slots=True)
class Blame:
    """An operation `func` with its arguments as they were, and its `inputs`, among which there may be a culprit."""

    shadows: Shadows
    func: Any
    args: Any
    kwargs: Any
    inputs: list[Tensor]

    def for_zeros(self, real: Tensor, exact: Tensor) -> Culprit | None:
        """The culprit of the input whose wrong zeros are those of `real`; None where they are the operation's own."""
        found = [shadow for shadow in map(self.shadows.find, self.inputs) if shadow is not None and shadow.zeros]
        if not found:
            return None
        wrong = (real == 0) & (exact != 0)
        own = any(bool((wrong & (one != 0)).any()) for one in self._again() if one.shape == real.shape)
        return None if own else found[0].culprit

    def for_infinity(self, real: Tensor, exact: Tensor) -> Culprit | None:
        """The culprit of the input without whose error `real` would be finite; None where there is no such input."""
        wrong = exact.isfinite() & ~real.isfinite()

        def cures(results: list[Tensor]) -> bool:
            alike = [one for one in results if one.shape == real.shape]
            return bool(alike) and not any(bool((wrong & ~one.isfinite()).any()) for one in alike)

        if cures(self._again()):
            return None
        for one in self.inputs:
            shadow = self.shadows.find(one)
            if shadow is not None and shadow.culprit is not None and cures(self._again(one)):
                return shadow.culprit
        return None

    def _again(self, instead: Tensor | None = None) -> list[Tensor]:
        """The results in float32 of the run's own inputs, but for `instead`, which is what it should be."""

        def value(one: Any) -> Any:
            if isinstance(one, Tensor) and is_plain(one):
                return (self.shadows.exact(one) if one is instead else in_float32(one)).clone()
            if isinstance(one, (list, tuple)):
                return type(one)(map(value, one))
            return in_float32(one)

        try:
            result = self.func(*map(value, self.args), **{name: value(one) for name, one in self.kwargs.items()})
        except FAILURES:
            return []
        return [result] if isinstance(result, torch.Tensor) else tensors((result,))
