"""The operation that a call runs, and the arguments that are its operands, by position and by name."""

from __future__ import annotations

from collections.abc import Iterator

from amplint.semantics.values.arguments import Argument, Arguments
from amplint.semantics.values.values import Const
from amplint.torchlib.catalogue import operations_with, parameters
from amplint.torchlib.equations import contracts

BESIDES = parameters("beside")
"""Operation -> the parameters beside the first one whose dtypes count, each with its position after that."""
LIMITS = {op: BESIDES[op] for op in operations_with("limits")}


def runs(op: str, arguments: Arguments) -> str:
    """The operation whose dtype rule applies to `op` with these arguments."""
    if op in LIMITS:
        return "clamp"
    if op in ("div", "divide", "true_divide") and arguments.value("rounding_mode") not in (None, Const(None)):
        return "floor_divide"
    if op == "einsum":
        equation = arguments.value("equation", 0)
        found = contracts(equation.value) if isinstance(equation, Const) and isinstance(equation.value, str) else None
        return "einsum" if found else "einsum_elementwise" if found is False else ""
    return op


def besides(op: str, arguments: Arguments, shift: int) -> Iterator[Argument]:
    """The arguments whose dtypes count beside the first operand; `shift` is 1 if that operand is itself an argument."""
    if op == "einsum":
        yield from arguments.given[2:]
    if op == "chain_matmul":
        yield from arguments.given[shift:]
    seen = set[int]()
    for keyword, position in BESIDES.get(op, ()):
        argument = arguments.get(keyword, position + shift)
        if argument is not None and argument.value != Const(None) and id(argument) not in seen:
            seen.add(id(argument))
            yield argument
