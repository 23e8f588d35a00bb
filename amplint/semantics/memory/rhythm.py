"""Facts about a file's loops from which gradient accumulation is inferred."""

from __future__ import annotations

from amplint.findings import Guessed
from amplint.records import dataclass
from amplint.semantics.python.machine import Machine, Sites
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
    """Facts about conditions, loops and losses, by symbol or node.

    `spelled` maps remainders and conditions to their expressions, `sites` these to the calls that lead there, `asked` a
    condition to the loops around its decisions; `early` are the conditions decided before all loops, `repeated` those
    decided in one, and `boundaries` maps them to the window boundaries they imply. For loops, `sources` is the iterated
    value, `counted` the counters, `starts` the initial values of these, `windows` those that accumulate, and `exact`
    the remainder that alone ends their windows, counted from their start. `losses` maps a backward pass to its losses,
    `divided_after_backward` are losses divided after it, with the divisor, `opaque` the results of functions that are
    not interpreted, `of_models` those of models out of sight, `inside` the unscaling calls within windows. `loaders`
    and `parallel` are the calls that construct data loaders and distributed models; `bypassed` is whether a
    differentiated forward pass bypasses the wrapper, so that no gradients are reduced.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.spelled: dict[int, cst.BaseExpression] = {}
        self.sites: dict[cst.CSTNode, set[Sites]] = {}
        self.asked: dict[int, set[tuple[cst.CSTNode, ...]]] = {}
        self.early: set[int] = set()
        self.repeated: set[int] = set()
        self.boundaries: dict[int, Boundary | None] = {}
        self.sources: dict[cst.CSTNode, int] = {}
        self.counted: dict[cst.CSTNode, frozenset[str]] = {}
        self.starts: dict[tuple[int, str], int | None] = {}
        self.losses: dict[cst.CSTNode, set[int]] = {}
        self.divided_after_backward: set[tuple[int, int]] = set()
        self.opaque: set[int] = set()
        self.of_models: set[int] = set()
        self.inside: set[cst.CSTNode] = set()
        self.loaders: dict[int, cst.Call] = {}
        self.parallel: list[cst.Call] = []
        self.bypassed = False
        self.windows: set[cst.CSTNode] = set()
        self.exact: dict[cst.CSTNode, cst.BinaryOperation] = {}
