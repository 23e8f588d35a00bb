"""The effect of autocast on the result dtypes of the operations that the interpreter knows by name.

Source: the tables in torchlib/autocast, by name. tests/test_policy.py runs every operation of these under autocast.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Set

from amplint.records import dataclass
from amplint.torchlib.catalogue import fact_values, in_place, operations_with
from amplint.torchlib.tables import policy


def words(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


LOSSES = (
    operations_with("loss", "cast")
    - operations_with("no-half")
    - words("binary_cross_entropy multilabel_soft_margin_loss")
)
"""Loss functions, computed in float32 by the autocast of every device."""
_MADE_OF = {op: operators.split(",") for op, operators in fact_values("operators").items()}
"""Operation -> the dispatcher's operators that determine its result, if they have other names."""


@dataclass(frozen=True)
class Treatment:
    """Device type -> operations, by their treatment under autocast in a version of PyTorch.

    The result of `lower` has the region's dtype, that of `float32` is float32 (float64 for float64); operands are
    promoted to the widest dtype among them for `promote`, and `banned` raises.
    """

    lower: Mapping[str, frozenset[str]]
    float32: Mapping[str, frozenset[str]]
    promote: Mapping[str, frozenset[str]]
    banned: Mapping[str, frozenset[str]]


@functools.cache
def treatment(version: str | None = None) -> Treatment:
    """The treatment in a version of PyTorch, the newest known if None. Raises UnknownVersion."""
    table = policy(version)
    float32 = {
        device: table.float32[device] | table.float32_set_dtype[device] | table.float32_append_dtype[device]
        for device in table.float32
    }
    named = (_by_name(operators) for operators in (table.lower, float32, table.promote, table.banned))
    return Treatment(*named)


def _by_name(operators: Mapping[str, Set[str]]) -> dict[str, frozenset[str]]:
    return {
        device: frozenset(op for operator in listed for op in _deciding().get(operator, ()))
        for device, listed in operators.items()
    }


@functools.cache
def _deciding() -> dict[str, list[str]]:
    """Operator of the dispatcher -> the operations whose result it decides."""
    found: dict[str, list[str]] = {}
    for op in operations_with("cast"):
        for operator in _MADE_OF.get(op, (op,)):
            found.setdefault(operator, []).append(op)
    return found


LOWER = treatment().lower["cuda"]
FLOAT32 = treatment().float32["cuda"]
PROMOTED = treatment().promote["cuda"]
BANNED = treatment().banned["cuda"]
"""The treatment on CUDA in the newest version."""

NOT_CAST_WITH_OUT = operations_with("out-not-cast")
NOT_CAST_IN_PLACE = in_place(NOT_CAST_WITH_OUT)
"""Forms of `LOWER`'s operations that autocast does not cast: functions called with `out`, and in-place methods."""

KEEPS = operations_with("keeps") | in_place(operations_with("keeps")) | {"fill_"}
"""Operations whose result has the dtype of their input, integers included."""
_ALONE = operations_with("same-rank", "cast") - operations_with("beside")
FOLLOWS_INPUT = KEEPS | operations_with("follows") | in_place(operations_with("follows") | _ALONE)
"""Operations whose result has the dtype of their floating input, on every device."""

BOOLEAN, INTEGER = operations_with("bool"), operations_with("int64")

MODULE_OPS = {cls: op for op, classes in fact_values("module").items() for cls in classes.split(",")}
"""Class of `torch.nn` -> the operation its call runs."""


@dataclass(frozen=True, slots=True)
class Regime:
    """The active autocast: its possible device types and dtypes, None for any, and PyTorch's version."""

    devices: Set[str] | None
    dtypes: Set[str] | None
    version: str | None = None
