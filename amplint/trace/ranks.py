"""The rank of this process, and the records of the other ranks on the same machine.

Ranks wait for each other only at the end, for some seconds, and by files: nothing here can hang.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from amplint.trace.record import Record, UnreadableRecord

_PAUSE = 0.05
_NAME = "amplint.rank"


def rank_and_ranks() -> tuple[int, int]:
    """The rank of this process and the number of ranks, as set by launchers such as `torchrun`."""
    rank, ranks = _number("RANK", 0), _number("WORLD_SIZE", 1)
    return (rank, ranks) if 0 <= rank < ranks else (0, 1)


def file_of(path: Path, record: Record) -> Path:
    """`trace.rank0.json` for `trace.json`, if there are several ranks."""
    if record.ranks == 1 or record.rank is None:
        return path
    return path.with_name(f"{path.stem}.rank{record.rank}{path.suffix}")


class Machine:
    """The ranks that `torchrun` started on this machine, which exchange records in torchrun's folder.

    `ranks` is their number. `alone` is set if there is no such folder, or only one rank; `first` for the rank that
    reports for all.
    """

    def __init__(self) -> None:
        failures = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
        self._folder = Path(failures).parent.parent
        self.ranks = _number("LOCAL_WORLD_SIZE", 1)
        self.alone = not failures or self.ranks < 2
        self.first = self.alone or _number("LOCAL_RANK", 0) == 0

    def leave(self, record: Record) -> None:
        """Write the record of this rank for the first one. Raises OSError."""
        file = self._folder / f"{_NAME}{record.rank}.json"
        unfinished = file.with_suffix(".part")
        unfinished.write_text(record.to_json(), encoding="utf-8")
        unfinished.replace(file)

    def others(self, patience: Callable[[], float]) -> list[Record]:
        """The records of the other ranks, without those that write none within `patience()` seconds."""
        start = time.monotonic()
        while len(self._files()) < self.ranks - 1 and time.monotonic() < start + patience():
            time.sleep(_PAUSE)
        records = []
        for file in self._files():
            try:
                records.append(Record.from_json(file.read_text(encoding="utf-8")))
                file.unlink()
            except (OSError, UnreadableRecord):
                continue
        return records

    def _files(self) -> list[Path]:
        return list(self._folder.glob(f"{_NAME}*.json"))


def _number(name: str, otherwise: int) -> int:
    try:
        return int(os.environ[name])
    except (KeyError, ValueError):
        return otherwise
