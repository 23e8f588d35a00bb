"""Events about the value of a loss: what is read from it, and what else is made of its gradients."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.events.operations import Operand
from amplint.semantics.values.values import Scaler
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScaledLossRead(Event):
    """A value that carries the loss scale is `how` (summed, logged, compared, divided, returned) as the loss.

    `scaled` is the call of `scale()`. What is returned goes to callers in unseen code, after a backward pass. A value
    is divided by the scale that `update` has left behind, not by the one it was multiplied by. `divided` means that the
    script asks for the scale somewhere.
    """

    scaler: Scaler
    scaled: cst.CSTNode
    how: str
    update: cst.CSTNode | None
    divided: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DividedLossRead(Event):
    """A loss that `division` divided by the `number` of micro-batches is `how` (averaged, logged, compared)."""

    division: cst.CSTNode
    number: cst.BaseExpression
    how: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PenaltyScaled(Event):
    """`scale()` is called at `by` on a loss with a penalty on the gradients that `node` takes.

    `returned` means that a function returns the penalty at `by` instead, to a caller that is not seen.

    The gradients are `carried` there with the scale still in them; otherwise they come from the same loss before it was
    scaled, and lost in float16 what its scale was to save.
    """

    scaler: Scaler
    by: cst.CSTNode
    carried: bool
    returned: bool = False


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LossOfOutput(Event):
    """`loss` gets `output`, which is what a model that computes in half returned, and nothing is known to widen it.

    `seen` means that it is a loss of PyTorch, which runs where no autocast reaches it.
    """

    loss: str
    output: Operand
    seen: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LossLeftWhole(Event):
    """The method `node` of a class of Trainers computes a loss that nothing divides by the number of micro-batches.

    `certain` says that the script asks for more than one.
    """

    certain: bool


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LossMultiplied(Event):
    """A loss that backward runs on is multiplied by the number of micro-batches, and nothing in sight divides it."""
