"""Casts to half."""

from __future__ import annotations

import itertools

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.semantics.events import INTEGERS, HalfCast, TimestepsCast
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.models import models
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.seams import seams
from amplint.semantics.tensors import subregions, sums
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Ref, Tensor, Unknown, Value
from amplint.semantics.words import DTYPE, EMBEDS_TIMESTEPS, NOISE_LEVELS, TIMESTEPS
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_file
from amplint.source.source import Source
from amplint.source.tree import every
from amplint.torchlib.methods import CASTS
from amplint.torchlib.names import DTYPES, HALF_DTYPES
from amplint.torchlib.promotion import INTEGRAL


class HalfCasts(Tracker):
    """Tracks casts to half."""

    triggers = frozenset({"half", "float16", "bfloat16"})
    methods = frozenset({*CASTS, "to", "type"})

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `x.half()` and the like."""
        halves = self.machine[CallIndex].index.halves
        if call.name == "half" and call.node not in halves:
            halves.append(call.node)
        if call.owner is not None:
            _emit_half_cast(self.machine, state, call.node, call.owner, call.name, call.arguments)
        return None


def _emit_half_cast(
    machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments
) -> None:
    """Report `x.half()` and the like, where the dtype is explicit and `x` is no model."""
    named = arguments.values if name in ("to", "type") else []
    dtype = CASTS.get(name) or next((DTYPES.get(v.name) for v in named if isinstance(v, Ref)), None)
    subregions.lifted(machine, state, node, owner, name, arguments)
    seams.report_late_cast(machine, state, node, dtype)
    if dtype in HALF_DTYPES and node not in machine[CallIndex].index.lowered:
        machine[CallIndex].index.lowered.append(node)
    sums.stored(machine, state, node, dtype)
    if dtype is None and name == "to":
        _report_alike(machine, state, node, owner, arguments)
    if dtype not in HALF_DTYPES or not isinstance(owner, (Tensor, Unknown)):
        return
    if isinstance(node.func, cst.Attribute) and not models.is_model(machine, state, owner, node.func.value):
        machine.emit(state, HalfCast, node, dtype=dtype, stored=_is_stored(machine, node, owner))
        counted = isinstance(owner, Tensor) and INTEGERS in owner.traits
        timesteps = _timesteps(machine, node, owner) if dtype == "bfloat16" and not counted else None
        if timesteps is not None:
            machine.emit(state, TimestepsCast, node, guesses=timesteps)


def _report_alike(machine: Machine, state: State, node: cst.Call, owner: Value, arguments: Arguments) -> None:
    """Emit `TimestepsCast` for timesteps that take over the dtype of a tensor, in a file that names bfloat16."""
    symbols = (value.symbol for value in arguments.values if isinstance(value, Unknown))
    alike = any(machine.symbols.key(symbol)[:2] == ("attribute", "dtype") for symbol in symbols) or (
        len(node.args) == 1 and DTYPE.search(last_name(node.args[0].value) or "") is not None
    )
    counted = isinstance(owner, Tensor) and (INTEGERS in owner.traits or owner.dtype in INTEGRAL)
    if not alike or counted or not isinstance(owner, (Tensor, Unknown)) or not _names_bfloat16(machine.program.main):
        return
    timesteps = _timesteps(machine, node, owner)
    own = any(
        TIMESTEPS.search((dotted(one.value) or "").removesuffix(".dtype").rpartition(".")[2]) for one in node.args
    )
    if timesteps is not None and not own:
        machine.emit(state, TimestepsCast, node, guesses=timesteps, premises=(Premise.BFLOAT16_CHOSEN,))


@cached_per_file
def _names_bfloat16(source: Source) -> bool:
    return "bf16" in source.text or "bfloat16" in source.text


def _timesteps(machine: Machine, node: cst.Call, owner: Tensor | Unknown) -> tuple[Guessed, ...] | None:
    """The guesses by which a cast of `owner` converts timesteps; None if it does not seem to.

    What it is called on has such a name, or the variable that keeps its result, which may also be what an embedding of
    timesteps is given. Sines and cosines are an embedding already, and noise levels are fractions.
    """
    if any(machine.symbols.involves(owner.symbol, waves) for waves in ("sin", "cos")):
        return None
    source = machine.program.source_of(node)
    above = source.parent(node) if source is not None else None
    kept = above.targets[0].target if isinstance(above, cst.Assign) and len(above.targets) == 1 else None
    converted = node.func.value if isinstance(node.func, cst.Attribute) else None
    if converted is not None and (_is_one_element(converted) or NOISE_LEVELS.search(_first_name(converted))):
        return None
    names = ((dotted(one) or "").rpartition(".")[2] for one in (converted, kept) if one is not None)
    for name in filter(TIMESTEPS.search, names):
        return TIMESTEPS.guesses(name)
    used = _given(machine.calls[-1]) if machine.calls else {}
    callees = used.get(kept.value, ()) if isinstance(kept, cst.Name) else ()
    return next((EMBEDS_TIMESTEPS.guesses(name) for name in callees if EMBEDS_TIMESTEPS.search(name)), None)


@cached_per_file
def _given(function: cst.CSTNode) -> dict[str, list[str]]:
    """Variable -> the last names of what a function calls with it as the first argument."""
    found: dict[str, list[str]] = {}
    for call in every(function, cst.Call):
        if call.args and isinstance(call.args[0].value, cst.Name):
            found.setdefault(call.args[0].value.value, []).append(last_name(call.func) or "")
    return found


def _first_name(node: cst.BaseExpression) -> str:
    """The variable or attribute that a chain of method calls begins with, empty for another expression."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        node = node.func.value
    return (dotted(node) or "").rpartition(".")[2]


def _is_one_element(node: cst.BaseExpression) -> bool:
    """Whether this is the element of a sequence at a written position, perhaps behind calls of methods."""
    while isinstance(node, (cst.Attribute, cst.Call)):
        node = node.value if isinstance(node, cst.Attribute) else node.func
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    return isinstance(value.expression if isinstance(value, cst.UnaryOperation) else value, cst.Integer)


def _is_stored(machine: Machine, node: cst.Call, owner: Value) -> bool:
    """Whether the receiver comes from `cpu()`, or the result goes there by the next methods of the chain."""
    symbol: int | None = symbol_of(machine, owner)
    while symbol is not None:
        method = machine.symbols.method(symbol)
        if (method[0] if method is not None else machine.symbols.key(symbol)[0]) == "cpu":
            return True
        symbol = next(iter(method[1] if method is not None else machine.symbols.parts(symbol)), None)
    source = machine.program.source_of(node)
    chain = itertools.takewhile(_continues, source.ancestors(node)) if source is not None else ()
    return any(isinstance(one, cst.Attribute) and one.attr.value in ("cpu", "numpy") for one in chain)


def _continues(node: cst.CSTNode) -> bool:
    """Whether a node belongs to a chain of method calls."""
    return isinstance(node, (cst.Attribute, cst.Call))
