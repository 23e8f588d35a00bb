"""Autocast contexts that are made and entered."""

from __future__ import annotations

from dataclasses import field

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Autocast, Value
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastCreated(Event):
    """An autocast context is constructed from these arguments (parameter name -> node and value)."""

    api: str
    arguments: dict[str, tuple[cst.Arg, Value]] = field(hash=False)
    positional: tuple[str, ...] = ()
    context: Autocast
    certain: bool = True


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastUnused(Event):
    """An autocast object that is never entered: a bare statement, or the class `api` itself as a context."""

    called: bool
    api: str = ""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AutocastEntered(Event):
    """A region begins."""

    context: Autocast
