"""Where a tensor comes from, seen through views of it: the call that made it, or the module that keeps it."""

from __future__ import annotations

import libcst as cst

from amplint.semantics.machine import Machine
from amplint.semantics.origins import KEEPS_DTYPE
from amplint.torchlib.policy import words

_MADE, _KEPT = "made here", "kept by a module"
_VIEWS = KEEPS_DTYPE | words("index to cpu cuda T mT data zero fill normal uniform Minus")


def made_by(machine: Machine, node: cst.Call) -> int:
    """A symbol for a tensor that `node` makes in the default dtype, without being asked for one."""
    return machine.symbols.fresh(_MADE, node)


def kept(machine: Machine) -> int:
    """A symbol for a parameter or buffer."""
    return machine.symbols.fresh(_KEPT)


def behind(machine: Machine, symbol: int) -> int:
    """The symbol of what `symbol` is a view of, or was computed from by operations that keep the dtype."""
    while str(machine.symbols.key(symbol)[0]).removesuffix("_") in _VIEWS and machine.symbols.parts(symbol):
        symbol = machine.symbols.parts(symbol)[0]
    return symbol


def maker(machine: Machine, symbol: int) -> cst.Call | None:
    """The call that made this tensor without being asked for a dtype."""
    key = machine.symbols.key(behind(machine, symbol))
    node = key[3] if key[0] == "fresh" and len(key) > 3 and key[2] == _MADE else None
    return node if isinstance(node, cst.Call) else None


def is_kept(machine: Machine, symbol: int) -> bool:
    """Whether this is a parameter or buffer of a module."""
    key = machine.symbols.key(behind(machine, symbol))
    return key[0] == "fresh" and key[2:3] == (_KEPT,)
