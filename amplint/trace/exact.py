"""Reruns of operations on the float32 values of their inputs."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from amplint.torchlib.catalogue import operations_with
from amplint.trace.attention import HALF_ONLY, attention
from amplint.trace.calls import tensors
from amplint.trace.shadows import Shadows, shares_storage
from amplint.trace.tally import Kind, draws, op_name, reads_workspace
from amplint.trace.values import in_float32, is_plain

FAILURES = (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError)
"""What an operator raises that does not take what it gets."""
_JUMPS = operations_with("steps")
"""Operators that choose among numbers: the choice is the run's, as masks and indices are."""


class Exact:
    """Computes the float32 results of operations from the `shadows` of their inputs."""

    def __init__(self, shadows: Shadows) -> None:
        self._shadows = shadows
        self._refused: set[Any] = set()

    @property
    def refused(self) -> tuple[str, ...]:
        """The operators that do not run in float32."""
        return tuple(sorted(map(op_name, self._refused)))

    def results(self, kind: Kind, args: Any, kwargs: Any, outputs: list[Tensor]) -> list[Tensor] | None:
        """The results of `kind` in float32, in place for in-place operations; None if they cannot be computed."""
        func = kind.func
        if kind.op == "native_dropout" and args[2]:
            return [self._shadows.exact(args[0]) * outputs[1] / (1 - args[1]), outputs[1]]
        if func in self._refused or draws(func, args, kwargs):
            return None
        if reads_workspace(func, args):
            self._refused.add(func)
            return None
        values, named = self._arguments(kind, args), {name: self._value(value) for name, value in kwargs.items()}
        if kind.op in HALF_ONLY:
            schema = func._schema.arguments
            positional = {one.name: value for one, value in zip(schema, values, strict=False)}
            known = attention({one.name: one.default_value for one in schema} | positional | named)
            return [*known, *outputs[len(known) :]] if known is not None else None
        try:
            result = func(*values, **named)
        except FAILURES:
            self._refused.add(func)
            return None
        exact = [result] if isinstance(result, Tensor) else tensors((result,))
        if [one.shape for one in exact] != [one.shape for one in outputs]:
            return None
        given = tensors((*values, *named.values()))
        return [one.clone() if is_plain(one) and shares_storage(one, given) else one for one in exact]

    def _arguments(self, kind: Kind, args: Any) -> list[Any]:
        if kind.op in _JUMPS:
            return [in_float32(value) for value in args]
        values = [self._value(value) for value in args]
        for index, argument in enumerate(kind.func._schema.arguments[: len(values)]):
            if _is_statistic(argument) and isinstance(values[index], Tensor):
                values[index] = values[index].clone()
            elif argument.name == "half_to_float":
                values[index] = False
        return values

    def _value(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._shadows.exact(value) if is_plain(value) else value
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(part) for part in value)
        return in_float32(value)


def written(func: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """The tensors that `func` writes to, among those that are compared."""
    if not func._schema.is_mutable:
        return []
    found: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write and not _is_statistic(argument):
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += [one for one in tensors((value,)) if is_plain(one)]
    return found


def _is_statistic(argument: Any) -> bool:
    """Whether it is a running statistic that a batch norm writes to, which not every schema declares; not compared."""
    return bool(argument.name.startswith("running_"))
