"""Uses of names that libraries offer."""

from __future__ import annotations

import re

from amplint.semantics.events import ApiUse
from amplint.semantics.python.definitions import node_of
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.tracker import Tracker
from amplint.semantics.values.state import State
from amplint.semantics.values.values import Class, Ref
from amplint.source import syntax as cst
from amplint.source.fallback import is_fallback
from amplint.torchlib.legacy import APEX_MODULES
from amplint.torchlib.names import AUTOCASTS, GRAD_SCALERS, SUCCESSORS

_NATIVE_IMPORT = re.compile(r"from torch(?:\.cuda)?\.amp\b|import torch\.(?:cuda\.)?amp\b|from torch import autocast\b")


class ApiUses(Tracker):
    """Follows the names of libraries, and emits each use of one once."""

    triggers = frozenset(name.rpartition(".")[2] for name in SUCCESSORS)

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.told: set[tuple[cst.CSTNode, str]] = set()

    def library_name(self, state: State, node: cst.CSTNode, name: str) -> None:
        """Tell once, of a deprecated name only where newer code does not take over."""
        machine = self.machine
        if machine.module(state) is not machine.program.main or (node, name) in self.told:
            return
        if not machine.muted:
            self.told.add((node, name))
        if (
            name.startswith(APEX_MODULES)
            and not machine.muted
            and is_fallback(machine.module(state), node, _NATIVE_IMPORT)
        ):
            return
        if name in SUCCESSORS and not machine.muted:
            successor = SUCCESSORS[name][0]
            call = re.escape(successor) + (r"\([\"']" if "_enabled" in successor else r"\b")
            imported = rf"from torch(?:\.amp)? import [^\n]*\b{successor.rpartition('.')[2]}\b"
            if is_fallback(machine.module(state), node, re.compile(rf"{call}|{imported}")):
                return
        machine.emit(state, ApiUse, node, name=name)

    def joined_name(self, left: Ref | Class, right: Ref | Class) -> Ref | None:
        """Of a name imported from two libraries, or from one and defined for want of it, the one of PyTorch."""
        libraries = [one for one in (left, right) if isinstance(one, Ref)]
        known = [ref for ref in libraries if ref.name in AUTOCASTS or ref.name in GRAD_SCALERS]
        return known[0] if _last(left) == _last(right) and len(known) == 1 else None


def _last(named: Ref | Class) -> str:
    if isinstance(named, Ref):
        return named.name.rpartition(".")[2]
    node = node_of(named)
    assert isinstance(node, cst.ClassDef)
    return node.name.value
