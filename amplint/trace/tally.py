"""Counted kinds of operations, and numerical properties that follow from an operator's name."""

from __future__ import annotations

from typing import Any

import torch

from amplint.records import dataclass
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import words
from amplint.trace.calls import name_of
from amplint.trace.data import Operation, dtype_name
from amplint.trace.frames import Line

_MOVERS = frozenset({"embedding"}).union(
    *map(operations_with, ("reshapes", "selects", "reorders", "repeats", "joins", "copies", "replaces"))
)
"""Operators that put numbers elsewhere."""
_FILLERS = (operations_with("fills") - {"copy"}).union(
    *map(operations_with, ("creates", "creates-like", "creates-new", "blank")), words("bernoulli scalar_tensor set")
)
"""Operators that give a tensor its first numbers, or none: what `empty` returns means nothing."""
_BOUNDED = operations_with("bounded")
"""Operators whose results are no larger than their inputs, or than 1."""
_CASTS = frozenset({"_to_copy", "copy"})
_STATEFUL = ("batch_norm", "rnn", "lstm", "gru", "dropout", "fused_moving_avg")
"""Parts of names of operators that keep something from one call to the next without their schema saying so."""
HALF = frozenset({torch.float16, torch.bfloat16})


@dataclass(slots=True)
class Kind:
    """One kind of operation at one place, as in `Operation` but with PyTorch's objects, and its count.

    `computes` says whether it may make inf or NaN out of finite values, `replayable` whether it can be rerun on
    the same inputs in float32, `scaled` whether it takes float8 operands with scales.
    """

    phase: str
    func: Any
    api: Any
    line: Line
    library: Line
    module: str
    inputs: tuple[torch.dtype, ...]
    outputs: tuple[torch.dtype, ...]
    region: torch.dtype | None
    device: str
    computes: bool
    replayable: bool
    scaled: bool
    count: int = 0
    seconds: float = 0.0
    watchers: tuple[Any, ...] | None = None

    @property
    def op(self) -> str:
        """The operator's name."""
        return op_name(self.func)

    def operation(self) -> Operation:
        """The kind in the form of a record."""
        return Operation(
            self.phase,
            self.op,
            name_of(self.api) if self.api is not None else "",
            *self.line,
            self.module,
            tuple(map(dtype_name, self.inputs)),
            tuple(map(dtype_name, self.outputs)),
            dtype_name(self.region) if self.region is not None else "",
            self.device,
            *self.library,
        )


def op_name(func: Any) -> str:
    """`addmm` for `aten::addmm`."""
    return str(func._schema.name).rpartition("::")[2]


def makes_numbers(func: Any) -> bool:
    """Whether results of `func` can be larger than its inputs, in any dtype."""
    name = op_name(func).rstrip("_")
    return not (func.is_view or "c10d" in func.namespace or name in _MOVERS | _FILLERS | _BOUNDED)


def may_overflow(func: Any, inputs: tuple[torch.dtype, ...], outputs: tuple[torch.dtype, ...]) -> bool:
    """Whether `func` may make inf or NaN out of finite values. Collectives only transfer them from other ranks."""
    if not makes_numbers(func):
        return False
    name = op_name(func).rstrip("_")
    given, made = [d for d in inputs if d.is_floating_point], [d for d in outputs if d.is_floating_point]
    if name in _CASTS and given and made:
        return torch.finfo(made[0]).max < torch.finfo(given[-1]).max
    return bool(made)


def replayable(func: Any, outputs: tuple[torch.dtype, ...]) -> bool:
    """Whether rerunning `func` in float32 has no side effects and can reveal a loss, which needs float16's range."""
    name = op_name(func)
    return (
        torch.float16 in outputs
        and func.namespace == "aten"
        and not func._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in func.tags
        and (not any(part in name for part in _STATEFUL) or name.endswith("batch_norm_backward"))
    )


def draws(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether `func` draws random numbers; dropout with probability 0 does not."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    for index, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "p", "dropout"):
            return bool(args[index] if index < len(args) else kwargs.get(argument.name, argument.default_value))
    return True


def reads_workspace(func: Any, args: Any) -> bool:
    """Whether `func` takes a workspace of a forward pass as bytes: in another dtype it would read beyond its end."""
    given = zip(func._schema.arguments, args, strict=False)
    return any(
        argument.name in ("workspace", "reserve") and isinstance(value, torch.Tensor) and value.dtype is torch.uint8
        for argument, value in given
    )


def rewrites(func: Any) -> bool:
    """Whether `func` updates an argument in place, rather than only storing a result there."""
    name = op_name(func)
    return bool(
        func._schema.is_mutable
        and not any(argument.is_out for argument in func._schema.arguments)
        and name.rstrip("_") not in _MOVERS | _FILLERS | _BOUNDED | _CASTS
    )
