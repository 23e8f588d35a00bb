"""Regions that switch autocast off: what comes into them from outside stays half until it is converted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amplint.semantics.events import CastBack, StaysHalf
from amplint.semantics.memory.call_index import CallIndex
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.python.truth import symbol_of
from amplint.semantics.regions.innermost import innermost
from amplint.semantics.regions.tracker import Regions
from amplint.semantics.tensors.devices import common, reaches
from amplint.semantics.tensors.masks import minds_dtypes
from amplint.semantics.tensors.tensors import Tensors, converts_to, is_data, is_number, tensor
from amplint.semantics.values.arguments import Arguments
from amplint.semantics.values.state import Region, State
from amplint.semantics.values.values import FALSE, Autocast, Class, Tensor, Unknown, Value
from amplint.source import syntax as cst
from amplint.source.tree import walk
from amplint.torchlib.catalogue import having
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import FOLLOWS_INPUT, words

PRECISE = words(
    "baddbmm bmm binary_cross_entropy binary_cross_entropy_with_logits cdist cosine_similarity cross_entropy einsum "
    "exp exp_ kl_div l1_loss log log10 log1p log2 log_ log_softmax logaddexp logit logsigmoid logsumexp matmul "
    "mean mm mse_loss nll_loss normalize reciprocal rsqrt sigmoid sigmoid_ smooth_l1_loss softmax softplus sqrt sqrt_ "
    "std var"
)
"""Operations on floating values whose precision is what a region that switches autocast off is for."""
_ORIGINS = words("parameter part either fresh")
"""Kinds of symbols whose dtype a region in the caller can decide; a call that is not seen can end in float32."""
PRODUCTS = having("matrices") - {"linear"}
Operand = tuple[cst.BaseExpression, Value]


_SWITCHED_OFF = re.compile(r"enabled\s*=\s*False")


def expects_region(method: cst.FunctionDef) -> bool:
    """Whether a method switches autocast off itself: other files call it where autocast is on."""
    return any(
        isinstance(node, cst.Arg)
        and node.keyword is not None
        and node.keyword.value == "enabled"
        and isinstance(node.value, cst.Name)
        and node.value.value == "False"
        for node in walk(method)
    )


def lifted(machine: Machine, state: State, node: cst.Call, owner: Value, name: str, arguments: Arguments) -> None:
    """`owner.float()` or its kind: in a region that is off it shows that what comes into the region is half."""
    region = _switched_off(state)
    if region is None or converts_to(machine, name, arguments)[1] != "float32":
        return
    if _is_outside(machine, region, symbol_of(machine, owner)):
        machine[CallIndex].index.lifted.setdefault(machine.statement or node, node)


def computed(machine: Machine, state: State, node: cst.CSTNode, op: str, operands: Iterable[Operand]) -> None:
    """`op` runs on `operands`: tell where all of them are half though a region that is off was to prevent that."""
    if op not in PRECISE:
        return
    tensors = [(place, tensor(machine, value)) for place, value in operands if _may_be_tensor(machine, value)]
    region = _switched_off(state)
    if region is None:
        _cast_back(machine, state, node, op, tensors)
    elif tensors and all(_stays_half(machine, region, value) for _, value in tensors):
        if any(minds_dtypes(machine, function) for function in machine.calls):
            return
        place, operand = tensors[0]
        context, off_with = region.context, region.entered_by
        certain = operand.dtype in HALF_DTYPES
        given = _is_parameter(machine, operand.symbol) and isinstance(off_with, cst.With)
        machine.emit(
            state, StaysHalf, node, op=op, place=place, first=_first(off_with, place), certain=certain, given=given,
            off=context, off_with=off_with, half=operand.why_half,
        )  # fmt: skip


def _cast_back(
    machine: Machine, state: State, node: cst.CSTNode, op: str, tensors: list[tuple[cst.BaseExpression, Tensor]]
) -> None:
    """A product runs under autocast on operands that were converted to float32 for it: autocast undoes that."""
    region, _ = innermost(machine, state)
    if op not in PRODUCTS or region is None or not tensors:
        return
    if not reaches(region.devices, common(value for _, value in tensors)):
        return
    before = [_converted_from(machine, value) for _, value in tensors]
    if None not in before and any(dtype in HALF_DTYPES for dtype in before):
        machine.emit(state, CastBack, node, op=op)


def _converted_from(machine: Machine, value: Tensor) -> str | None:
    """What `value` was before it was converted to float32, "" for something unknown, None where it was not."""
    root = _root(machine, value.symbol)
    return machine[Tensors].cast_from.get(root) if value.dtype == "float32" else None


def _may_be_tensor(machine: Machine, value: Value) -> bool:
    return isinstance(value, (Tensor, Unknown)) and not is_number(machine, value)


def _switched_off(state: State) -> Region | None:
    regions = [region for region in state.regions if isinstance(region.context, Autocast)]
    return regions[-1] if regions and regions[-1].context.enabled == FALSE else None  # type: ignore[union-attr]


def is_switched_off(state: State) -> bool:
    """Whether the innermost region switches autocast off."""
    return _switched_off(state) is not None


def _stays_half(machine: Machine, region: Region, value: Tensor) -> bool:
    """Whether `value` is half, or came into the region without being converted."""
    if value.dtype is not None:
        return value.dtype in HALF_DTYPES
    root = _root(machine, value.symbol)
    return (
        machine.symbols.key(root)[0] in _ORIGINS
        and _is_outside(machine, region, root)
        and not is_data(machine, root)
        and not _was_converted(machine, root)
    )


def _was_converted(machine: Machine, symbol: int) -> bool:
    """Whether anything that went into a value was given a dtype."""
    todo, seen = [symbol], set[int]()
    while todo:
        current = todo.pop()
        key = machine.symbols.key(current)
        if key[0] in ("cast", "converted"):
            return True
        seen.add(current)
        callee = machine.symbols.callee(current)
        behind = (*machine.symbols.parts(current), *(() if callee is None else (callee,)))
        todo += [part for part in behind if part not in seen]
    return False


def _is_parameter(machine: Machine, symbol: int) -> bool:
    return machine.symbols.key(_root(machine, symbol))[0] == "parameter"


def _is_outside(machine: Machine, region: Region, symbol: int) -> bool:
    """Whether a value was there before the region first began: symbols are numbered as they come up."""
    return _is_parameter(machine, symbol) or symbol < machine[Regions].entered_at.get(region.entered_by, 0)


def _root(machine: Machine, symbol: int) -> int:
    """The tensor whose dtype decides that of `symbol`: operations that keep the dtype are followed back."""
    while True:
        key, parts = machine.symbols.key(symbol), machine.symbols.parts(symbol)
        if key[0] in FOLLOWS_INPUT or key[0] in ("index", "to") or key[:2] in (("attribute", "T"), ("attribute", "mT")):
            symbol = parts[0]
            continue
        callee = machine.symbols.callee(symbol)
        method = machine.symbols.key(callee) if callee is not None else ()
        if callee is None or method[0] != "attribute" or str(method[1]) not in FOLLOWS_INPUT:
            return symbol
        symbol = machine.symbols.parts(callee)[0]


def _first(region: cst.CSTNode, place: cst.BaseExpression) -> cst.BaseExpression:
    """Where the variable in `place` is first mentioned in the region."""
    names = _names(place)
    variable = next(names, None)
    body = region.body if isinstance(region, cst.With) else place
    return next((name for name in _names(body) if variable is not None and name.value == variable.value), place)


def _names(node: cst.CSTNode) -> Iterator[cst.Name]:
    return (inner for inner in walk(node) if isinstance(inner, cst.Name))


class Subregions(Tracker):
    """Follows methods that switch autocast off themselves."""

    def also_from_outside(self, cls: Class, method: cst.FunctionDef) -> bool:
        """Whether other files call the method where autocast is on."""
        return _SWITCHED_OFF.search(cls.chunk.text) is not None and expects_region(method)
