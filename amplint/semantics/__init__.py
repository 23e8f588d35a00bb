"""What a script does: an abstract interpreter that runs it along its paths and tells the rules what happens."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.source.source import Source


def interpret(source: Source, tell: Callable[[Event], None], kinds: Set[str]) -> None:
    """Run `source` abstractly and call `tell` for every event of one of these `kinds`.

    Raises SourceError for a part that cannot be parsed.
    """
    from amplint.semantics.interpreter import interpret as run

    run(source, tell, kinds)
