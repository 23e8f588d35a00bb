"""The result dtypes of operations from those of their operands, with and without autocast.

Source: the kernels of torch 2.13; tests/test_operations.py and tests/test_dtype_flow.py run them.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from amplint.records import dataclass
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import HALF_DTYPES
from amplint.torchlib.policy import BOOLEAN, FOLLOWS_INPUT, INTEGER, KEEPS, Regime, Treatment, treatment
from amplint.torchlib.promotion import (
    FLOATING,
    INTEGRAL,
    NUMBER,
    Operand,
    Typed,
    can_hold,
    possible_operands,
    promote,
    result_type,
)

POSSIBILITIES = 128
"""The limit of dtype combinations for which the outcome is computed."""
ELEMENTWISE, FLOATING_ELEMENTWISE = operations_with("promotes"), operations_with("promotes-to-floating")
"""Operations that promote their operands, the latter integers to floating."""
ALIKE, PROMOTED, EXPANDED = operations_with("alike"), operations_with("promotes-floating"), operations_with("expands")
JOINS, PRODUCTS_INSIDE, NOT_IN_HALF = (
    operations_with("of-cat"),
    operations_with("of-products"),
    operations_with("no-half-on-cpu"),
)
FROM_FIRST, NEEDS_FLOATING, NOT_NARROWING = (
    operations_with("of-first"),
    operations_with("needs-floating"),
    operations_with("widens-only"),
)
COUNTS, INTEGERS_TOO = operations_with("counts"), KEEPS | operations_with("keeps-integers")
FILLS, INTO_ANY = operations_with("fills"), operations_with("into-any")
OUT_ALIKE, OUT_OF_ANY = operations_with("out-alike"), operations_with("out-any")
NORMS = operations_with("normalises")
CLASSIFIES = frozenset({"cross_entropy", "nll_loss"})
"""Losses whose targets are class indices or probabilities; weights of classes have to have the dtype of the input."""
ATTENTION = "scaled_dot_product_attention"
MASK_REFUSED = "its mask is float32, which its CUDA kernels refuse or misread beside half queries"
"""The CPU takes such a mask since 2.5; before, it was refused everywhere."""
_DECIDED_OTHERWISE = ELEMENTWISE.union(FLOATING_ELEMENTWISE, ALIKE, PROMOTED, EXPANDED, FILLS, COUNTS, BOOLEAN, INTEGER)
KNOWN = FOLLOWS_INPUT.union(
    *treatment().lower.values(),
    *treatment().float32.values(),
    *treatment().promote.values(),
    ELEMENTWISE,
    FLOATING_ELEMENTWISE,
    ALIKE,
    PROMOTED,
    FILLS,
    COUNTS,
)
"""Every operation whose result dtype is known."""
FIRST_DECIDES = KNOWN - _DECIDED_OTHERWISE
"""Operations whose result outside of any region has the dtype of their first operand, where that is floating."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an operation: the possible dtypes of its result, None for any, or why PyTorch raises.

    Dtypes are `supposed` if the outcome would differ for an operand of unknown dtype that autocast does not cast; an
    error is supposed if the dtype of an operand is.
    """

    dtypes: frozenset[str] | None = None
    refusal: str | None = None
    supposed: bool = False


UNKNOWN = Outcome()
_BOOL = frozenset({"bool"})
_ANYTHING = frozenset({*FLOATING, "bool", "int64"})


class Refused(Exception):
    """PyTorch raises for these dtypes."""


class Unsettled(Exception):
    """The outcome depends on more than dtypes."""


def outcome(
    op: str,
    operands: Sequence[Typed],
    regime: Regime | None,
    *,
    asked: str | None = None,
    in_place: bool = False,
    out: Typed | None = None,
) -> Outcome:
    """The outcome of `op` on `operands` under the active autocast, None for none.

    `asked` is its `dtype` argument. An in-place operation writes its first operand, and others write `out`, if given.
    """
    if op in BOOLEAN | INTEGER and not in_place and out is None:
        return Outcome(frozenset({"bool" if op in BOOLEAN else "int64"}))
    here = regime if not in_place and out is None else None
    of_parts = op == "local_response_norm" and here is not None and (operands[0].rank or 0) < 4
    if op not in KNOWN or of_parts:  # three-dimensional norms use other kernels
        return UNKNOWN
    if asked is not None and operands[0].dtypes is None and op not in NOT_NARROWING and not in_place and out is None:
        return Outcome(frozenset({asked}))
    devices = frozenset(here.devices or ("cpu", "cuda")) if here is not None else None
    lows = frozenset(here.dtypes) if here is not None and here.dtypes else None
    around = _Around(devices, lows, regime.version if regime is not None else None)
    found, fails = _outcome(
        op, tuple(_guessed(op, operands, around, kept=in_place or out is not None)), around, asked, in_place, out
    )
    if found.refusal and op == "linear" and _adds_bias_apart(operands):
        return UNKNOWN
    if found == UNKNOWN or all(operand.dtypes is not None and not operand.supposed for operand in operands):
        return found
    anything = tuple(Typed(_ANYTHING, o.rank) if o.dtypes is None or o.supposed else o for o in operands)
    other, other_fails = _outcome(op, anything, around, asked, in_place, out)
    if other == found and (other_fails == fails or not any(operand.supposed for operand in operands)):
        return found
    return replace(found, supposed=True)


@dataclass(frozen=True, slots=True)
class _Around:
    """The active autocast: its possible device types and dtypes, None for none, and PyTorch's version."""

    devices: frozenset[str] | None
    dtypes: frozenset[str] | None
    version: str | None


@functools.lru_cache(maxsize=4096)
def _outcome(
    op: str, operands: tuple[Typed, ...], around: _Around, asked: str | None, in_place: bool, out: Typed | None
) -> tuple[Outcome, bool]:
    """The outcome of `op`, and whether PyTorch raises for some possible dtypes of the operands."""
    table = treatment(around.version)
    devices: Sequence[str | None] = sorted(around.devices) if around.devices is not None else [None]
    lows: Sequence[str | None] = sorted(around.dtypes) if around.dtypes is not None else [None]
    choices = [possible_operands(operand) for operand in operands]
    if out is not None:
        choices.append(possible_operands(out))
    if not 0 < math.prod(map(len, choices)) * len(devices) * len(lows) <= POSSIBILITIES:
        return UNKNOWN, False
    results, refusal = set[str](), None
    for chosen in itertools.product(*choices):
        operation = chosen[:-1] if out is not None else chosen
        kept = chosen[-1].dtype if out is not None else chosen[0].dtype if in_place else None
        for device, low in itertools.product(devices, lows):
            try:
                result = _cast(op, operation, device, low, table) if asked is None else _asked(op, operation, asked)
                results.add(
                    result if kept is None else _dtype_after_write(op, operation, kept, result, out is not None)
                )
            except Refused as reason:
                refusal = str(reason)
            except Unsettled:
                return UNKNOWN, False
    return Outcome(frozenset(results)) if results else Outcome(None, refusal), refusal is not None


def _adds_bias_apart(operands: Sequence[Typed]) -> bool:
    """Whether `linear` may add the bias after the product, so that their dtypes need not agree."""
    ranks = [operand.rank for operand in operands]
    return ranks[2:] not in ([], [1]) or (len(ranks) > 2 and ranks[0] not in (1, 2))


def _guessed(op: str, operands: Sequence[Typed], around: _Around, *, kept: bool) -> list[Typed]:
    """`operands`, with guesses for unknown dtypes that hardly matter.

    What autocast casts is equivalent to float32; an operand beside a float32 tensor does not widen the result. A
    zero-dimensional operand decides only if no other has dimensions, or if the result's dtype is `kept`.
    """
    alone = kept or all(operand.rank in (0, NUMBER) for operand in operands)
    table = treatment(around.version)
    cast = (
        table.lower.get(device, frozenset()) | table.float32.get(device, frozenset())
        for device in around.devices or ("",)
    )
    if all(op in listed for listed in cast):
        guess: frozenset[str] | None = frozenset({"float32"})
    elif op in ELEMENTWISE | FLOATING_ELEMENTWISE and any(_is_wide(operand, alone=alone) for operand in operands):
        guess = frozenset({"float16", "bfloat16", "float32"})
    else:
        guess = None
    if op == ATTENTION:  # most masks are bool, and do not affect the result's dtype
        operands = [*operands[:3], *(replace(mask, dtypes=mask.dtypes or _BOOL) for mask in operands[3:])]
    return [Typed(guess, operand.rank) if operand.dtypes is None else operand for operand in operands]


def _is_wide(operand: Typed, *, alone: bool) -> bool:
    """Whether the operand widens others; numbers do not, and zero-dimensional tensors only each other."""
    wide = operand.dtypes is not None and operand.dtypes <= {"float32", "float64"} and operand.rank != NUMBER
    return wide and (alone or operand.rank != 0)


def _asked(op: str, operands: Sequence[Operand], asked: str) -> str:
    """The dtype of the result if `asked` is the `dtype` argument."""
    first = operands[0].dtype
    if op in NOT_NARROWING and asked in FLOATING and promote(first, asked) != asked:
        raise Refused(f"{asked} does not hold its input, which is {first}")
    return asked


def _dtype_after_write(op: str, operands: Sequence[Operand], kept: str, result: str, given_as_out: bool) -> str:
    """The dtype of a tensor of dtype `kept` after a result of dtype `result` is written to it."""
    if op in (OUT_OF_ANY if given_as_out else INTO_ANY):
        return kept
    strict = op in OUT_ALIKE or (op == "clamp" and all(operand.is_number for operand in operands[1:]))
    if given_as_out and strict and kept != result:
        raise Refused(f"its result is {result} and `out` is {kept}")
    if not can_hold(kept, result):
        raise Refused(f"a result of dtype {result} does not fit into a tensor of dtype {kept}")
    if op in ALIKE and kept != result:
        raise Refused(f"its output is {kept} and its operands are {result}")
    return kept


def _cast(op: str, operands: Sequence[Operand], device: str | None, low: str | None, table: Treatment) -> str:
    """The dtype of the result under the autocast of `device` with dtype `low`, None for none."""
    wanted = None
    if device is not None:
        listed = "cat" if op in JOINS else op
        if device not in table.lower:
            raise Unsettled
        if listed in table.banned[device]:
            raise Refused("autocast does not let it run")
        inside = device == "cpu" and op in PRODUCTS_INSIDE
        if inside:
            _dtype_without_autocast(op, operands, device)
        if listed in table.promote[device]:
            wanted = _widest(operands, low)
        elif listed in table.lower[device] or inside:
            if low is None:
                raise Unsettled
            wanted = low
        elif listed in table.float32[device]:
            wanted = "float32"
    if wanted is not None:
        operands = [Operand(wanted, o.category) if o.is_castable else o for o in operands]
    return _dtype_without_autocast(op, operands, device)


def _widest(operands: Sequence[Operand], low: str | None) -> str | None:
    """The dtype to which autocast with dtype `low` promotes operands: it knows no half dtype but its own."""
    current = low
    for operand in operands:
        if operand.is_castable and current != "float32" and operand.dtype != current:
            if operand.dtype != "float32":
                if low is None:
                    raise Unsettled
                raise Refused(f"autocast in {low} does not promote {operand.dtype}")
            current = "float32"
    return current


def _dtype_without_autocast(op: str, operands: Sequence[Operand], device: str | None) -> str:
    """The dtype of the result without autocast."""
    tensors = [operand for operand in operands if not operand.is_number]
    kinds = {operand.dtype for operand in tensors}
    if not tensors:
        raise Unsettled
    if op in ELEMENTWISE | FLOATING_ELEMENTWISE:
        result = result_type(operands)
        if result in INTEGRAL and op in FLOATING_ELEMENTWISE:
            return "float32"
        if op == "sub" and result == "bool":
            raise Refused("subtraction of two bool tensors")
        return result
    first = tensors[0].dtype
    if first in INTEGRAL and op in NEEDS_FLOATING | PROMOTED:
        raise Unsettled
    if op in NOT_IN_HALF and device != "cuda" and kinds & HALF_DTYPES:
        raise Unsettled
    if op == "nll_loss" or (op in CLASSIFIES and tensors[1:] and tensors[1].dtype in INTEGRAL):
        if len(kinds - INTEGRAL) > 1:
            raise Refused(f"its input is {first} and its weights are not")
        return first
    if op in EXPANDED:
        return result_type([Operand.dimensioned(operand.dtype) for operand in tensors])
    if op in PROMOTED:
        return result_type(operands)
    if op in FROM_FIRST:
        return first
    if op == "conv1d" and len(kinds) > 1 and len({operand.dtype for operand in tensors[:2]}) == 1:
        raise Unsettled  # whether the dtype of the bias has to agree depends on the kernel
    if op == ATTENTION and len(tensors) > 3:
        *tensors, mask = tensors
        kinds = {operand.dtype for operand in tensors}
        if mask.dtype not in ("bool", "float32", first):
            raise Refused(f"its mask is {mask.dtype} and its query is {first}")
    if op in ALIKE:
        if len(kinds) > 1:
            raise Refused(f"its operands are {_listed(operand.dtype for operand in tensors)}")
        return first
    if op in NORMS and len(kinds) > 1:
        mixed = {operand.dtype for operand in tensors[1:]} == {"float32"} and first in HALF_DTYPES
        if not mixed and device == "cpu" and op != "instance_norm":
            raise Refused(f"its input is {first} and its weights are not")
        if not mixed or (device != "cpu" and op != "batch_norm"):
            raise Unsettled
        return first
    if op == "cosine_embedding_loss":
        return result_type(operands[:2])
    if op == "binary_cross_entropy_with_logits" and len(tensors) > 1:
        return tensors[1].dtype
    if len({kind for kind in kinds if kind not in INTEGRAL}) > 1:
        raise Unsettled
    if first in INTEGRAL:
        if op == "square" and first == "bool":
            return "int64"
        return first if op in INTEGERS_TOO else "int64" if op in COUNTS else "float32"
    return first


def _listed(dtypes: Iterable[str]) -> str:
    found = list(dict.fromkeys(dtypes))
    return " and ".join((", ".join(found[:-1]), found[-1])) if len(found) > 1 else found[0]


def known(dtypes: Set[str] | None) -> str | None:
    """The only dtype of a set, None for several."""
    return next(iter(dtypes)) if dtypes is not None and len(dtypes) == 1 else None
