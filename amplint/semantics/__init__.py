"""What a script does: an abstract interpreter that runs it along its paths and tells the rules what happens."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.semantics.events import Event
    from amplint.semantics.python.machine import Stopped
    from amplint.semantics.reading.program import Program


SECONDS = 6.0
"""How many processor seconds the interpretation of one file may take where nobody says otherwise."""


def interpret(
    program: Program,
    tell: Callable[[Event], None],
    kinds: Set[str],
    assuming: Set[str] | None = None,
    seconds: float = SECONDS,
    *,
    configs: bool = False,
) -> Stopped | None:
    """Run the linted file of `program` abstractly and call `tell` for every event of one of these `kinds`.

    Where that takes too many statements or processor `seconds`, the rest is left out, and what it returns says where.

    Where `assuming` is given, be it empty, tensors of unknown dtype are taken for half, and calls of its words matter.
    With `configs`, files of settings that the script reads say what they say now. Raises SourceError for a part that
    cannot be parsed.
    """
    from amplint.source.configs.file import ConfigFile

    if isinstance(program.main, ConfigFile):
        from amplint.semantics.configs.told import tell as tell_config

        tell_config(program, program.main, tell, kinds)
        return None
    from amplint.semantics.python.interpreter import interpret as run
    from amplint.semantics.trackers import TRACKERS

    return run(program, tell, kinds, TRACKERS, assuming, seconds, configs=configs)


STEPS_TO_CONFIGS = 1_000
"""How many statements may run before a script reads its first file of settings."""


def reads_configs(program: Program, seconds: float = SECONDS) -> bool:
    """Whether the linted file of `program` reads files of settings that are there; nothing else of it is followed.

    Most scripts that could do read none whose path is known: it takes a part of the time of an analysis to learn that.
    """
    from amplint.semantics.configs.files import ConfigFiles
    from amplint.semantics.python.interpreter import interpret as run

    run(program, lambda event: None, frozenset(), [ConfigFiles], None, seconds, configs=True, steps=STEPS_TO_CONFIGS)
    return bool(program.assumed)
