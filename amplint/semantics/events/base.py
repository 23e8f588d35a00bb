"""What every event carries."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import field
from typing import ClassVar

from amplint.findings import Guessed
from amplint.premises import Premise
from amplint.records import dataclass
from amplint.semantics.values.state import Step
from amplint.semantics.values.values import Autocast
from amplint.source import syntax as cst
from amplint.torchlib.names import HALF_DTYPES

STEPS_TOLD = 8


@dataclass(frozen=True, slots=True)
class Index:
    """Where a file uses its scalers, optimizers and losses, by their symbols; complete once the file is interpreted.

    `scalers` and `optimizers` hold the expressions that name them in protocol calls, `partners` the optimizers that a
    scaler steps, and the others the calls: `unscales` and `steps` by optimizer, `updates` by scaler, `backwards` by
    loss, `halves` are calls of `.half()` and `lowered` all conversions to a half dtype that is written out, `made`
    construct optimizers, of the parameters of models with the names in `trained`. `lifted` holds, by its statement in a
    region that is off, a conversion to float32 of a value that came into the region, and `of_data` the operations in
    such regions that also run on an entry of a batch. `idle` are scalers that are off where they scale a loss, and
    `absent` maps plain backward passes to the variables and attributes that are None on a path there.
    """

    scalers: dict[int, list[cst.BaseExpression]] = field(default_factory=dict)
    optimizers: dict[int, list[cst.BaseExpression]] = field(default_factory=dict)
    partners: dict[int, list[int]] = field(default_factory=dict)
    unscales: dict[int, list[cst.Call]] = field(default_factory=dict)
    steps: dict[int, list[cst.Call]] = field(default_factory=dict)
    updates: dict[int, list[cst.Call]] = field(default_factory=dict)
    backwards: dict[int, list[cst.Call]] = field(default_factory=dict)
    lifted: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    of_data: set[cst.CSTNode] = field(default_factory=set)
    halves: list[cst.Call] = field(default_factory=list)
    lowered: list[cst.Call] = field(default_factory=list)
    made: dict[int, cst.Call] = field(default_factory=dict)
    trained: dict[int, frozenset[str]] = field(default_factory=dict)
    idle: set[int] = field(default_factory=set)
    absent: dict[cst.CSTNode, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Event:
    """Base of all events.

    `node` is the call or statement, `statement` the statement it stands in, `region` the innermost autocast context
    that is or can be on and `region_with` what entered it, `steps` the latest protocol calls and branches in the order
    of execution, `decisions` the conditions among them that could have turned out otherwise. `idle` holds the calls
    known to do no tensor work; like `index`, it is complete once the file is interpreted. `entered_from` is set for
    what happens in another file: the call in the linted one that leads there. `calls` are the functions being run, the
    outermost first, and `sites` what called each of them, None if nothing did. `assumed` means that nothing says
    that a dtype is half, without which this is no event. `option` is the class of the module that is called, where that
    can be another one, too. Without the names in `guesses` it would be none either, or one of its fields another.
    `premises` are what it takes for granted unseen.
    """

    kind: ClassVar[str]
    node: cst.CSTNode
    statement: cst.CSTNode
    region: Autocast | None = None
    region_with: cst.CSTNode | None = None
    steps: tuple[Step, ...] = ()
    decisions: Set[cst.CSTNode] = frozenset()
    idle: Set[cst.CSTNode] = frozenset()
    index: Index = field(default_factory=Index)
    entered_from: cst.CSTNode | None = None
    calls: tuple[cst.CSTNode, ...] = ()
    sites: tuple[cst.CSTNode | None, ...] = ()
    assumed: bool = False
    option: str = ""
    guesses: tuple[Guessed, ...] = ()
    premises: tuple[Premise, ...] = ()

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    def steps_from(self, node: cst.CSTNode | None) -> tuple[Step, ...]:
        """The steps worth telling, beginning with the last one at `node`, all of them where it is not among them."""
        return tuple(step for step in self._since(node) if step[1])[-STEPS_TOLD:]

    @property
    def unseen_of_region(self) -> tuple[Premise, ...]:
        """What is taken for granted where the region around is said to cast: that it does, of its dtypes."""
        dtypes = self.region.dtypes if self.region is not None else None
        return (Premise.HALF_CHOSEN,) if dtypes is not None and not dtypes <= HALF_DTYPES else ()

    def _since(self, node: cst.CSTNode | None) -> tuple[Step, ...]:
        for position in range(len(self.steps) - 1, -1, -1):
            if self.steps[position][0] is node:
                return self.steps[position:]
        return self.steps
