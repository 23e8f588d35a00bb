"""AMP402."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from amplint.findings import Applicability, Fix, Severity
from amplint.premises import Premise
from amplint.rule import Claim, Report, Rule, Sign
from amplint.semantics.events import Event, TensorOp
from amplint.semantics.values.values import Number
from amplint.source import syntax as cst
from amplint.torchlib.catalogue import operations_with
from amplint.torchlib.names import (
    FLOAT16_MAX,
    FLOAT16_ROUNDS_TO_ONE,
    FLOAT16_ROUNDS_TO_ZERO,
    FLOAT16_SMALLEST_NORMAL,
    FLOAT32_ROUNDS_TO_ONE,
    HALF_DTYPES,
    HALF_SIGNS,
    TINY_NUMBERS,
)

from .constants import number_notes

if TYPE_CHECKING:
    from amplint.source.rewrite import Rewriter

_STORED, _STORED_BELOW_ONE = "1e-4", "1e-3"
"""Powers of ten that float16 holds, the second one as a distance from 1."""
_OF_ONE_DTYPE = (
    operations_with("keeps", "reduces") | operations_with("follows", "reduces") | {"abs", "relu", "detach"}
) - operations_with("cast")


class ConstantVanishesInHalf(Rule):
    """An epsilon that is 0 in float16, or a bound that is 1 there, guards a half tensor.

    ## Why is this bad?
    float16 rounds everything up to 2.98e-8 to 0. `x / (y + 1e-8)`, `torch.log(p + 1e-8)` and `y.clamp(min=1e-12)` then
    guard nothing: the first 0 makes infinity or NaN. Larger epsilons are stored (1e-7 as 1.19e-7) and left alone,
    except under a constant numerator: `1 / (y + 1e-7)` is 8.4e6 where `y` is 0, which overflows. bfloat16 keeps all of
    them. An upper bound closer to 1 than 2.4e-4 is 1 itself: `p.clamp(1e-6, 1 - 1e-6)` lets 1 through, where `acos(p)`,
    `atanh(p)` and `log(1 - p)` are infinite or have an infinite slope. Under CUDA autocast, sums, norms, powers,
    exponentials, softmax and reciprocals are float32 already. In a region, a tensor whose dtype nothing shows makes
    this an info.

    ## Example
    ```python
    features = features / (features.std(dim=0) + 1e-8)
    ```

    ## Use instead
    ```python
    features = features.float()
    features = features / (features.std(dim=0) + 1e-8)
    ```

    ## Fix safety
    Safe for a tensor that is divided by something of itself, `x / (x.amax() + 1e-8)`: that is computed in float32 and
    converted back. Otherwise the fix writes 1e-4, the smallest power of ten that float16 holds with all its digits
    (they get fewer below 6.1e-5) and whose reciprocal fits too, or 1 - 1e-3 for a bound. It changes results where the
    guarded value is small, in float32 as well. Casting the operand to float32, as above, does not, and is often the
    better choice.

    ## References
    - <https://docs.pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior>
    """

    code = "AMP402"
    name = "constant-vanishes-in-half"
    severity = Severity.WARNING
    claims = (Claim(Sign.TAKES, ("float16",)),)
    screen = (HALF_SIGNS, TINY_NUMBERS)
    assumed = (TINY_NUMBERS,)
    fixable = Applicability.SAFE

    def on_tensor_op(self, event: TensorOp) -> Iterator[Report]:
        number = _lost(event)
        if number is None:
            return
        told, reason = _effect(event, number)
        yield self.report(
            event,
            told,
            advice="Compute this in float32 (x.float()), or choose an epsilon that float16 holds, such as "
            f"{_STORED_BELOW_ONE if event.op == 'clamp_max' else _STORED}.",
            reason=reason,
            at=number.place,
            premises=() if event.assumed or event.tensor.dtype in HALF_DTYPES else _unseen(event),
            notes=number_notes(event, number),
        )

    def fix(self, event: Event, rewrite: Rewriter) -> Fix | None:
        number = _lost(event) if isinstance(event, TensorOp) else None
        if number is None or not isinstance(event, TensorOp):
            return None
        stored = f"1 - {_STORED_BELOW_ONE}" if event.op == "clamp_max" else _STORED
        return _in_float32(number, rewrite) or Fix(
            "Use an epsilon that float16 holds", (rewrite.replace(number.place, stored),), Applicability.UNSAFE
        )


def _unseen(event: TensorOp) -> Iterator[Premise]:
    """What is taken for granted where nothing shows the dtype of a tensor in a region."""
    yield Premise.HALF_THERE
    if event.region is not None and len((event.region.dtypes or frozenset()) & HALF_DTYPES) > 1:
        yield Premise.FLOAT16_CHOSEN


def _effect(event: TensorOp, number: Number) -> tuple[str, str]:
    """What becomes of a number in float16, and why that matters."""
    if event.op == "clamp_max":
        return (
            f"{number.value:.9g} is 1 in float16 and lets 1 through",
            "float16 has no number between 0.9995 and 1, so a bound closer to 1 than 2.4e-4 is 1 itself.",
        )
    if number.value <= FLOAT16_ROUNDS_TO_ZERO:
        return (
            f"{number.value:g} is 0 in float16 and guards nothing",
            "float16 rounds everything up to 2.98e-8 to 0, so the guard is gone when it is needed.",
        )
    return (
        f"{number.value:g} is too small a divisor in float16",
        "A constant over something below 1.5e-5 is past 65504, the largest float16 number.",
    )


def _in_float32(number: Number, rewrite: Rewriter) -> Fix | None:
    """The fix of `x / (x.amax() + number)`, all of which has one dtype."""
    added = rewrite.source.parent(number.node)
    divided = rewrite.source.parent(added) if added is not None else None
    beside = number.beside
    if number.written is not None or beside is None or not isinstance(added, cst.BinaryOperation):
        return None
    if not isinstance(divided, cst.BinaryOperation) or not isinstance(divided.operator, cst.Divide):
        return None
    origin, name = _origin(beside), divided.left
    if divided.right is not added or not (isinstance(origin, cst.Name) and isinstance(name, cst.Name)):
        return None
    if origin.value != name.value:
        return None
    lifted, constant = f"{rewrite.operand(beside)}.float()", rewrite.text(number.node)
    floor = f"{lifted} + {constant}" if added.left is beside else f"{constant} + {lifted}"
    quotient = f"({name.value} / ({floor})).to({name.value}.dtype)"
    return Fix("Divide in float32", (rewrite.replace(divided, quotient),))


def _origin(node: cst.BaseExpression) -> cst.BaseExpression:
    """The root of a chain of methods that keep the dtype."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _OF_ONE_DTYPE:
        node = node.func.value
    return node


_GUARDS = frozenset(
    ["Add", "clamp_min", "normalize", "cosine_similarity", "pairwise_distance", "logit", "where", "masked_fill"]
)
"""Operations in which a small number keeps a tensor from 0."""


def _lost(event: TensorOp) -> Number | None:
    """The epsilon that has no effect."""
    number, floor = event.number, event.tensor.floor
    if number is None:
        return None
    if event.op == "clamp_max":
        return number if FLOAT32_ROUNDS_TO_ONE < 1 - number.value <= FLOAT16_ROUNDS_TO_ONE else None
    if event.op in _GUARDS:
        return number if 0 < number.value <= FLOAT16_ROUNDS_TO_ZERO else None
    if event.op == "Divide" and floor is not None and floor.value < FLOAT16_SMALLEST_NORMAL:
        return floor if abs(number.value) / floor.value > FLOAT16_MAX else None
    return None
