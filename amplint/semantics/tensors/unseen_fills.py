"""Fills in unseen code: functions that fill by a mask, and nearly infinite constants of other files."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amplint.semantics.events import FarConstant, TensorOp
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Call, Tracker, Words
from amplint.semantics.reading.scopes import dotted, last_name
from amplint.semantics.tensors.evidence import evidence
from amplint.semantics.tensors.tensors import tensor, tensor_guesses
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Number, Ref, Tensor, Unknown, Value, number_operand
from amplint.semantics.words import FILLS_BY_MASK, MASK, NEARLY_INFINITE
from amplint.source import syntax as cst
from amplint.source.remembered import cached_per_chunk
from amplint.source.source import Chunk
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import FLOAT16_MAX

_FILLS = frozenset({"masked_fill", "masked_fill_"})
_SAME = operations_with("view") | {"bool", "logical_not"}
"""Methods of a mask whose result is a mask."""
_KNOWN = ("torch.", "builtins.", "numpy.", "math.")


def filled(machine: Machine, state: State, call: Call) -> None:
    """Report a call of an unseen function that fills by a mask with a number beyond float16's range."""
    name = (dotted(call.node.func) or "").rpartition(".")[2]
    library = isinstance(call.callee, Ref) and call.callee.name.startswith(_KNOWN)
    if library or name in _FILLS or FILLS_BY_MASK.search(name) is None:
        return
    given = call.arguments.given
    number = next(filter(None, (_out_of_range_number(one.value, one.node.value) for one in given)), None)
    masks = [one for one in given if MASK.search(last_name(_viewed(one.node.value)))]
    others = [one for one in given if isinstance(one.value, (Tensor, Unknown)) and one not in masks]
    if number is None or not masks or not others:
        return
    operand = tensor(machine, others[0].value)
    half = evidence(machine, state, operand)
    if half is not None and "float16" in half.dtypes:
        guesses = (*FILLS_BY_MASK.guesses(name), *tensor_guesses(machine, operand.symbol))
        machine.emit(
            state, TensorOp, call.node, op="masked_fill", tensor=operand, number=number, why=half.text, half=half.node,
            assumed=True, guesses=guesses,
        )  # fmt: skip


def _viewed(node: cst.BaseExpression) -> cst.BaseExpression:
    """What `node` is a view or the inverse of, element by element: `mask` for `~mask[:, None]`."""
    while True:
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.UnaryOperation):
            node = node.expression
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _SAME:
            node = node.func.value
        else:
            return node


def _out_of_range_number(value: Value, node: cst.BaseExpression) -> Number | None:
    met = number_operand(value, node)
    return met if met is not None and abs(met.value) > FLOAT16_MAX and not math.isinf(met.value) else None


def put(machine: Machine, state: State, node: cst.CSTNode, source: cst.BaseExpression, value: Value) -> None:
    """Report `source`, written into elements of `value`, if it is a nearly infinite constant of another file."""
    named = source.expression if isinstance(source, cst.UnaryOperation) else source
    name = dotted(named)
    known = machine.lookup(state, name.partition(".")[0]) if name is not None else None
    if name is None or NEARLY_INFINITE.search(name) is None or not isinstance(known, Ref):
        return
    half = evidence(machine, state, tensor(machine, value)) if isinstance(value, (Tensor, Unknown)) else None
    if half is not None and "float16" in half.dtypes and not known.name.startswith(_KNOWN):
        machine.emit(
            state, FarConstant, node, name=name, place=source, assumed=True, guesses=NEARLY_INFINITE.guesses(name)
        )


@cached_per_chunk
def _constants(chunk: Chunk) -> frozenset[str]:
    return frozenset(word for word in chunk.words if "_" in word and word.isupper() and NEARLY_INFINITE.search(word))


class UnseenFills(Tracker):
    """Tracks fills of tensors where the function or the number is in unseen code."""

    methods = _FILLS

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The names of nearly infinite constants."""
        if not self.machine.assumes or FarConstant.kind not in self.machine.wanted:
            return Words()
        return Words(frozenset().union(*map(_constants, chunks)))

    def unseen(self, state: State, call: Call) -> None:
        """Check the arguments of an unseen function that may fill by a mask."""
        if self.machine.assumes and TensorOp.kind in self.machine.wanted and call.entered is None:
            filled(self.machine, state, call)

    def method(self, state: State, call: Call) -> Value | None:
        """Handle `scores.masked_fill(mask, -NEAR_INF)`."""
        value = call.arguments.get("value", 1)
        if self.machine.assumes and FarConstant.kind in self.machine.wanted and value is not None and call.owner:
            put(self.machine, state, call.node, value.node.value, call.owner)
        return None

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Handle `scores[mask] = -NEAR_INF`."""
        if isinstance(target, cst.Subscript) and self.machine.assumes and FarConstant.kind in self.machine.wanted:
            put(self.machine, state, node, node.value, self.machine.evaluate(state, target.value))
