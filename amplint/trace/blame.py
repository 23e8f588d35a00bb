"""Which input of an operation is to blame for a wrong 0, inf or NaN in its result: by running it again without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amplint.trace.calls import tensors
from amplint.trace.partings import Culprit
from amplint.trace.shadows import Shadows
from amplint.trace.values import in_float32, is_plain

FAILURES = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
"""What an operator raises that does not take what it gets."""


class Blame:
    """An operation `func` with its arguments as they were, and the `inputs` among them.

    `alone` are its results in float32 on the run's own inputs: what is wrong with them the inputs have brought.
    """

    def __init__(self, shadows: Shadows, func: Any, args: Any, kwargs: Any, inputs: list[Tensor]) -> None:
        self.inputs = inputs
        self._shadows = shadows
        self._func = func
        self._args = args
        self._kwargs = kwargs
        self.alone = self._again()

    def whose(self, is_cured: Callable[[Tensor], bool], index: int, *, for_zeros: bool) -> Culprit | None:
        """What is to blame for the input that would cure the result if it were right; None where it is not an input's.

        `is_cured` judges what takes the place of the result, which is that of this `index`. `for_zeros` says that wrong
        zeros of an input may do it.
        """

        def cures(results: list[Tensor]) -> bool:
            return index < len(results) and is_cured(results[index])

        if cures(self.alone):
            return None
        for one in self.inputs:
            shadow = self._shadows.find(one)
            to_blame = shadow.to_blame(for_zeros=for_zeros) if shadow is not None else None
            if to_blame is not None and cures(self._again(one)):
                return to_blame
        return None

    def _again(self, instead: Tensor | None = None) -> list[Tensor]:
        """The results in float32 of the run's own inputs, but for `instead`, which is what it should be."""

        def value(one: Any) -> Any:
            if isinstance(one, Tensor) and is_plain(one):
                return (self._shadows.exact(one) if one is instead else in_float32(one)).clone()
            if isinstance(one, (list, tuple)):
                return type(one)(map(value, one))
            return in_float32(one)

        try:
            result = self._func(*map(value, self._args), **{name: value(one) for name, one in self._kwargs.items()})
        except FAILURES:
            return []
        return [result] if isinstance(result, torch.Tensor) else tensors((result,))
