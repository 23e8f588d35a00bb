"""Limits of one tensor's dtype, `torch.finfo(x.dtype).min`, that are written into a product of that tensor.

Autocast makes the product float16 while `x` may be float32, whose limits float16 does not hold.
"""

from __future__ import annotations

from amplint.semantics.python.machine import Machine
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.provenance import dtype_root
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Method, Number, Tensor, Unknown, Value
from amplint.semantics.words import PROJECTED
from amplint.source import syntax as cst
from amplint.torchlib.names import FLOAT32_MAX
from amplint.torchlib.policy import LOWER, words

_SCALED = words("Multiply Divide")
_STEPS = 4


def limit_of_another(
    machine: Machine,
    state: State,
    value: Value,
    node: cst.BaseExpression,
    operand: Value,
    beside: cst.BaseExpression,
) -> Number | None:
    """The limit that `node` reads from the dtype of a parameter, of which `operand` is a matrix product."""
    if not machine.assumes or not isinstance(value, Unknown) or not isinstance(operand, (Tensor, Unknown)):
        return None
    if isinstance(operand, Tensor) and operand.dtypes is not None:
        return None
    product = dtype_root(machine, operand.symbol)
    if machine.symbols.key(product)[0] not in LOWER | {"MatrixMultiply"} or innermost(machine, state)[0] is not None:
        return None
    found = _limited(machine, value.symbol)
    if found is None or branches_on_dtypes(machine):
        return None
    sign, other = found
    root = dtype_root(machine, other)
    key = machine.symbols.key(root)
    if key[0] != "parameter" or PROJECTED.search(str(key[2])) or root not in machine.symbols.derivation(product):
        return None
    return Number(sign * FLOAT32_MAX, node, beside, limit_of=str(key[2]))


def _limited(machine: Machine, symbol: int) -> tuple[int, int] | None:
    """The sign of a limit of a tensor's dtype, and the symbol of the tensor; None for anything else."""
    sign = 1
    for _ in range(_STEPS):
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        if key[0] == "Minus":
            sign = -sign
        elif key[:2] in (("attribute", "max"), ("attribute", "min")):
            sign = sign if key[1] == "max" else -sign
            called = machine.symbols.key(parts[0])
            if called[:2] != ("call", "torch.finfo"):
                return None
            (dtype,) = machine.symbols.parts(parts[0])[-1:]
            other = _owner(machine, dtype)
            return (sign, other) if other is not None else None
        elif key[0] not in _SCALED:
            return None
        symbol = parts[0]
    return None


def _owner(machine: Machine, symbol: int) -> int | None:
    """The tensor of which this is the `dtype`."""
    key = machine.symbols.key(symbol)
    if key[:2] == ("attribute", "dtype"):
        return machine.symbols.parts(symbol)[0]
    method = key[1] if key[0] == "value" else None
    return symbol_of(machine, method.owner) if isinstance(method, Method) and method.name == "dtype" else None
