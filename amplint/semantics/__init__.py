"""What a script does: an abstract interpreter that runs it along its paths and tells the rules what happens."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.semantics.reading.program import Program


def interpret(
    program: Program, tell: Callable[[Event], None], kinds: Set[str], assuming: Set[str] | None = None
) -> None:
    """Run the linted file of `program` abstractly and call `tell` for every event of one of these `kinds`.

    Where `assuming` is given, be it empty, tensors of unknown dtype are taken for half, and calls of its words matter.
    Raises SourceError for a part that cannot be parsed.
    """
    from amplint.semantics.python.interpreter import interpret as run
    from amplint.semantics.trackers import TRACKERS

    run(program, tell, kinds, TRACKERS, assuming)
