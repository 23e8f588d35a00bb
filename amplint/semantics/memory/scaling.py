"""Ledger of scaled losses, of backward passes and of what clips their gradients."""

from __future__ import annotations

from amplint.findings import Guessed
from amplint.semantics.python.machine import Machine, Sites
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.values import Scaler, Value
from amplint.source import syntax as cst


class Scaling(Tracker):
    """Facts about losses and gradients that hold for all paths.

    `scaled` are the symbols of losses that carry a scale, `plain` maps these to the losses without it, and
    `idle_scales` are calls of `scale` of a disabled scaler. `ran_at` maps each backward pass to the calls that led to
    it, `clipped_by_name` clipping calls to their guesses, of which those in `may_unscale` may unscale by themselves.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.scaled: set[int] = set()
        self.plain: dict[int, Value] = {}
        self.idle_scales: set[cst.CSTNode] = set()
        self.ran_at: dict[cst.CSTNode, set[Sites]] = {}
        self.clipped_by_name: dict[cst.CSTNode, tuple[Guessed, ...]] = {}
        self.may_unscale: set[cst.CSTNode] = set()
        self._began = 0

    def begin_unseen_call(self) -> None:
        """Record that unseen code calls a function."""
        self._began = self.machine.symbols.tick()

    def is_older(self, scaler: Scaler) -> bool:
        """Whether a scaler existed before the running call by unseen code, which may have used it."""
        return self.machine.symbols.time(scaler.symbol) < self._began
