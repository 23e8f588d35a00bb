"""Which function a call runs, and what it returns."""

from __future__ import annotations

from amplint.records import dataclass
from amplint.semantics.events.base import Event
from amplint.semantics.values.values import Value
from amplint.source import syntax as cst


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Called(Event):
    """The call at `node` runs the body of `function`, which may be that of another file, or of a library for None."""

    function: cst.CSTNode | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Returned(Event):
    """The call at `node` returns `result`."""

    result: Value
