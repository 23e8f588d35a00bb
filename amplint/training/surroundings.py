"""Context of a conversion: the files around its text, and its limit of processor time."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from amplint.engine.modules import Lookups, Modules
from amplint.semantics.reading.program import Program
from amplint.source.source import Source

T = TypeVar("T", bound=Callable[..., object])

SECONDS = 60.0
"""The limit of processor time in seconds for one file; conversions of files that it imports count separately."""
_processor_time = getattr(time, "thread_time", time.process_time)


class OutOfTime(Exception):
    """The conversion of a file exceeds its time limit."""


_clear: list[Callable[[], None]] = []


def cached_by_text(function: T) -> T:
    """Cache the latest results of a function of a text and its path, as long as the files around it are the same."""
    cached = functools.lru_cache(maxsize=32)(function)
    _clear.append(cached.cache_clear)
    return cached  # type: ignore[return-value]  # whose parameters are any hashable ones to `functools`


class _Frame:
    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.begun = _processor_time()
        self.elsewhere = 0.0

    def spent(self) -> float:
        """The seconds of processor time of this conversion, without nested ones."""
        return float(_processor_time() - self.begun - self.elsewhere)


_frames: list[_Frame] = []
"""The nested conversions under way, all of one thread."""


@contextmanager
def conversion_scope(path: str, modules: Modules | None) -> Iterator[None]:
    """Convert the file at `path` within `modules`, or those of the enclosing conversion, and measure the time."""
    frame = _Frame(modules or (_frames[-1].modules if _frames else Modules()))
    _frames.append(frame)
    try:
        yield
    finally:
        _frames.pop()
        if _frames:
            _frames[-1].elsewhere += _processor_time() - frame.begun
        elif path:
            for clear in _clear:
                clear()


def modules() -> Modules:
    """The files around the text that is converted."""
    return _frames[-1].modules if _frames else Modules()


def amend(path: str, raw: bytes) -> None:
    """Take `raw` for the content of a file around the text that is converted."""
    modules().amend(path, raw)
    for clear in _clear:
        clear()


def is_long() -> bool:
    """Whether the conversion has taken a quarter of its limit: what can be left out is left out from there on."""
    return bool(_frames) and _frames[-1].spent() > SECONDS / 4


def check_time() -> None:
    """Raise OutOfTime if the conversion exceeds its time limit."""
    if _frames and _frames[-1].spent() > SECONDS:
        raise OutOfTime


@cached_by_text
def whole_program(source: Source) -> Program:
    """A file with the code that it reaches through imports, all of it relevant."""
    lookups = Lookups(modules(), source)
    return Program(source, lookups, whole=True, around=lookups)
