"""What happens to the parameters of models, told to the rules."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HalfStepped(Event):
    """A step of an optimizer of `torch.optim` updates parameters that `cast` made `dtype`, float16 or bfloat16.

    `made` constructs the optimizer, whose class is `cls`. `epsilon` is what it adds to its denominators in that dtype,
    None where it does nothing like it or the number is not known.
    """

    dtype: str
    cast: cst.CSTNode
    made: cst.Call
    cls: str
    epsilon: float | None
