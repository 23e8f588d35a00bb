"""Reads of elements of tensors, and assignments to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from amplint.findings import Guessed
from amplint.semantics.events import COORDINATES, INTEGERS, ZEROS, Operation
from amplint.semantics.python.expressions import assign, index_key, indices
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker, Words
from amplint.semantics.tensors import clashes, flow, numbers, ranks, supposed
from amplint.semantics.tensors.foreign_limits import limit_of_another
from amplint.semantics.tensors.lists import holds_slice, is_list, stores_by_list
from amplint.semantics.tensors.masks import has_no_empty_rows
from amplint.semantics.tensors.tensors import derived, fill, used_as_tensor
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Const, Items, Tensor, Unknown, Value, number, number_operand
from amplint.source import syntax as cst
from amplint.source.source import Chunk
from amplint.torchlib.names import FLOAT16_MAX
from amplint.torchlib.promotion import SOME_DIMENSIONS


def taken(machine: Machine, state: State, node: cst.Subscript, owner: Tensor) -> Tensor:
    """The result of `owner[...]`."""
    found = indices(machine, state, node)
    keys = [None if isinstance(each, tuple) else each for each in found]
    rank = ranks.indexed(owner.rank, node, keys)
    if rank is None and any(key is not None and clashes.is_mask(machine, key) for key in keys):
        rank = SOME_DIMENSIONS
    made = derived(machine, owner, "index", rank)
    symbol = machine.symbols.intern("index", index_key(machine, found), parts=(owner.symbol,))
    return replace(made, symbol=symbol)


def _keys(machine: Machine, state: State, node: cst.Subscript) -> list[Value | None]:
    """The value of each index; None for slices and `...`."""
    return [None if isinstance(each, tuple) else each for each in indices(machine, state, node)]


def stored(
    machine: Machine,
    state: State,
    node: cst.CSTNode,
    target: cst.Subscript,
    source: cst.BaseExpression,
    value: Value,
) -> None:
    """Handle `target = source`, an assignment to elements of what may be a tensor."""
    owner, value = used_as_tensor(machine, machine.evaluate(state, target.value)), used_as_tensor(machine, value)
    if machine.assumes:
        clashes.assigned(machine, state, node, target, owner, (source, value))
    met = number_operand(value, source, target.value)
    met = met or limit_of_another(machine, state, value, source, owner, target.value)
    large = met is not None and abs(met.value) > FLOAT16_MAX
    owner = supposed.operand(machine, state, target.value, owner) if large else owner
    if not isinstance(owner, Tensor) or not (large or isinstance(value, Tensor)):
        return
    keys = _keys(machine, state, target)
    refusal, guesses = _refusal(machine, state, target, (owner, value), keys)
    places = ((target.value, owner), (source, value))
    flow.emit_operation(
        machine, state, node, "index_put", places, owner,
        in_place=True, raises=refusal, supposing=False, refused_by=guesses,
    )  # fmt: skip
    if met is None or not large:
        return
    numbers.report_out_of_range(machine, state, node, "index_put", owner, met)
    numbers.record_elements(machine, owner, met)
    index = target.slice[0].slice
    if math.isinf(met.value) and len(target.slice) == 1 and isinstance(index, cst.Index):
        mask = keys[0]
        certain = isinstance(index.value, cst.Comparison) or (isinstance(mask, Tensor) and mask.dtype == "bool")
        if mask is not None and certain and not has_no_empty_rows(machine, owner, [(index, mask)]):
            fill(state, owner, met)


def _refusal(
    machine: Machine, state: State, target: cst.Subscript, pair: tuple[Tensor, Value], keys: list[Value | None]
) -> tuple[str | None, tuple[Guessed, ...]]:
    """The error that assigning the second of `pair` to elements of the first raises, or None, and its guesses.

    Slices and numbers cast the assigned value; tensor and list indices do not, unless a mask selects where one element
    goes.
    """
    owner, value = pair
    if not isinstance(value, Tensor) or None in (owner.dtype, value.dtype) or owner.dtype == value.dtype:
        return None, ()
    refused = f"it assigns {value.dtype} to elements of a tensor of dtype {owner.dtype}"
    masks = any(isinstance(key, Tensor) and key.dtype == "bool" for key in keys)
    picks = any(
        (isinstance(key, Items) and not holds_slice(machine, key))
        or (isinstance(key, Tensor) and key.rank not in (None, 0))
        or (isinstance(key, Unknown) and is_list(machine, key.symbol))
        for key in keys
    )
    several = value.rank not in (None, 0)
    if (picks and not masks) or (masks and several):
        return refused, ()
    unseen = (one for one, key in zip(target.slice, keys, strict=True) if isinstance(key, Unknown))
    found = [guesses for one in unseen if (guesses := clashes.selects(machine, state, one)) is not None]
    return (refused, min(found, key=len)) if found and several else (None, ())


def put(machine: Machine, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
    """Update the traits of a tensor of zeros after an assignment; integers assigned to columns are coordinates."""
    if not isinstance(owner, Tensor) or ZEROS not in owner.traits or not isinstance(target.value, cst.Name):
        return
    constant = number(value)
    whole = isinstance(value, Tensor) and INTEGERS in value.traits
    traits = owner.traits
    if whole and machine.assumes:
        columns = len(target.slice) > 1 and isinstance(_keys(machine, state, target)[-1], Const)
        traits = traits | ({INTEGERS, COORDINATES} if columns else {INTEGERS})
    elif not whole and not (constant is not None and float(constant).is_integer()):
        traits = traits - {ZEROS}
    assign(machine, state, target.value, replace(owner, traits=traits))


class StoredItems(Tracker):
    """Tracks assignments to elements of tensors."""

    def words(self, chunks: Sequence[Chunk]) -> Words:
        """The calls that make lists by which elements of tensors are assigned."""
        stores = Operation.kind in self.machine.wanted and any(map(stores_by_list, chunks))
        return Words(calls=frozenset({"list", "sorted"}) if stores else frozenset())

    def item_set(self, state: State, target: cst.Subscript, owner: Value, value: Value) -> None:
        """Handle `tensor[...] = value` and `tensor[...] += value`."""
        put(self.machine, state, target, owner, value)

    def assigned(self, state: State, node: cst.Assign, target: cst.BaseExpression, value: Value) -> None:
        """Handle `tensor[...] = value`."""
        if isinstance(target, cst.Subscript):
            stored(self.machine, state, node, target, node.value, value)
