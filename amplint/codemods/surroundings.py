"""What a conversion works with besides its text: the files around it, and the processor time that it may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from amplint.engine.modules import Modules

SECONDS = 30.0
"""Processor time that the conversion of one file may take; the conversions of files that it imports count apart."""
_processor_time = getattr(time, "thread_time", time.process_time)


class OutOfTime(Exception):
    """The conversion of a file takes too long."""


class _Frame:
    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.begun = _processor_time()
        self.elsewhere = 0.0

    def spent(self) -> float:
        """Seconds that this conversion has taken, without those of others within it."""
        return float(_processor_time() - self.begun - self.elsewhere)


_frames: list[_Frame] = []
"""The conversions under way, each within the one before; one thread runs all of them."""


@contextmanager
def among(modules: Modules | None) -> Iterator[None]:
    """Convert within `modules`, or those of the conversion around, and count the time."""
    frame = _Frame(modules or (_frames[-1].modules if _frames else Modules()))
    _frames.append(frame)
    try:
        yield
    finally:
        _frames.pop()
        if _frames:
            _frames[-1].elsewhere += _processor_time() - frame.begun


def modules() -> Modules:
    """The files around the text that is converted."""
    return _frames[-1].modules if _frames else Modules()


def look_at_the_clock() -> None:
    """Raises OutOfTime if the conversion has taken too long."""
    if _frames and _frames[-1].spent() > SECONDS:
        raise OutOfTime
