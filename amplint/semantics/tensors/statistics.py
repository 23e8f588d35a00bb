"""Normalisation written out with statistics that a module holds, as in frozen batch normalisation.

Autocast leaves parameters and buffers alone, so that the factor is float32, and with it the product with a half input.
"""

from __future__ import annotations

from collections.abc import Sequence

from amplint.semantics.events import Clash, Operand
from amplint.semantics.python.machine import Machine
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.tensors import provenance
from amplint.semantics.tensors.halves import is_computed, is_unconverted
from amplint.semantics.tensors.masks import branches_on_dtypes
from amplint.semantics.tensors.tensors import runs_layers
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Tensor, Unknown
from amplint.source import syntax as cst
from amplint.torchlib.policy import words

_ROOTS = words("rsqrt sqrt")
_SHAPES = words("reshape view unsqueeze index")
_CONVERSIONS = words("cast converted")


def ran(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Sequence[Operand]) -> None:
    """Report a product of an argument of the function and a factor computed from statistics."""
    if op not in ("mul", "div") or len(operands) != 2 or Clash.kind not in machine.wanted:
        return
    if (
        innermost(machine, state)[0] is not None
        or not any(map(runs_layers, machine.calls))
        or branches_on_dtypes(machine)
    ):
        return
    for given, factor in (operands, operands[::-1]):
        if _is_of_statistics(machine, factor) and is_unconverted(machine, given) and _is_given(machine, given):
            machine.emit(state, Clash, node, op=op, steady=factor, half=given, refusal=None, kept=True, assumed=True)
            return


def _is_given(machine: Machine, operand: Operand) -> bool:
    return isinstance(operand.value, (Tensor, Unknown)) and is_computed(machine, operand.value.symbol)


def _is_of_statistics(machine: Machine, operand: Operand) -> bool:
    """Whether this is a factor per channel, computed from tensors of the module alone by a root."""
    if not isinstance(operand.value, Tensor):
        return False
    symbols = [operand.value.symbol, *machine.symbols.derivation(operand.value.symbol)]
    keys = [machine.symbols.key(symbol) for symbol in symbols]
    names = {str(key[0]) for key in keys}
    names |= {callee[0] for symbol in symbols if (callee := machine.symbols.method(symbol)) is not None}
    if names.isdisjoint(_ROOTS) or names.isdisjoint(_SHAPES) or not names.isdisjoint(_CONVERSIONS | {"parameter"}):
        return False
    leaves = [symbol for symbol in symbols if machine.symbols.key(symbol)[0] == "fresh"]
    return bool(leaves) and all(provenance.is_parameter_or_buffer(machine, symbol) for symbol in leaves)
