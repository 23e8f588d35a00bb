"""Weights divided by their own sum, as in linear attention, slot attention and normalised kernels.

A sum of many weights is infinite past 65504 in float16, and one of weights that all vanish is 0: the quotient is NaN.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice

from amplint.semantics.events import How, Operand, Sensitive
from amplint.semantics.python.machine import Machine
from amplint.semantics.reading.scopes import last_name
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import provenance
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.sensitive import emit_sensitive, is_wide
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.policy import LOWER, words

_SUMS = words("sum nansum")
_WEIGHTS = words("exp softmax")
"""Functions whose results vanish in half before they do in float32."""
_LARGEST, _GRIDS = words("max amax logsumexp"), words("arange linspace meshgrid")
"""What an exponent is computed from that is 0 somewhere: a distance from the largest one, or from the middle."""
_SCALES = words("Multiply mul masked_fill where")
_TURNS = words("transpose mT T t permute swapaxes swapdims adjoint")
_LIMITS = words("clamp clamp_ clamp_min clamp_min_ max maximum")
_SHIFTS = words("Add add")
_ONES = words("ones ones_like new_ones")
_ROWS = words("index part")
_PRODUCTS = LOWER | operations_with("matrices") | {"MatrixMultiply"}
_FAR = 32
"""The limit of values followed backwards."""


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand]) -> None:
    """Report a quotient of weights and their sum, or of columns of linear attention and the one that holds sums."""
    if op != "div" or len(operands) != 2 or Sensitive.kind not in machine.wanted:
        return
    above, below = (operand.value for operand in operands)
    if not isinstance(below, Tensor) or innermost(machine, state)[0] is not None or branches_on_dtypes(machine):
        return
    if is_wide(machine, below.symbol):
        return
    paths = machine.symbols.alternatives(below.symbol)
    if operands[1].half is not None and any(_sums_kernel(machine, one) for one in paths):
        emit_sensitive(machine, state, node, "div", operands[1], How.OWN_SUM)
    if not isinstance(above, Tensor) or operands[0].half is None or is_wide(machine, above.symbol):
        return
    if _is_own_sum(machine, above.symbol, below.symbol) or _is_own_column(machine, above.symbol, below.symbol):
        emit_sensitive(machine, state, node, "div", operands[0], How.OWN_SUM)


def _is_own_sum(machine: Machine, above: int, below: int) -> bool:
    """Whether `below` is the sum of the weights `above`, with nothing added and no lower limit."""
    limits, total = set[str](), None
    for one in provenance.views(machine, below):
        limits.add(_name(machine, one))
        if _name(machine, one) in _SUMS:
            total = one
            break
    if total is None or not _LIMITS.isdisjoint(limits):
        return False
    summed = _operand(machine, total)
    if all(view != summed for view in provenance.views(machine, above)):
        return False
    root = provenance.dtype_root(machine, above)
    if _name(machine, root) == "softmax" and _dimension(machine, root) == _dimension(machine, total):
        return False  # these add up to 1
    weights = [one for one in _factors(machine, above) if _name(machine, one) in _WEIGHTS]
    return bool(weights) and not any(_is_bounded(machine, one) for one in weights)


def _is_bounded(machine: Machine, symbol: int) -> bool:
    """Whether this is an exponential of which one is 1."""
    if _name(machine, symbol) != "exp":
        return False
    return any(
        _name(machine, one) in _LARGEST or any(_is_grid(field) for field in machine.symbols.key(one))
        for one in machine.symbols.derivation(symbol)
    )


def _is_grid(made: object) -> bool:
    return isinstance(made, cst.Call) and last_name(made.func) in _GRIDS


def _is_own_column(machine: Machine, above: int, below: int) -> bool:
    """Whether these are columns of `q @ (k.T @ v)`, of which the one below may have an epsilon."""
    if _name(machine, below) in _SHIFTS:
        below = machine.symbols.parts(below)[0]
    if _name(machine, above) not in _ROWS or _name(machine, below) not in _ROWS:
        return False
    root = provenance.dtype_root(machine, above)
    if root != provenance.dtype_root(machine, below):
        return False
    inner = [provenance.dtype_root(machine, one) for one in _multiplied(machine, root)[1:]]
    turned = [one for product in inner for one in _multiplied(machine, product)[:1]]
    return any(_name(machine, view) in _TURNS for one in turned for view in provenance.views(machine, one))


def _sums_kernel(machine: Machine, below: int) -> bool:
    """Whether linear attention divides by this: `q @ k.sum()` or `q @ (k.T @ ones)`, perhaps with an epsilon."""
    below = provenance.dtype_root(machine, below)
    if _name(machine, below) in _SHIFTS:
        below = provenance.dtype_root(machine, machine.symbols.parts(below)[0])
    factors = _multiplied(machine, below)
    if _name(machine, below) in _SUMS and (inner := _operand(machine, below)) is not None:
        product = provenance.dtype_root(machine, inner)
        factors = list(machine.symbols.parts(product)) if _name(machine, product) in _SCALES else []
    if len(factors) != 2 or factors[0] == factors[1]:
        return False
    for one in (provenance.dtype_root(machine, factor) for factor in factors):
        summed = _operand(machine, one) if _name(machine, one) in _SUMS else None
        inside = _multiplied(machine, one)
        if len(inside) == 2 and _is_of_ones(machine, inside[1]):
            summed = inside[0]
        if summed is not None and _name(machine, provenance.dtype_root(machine, summed)) != "softmax":
            return True
    return False


def _is_of_ones(machine: Machine, symbol: int) -> bool:
    made = provenance.dtype_root(machine, symbol)
    return any(isinstance(one, cst.Call) and last_name(one.func) in _ONES for one in machine.symbols.key(made))


def _multiplied(machine: Machine, symbol: int) -> list[int]:
    """The factors of a product of two matrices; nothing for anything else."""
    name = _name(machine, symbol)
    if name not in _PRODUCTS:
        return []
    first = () if name == "einsum" else machine.symbols.parts(symbol)
    return [*first, *(value for _, value in _given(machine, symbol))][:2]


def _factors(machine: Machine, symbol: int) -> Iterator[int]:
    """What `symbol` is the product of, as far as views, masks and factors go."""

    def below(one: int) -> tuple[int, ...]:
        root = provenance.dtype_root(machine, one)
        return machine.symbols.parts(root) if _name(machine, root) in _SCALES else (root,)

    return islice(machine.symbols.closure(symbol, below), _FAR)


def _name(machine: Machine, symbol: int) -> str:
    callee = machine.symbols.method(symbol)
    return callee[0] if callee is not None else str(machine.symbols.key(symbol)[0]).partition(" ")[0]


def _operand(machine: Machine, symbol: int) -> int | None:
    callee = machine.symbols.method(symbol)
    parts = callee[1] if callee is not None else machine.symbols.parts(symbol)
    return parts[0] if parts else None


def _dimension(machine: Machine, symbol: int) -> Hashable:
    """The dimension that an operation is given, as far as it is a constant."""
    named = [value for name, value in _given(machine, symbol) if name in (None, "dim")]
    return machine.symbols.key(named[0]) if named else None


def _given(machine: Machine, symbol: int) -> list[tuple[str | None, int]]:
    """What an operation is given after its first operand, with the names of keywords."""
    given = next(iter(machine.symbols.key(symbol)[1:2]), None)
    pairs = given if isinstance(given, tuple) else ()
    return [one for one in pairs if isinstance(one, tuple) and len(one) == 2 and isinstance(one[1], int)]
