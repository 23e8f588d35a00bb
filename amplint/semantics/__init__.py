"""Abstract interpretation of a script along its paths, which emits events to rules."""

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
    emit: Callable[[Event], None],
    kinds: Set[str],
    assuming: Set[str] | None = None,
    seconds: float = SECONDS,
    *,
    configs: bool = False,
    halves: bool = False,
    dtype: str | None = None,
) -> Stopped | None:
    """Interpret the main file of `program` abstractly and call `emit` for every event of one of these `kinds`.

    Beyond a budget of statements or CPU `seconds` the rest is skipped, and the result says where that began.

    If `assuming` is not None, tensors of unknown dtype are assumed to be half, and calls of its words are relevant.
    With `configs`, the content of configuration files is used. With `halves`, outputs of models in a region are assumed
    to be half unless their dtype is known. A choice among dtypes takes `dtype` if that is given, and stays open
    otherwise. Raises SourceError for a part that cannot be parsed.
    """
    from amplint.source.configs.file import ConfigFile

    if isinstance(program.main, ConfigFile):
        from amplint.semantics.configs.file_events import emit_config

        emit_config(program, program.main, emit, kinds)
        return None
    from amplint.semantics.python.interpreter import interpret as run
    from amplint.semantics.trackers import TRACKERS

    return run(program, emit, kinds, TRACKERS, assuming, seconds, configs=configs, halves=halves, supposition=dtype)


STEPS_TO_CONFIGS = 1_000
"""How many statements may run before a script reads its first configuration file."""


def reads_configs(program: Program, seconds: float = SECONDS) -> bool:
    """Whether the main file of `program` reads configuration files that exist; nothing else in it is followed.

    Most scripts that mention some read none of known path: this costs a fraction of an analysis.
    """
    from amplint.semantics.configs.files import ConfigFiles
    from amplint.semantics.python.interpreter import interpret as run

    run(program, lambda event: None, frozenset(), [ConfigFiles], None, seconds, configs=True, steps=STEPS_TO_CONFIGS)
    return bool(program.assumed)
