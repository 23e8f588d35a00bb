"""Facts about a file's loops from which gradient accumulation is inferred."""

from __future__ import annotations

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.source import syntax as cst


@dataclass(frozen=True, slots=True)
class Boundary:
    """A condition that distinguishes the last micro-batch of a window.

    `holds` is its value there, `counter` and `every` are the symbols of the counter and the window length, `remainder`
    is the counter's remainder there, None if it is compared directly. With `others` another clause can end a window
    too. A flag computed by a caller has neither counter nor length; it is a boundary by its name, one of the `guesses`.
    """

    holds: bool
    counter: int | None = None
    every: int | None = None
    remainder: int | None = None
    modulo: int | None = None
    others: bool = False
    guesses: tuple[Guessed, ...] = ()


class Rhythm(Tracker):
    """Notes about conditions, loops and losses, by symbol or node.

    `spelled` holds the expressions of remainders and conditions, `asked` the loops around the places where conditions
    are decided, `early` those decided before all loops and `repeated` those in one, `boundaries` what they say of
    windows. Of loops, `sources` is what they go over, `counted` what they count up, `starts` from where, `windows`
    those that accumulate, and `exact` the remainder that alone ends their windows, counted from their start.
    `losses` holds what each backward ran on, `divided_late` what of it was divided behind that, with the divisor,
    `opaque` what functions returned that were not followed, `inside` what was told to run inside windows. `loaders` and
    `parallel` are the calls that make data loaders and distributed models; `bypassed` says that a forward pass to
    differentiate goes around the wrapper, so that no gradients are reduced.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.spelled: dict[int, cst.BaseExpression] = {}
        self.asked: dict[int, set[tuple[cst.CSTNode, ...]]] = {}
        self.early: set[int] = set()
        self.repeated: set[int] = set()
        self.boundaries: dict[int, Boundary | None] = {}
        self.sources: dict[cst.CSTNode, int] = {}
        self.counted: dict[cst.CSTNode, frozenset[str]] = {}
        self.starts: dict[tuple[int, str], int] = {}
        self.losses: dict[cst.CSTNode, set[int]] = {}
        self.divided_late: set[tuple[int, int]] = set()
        self.opaque: set[int] = set()
        self.inside: set[cst.CSTNode] = set()
        self.loaders: dict[int, cst.Call] = {}
        self.parallel: list[cst.Call] = []
        self.bypassed = False
        self.windows: set[cst.CSTNode] = set()
        self.exact: dict[cst.CSTNode, cst.BinaryOperation] = {}
