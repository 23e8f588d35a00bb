"""What goes wrong with gradients that add up, told to the rules."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from amplint.semantics.events import Event


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class NeverCleared(Event):
    """A step in a loop with gradients that `backward` adds up and nothing ever clears; `optimizer` spells whose."""

    backward: cst.CSTNode
    optimizer: cst.BaseExpression
