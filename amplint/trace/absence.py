"""The explanation of a record without steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amplint.trace.data import RunData


def absence(record: RunData) -> str:
    """What happened instead of a recorded step, in words; empty if there is one."""
    if record.steps:
        return ""
    if record.taken:
        taken = f"{_times(record.taken, 'step')} {'was' if record.taken == 1 else 'were'} taken"
        return f"{taken}, none in the window, which leaves out the first{f' {record.skip}' if record.skip > 1 else ''}"
    observations = (
        [f"backward() ran {_times(record.backwards, 'time')} and no optimizer stepped"] if record.backwards else []
    )
    if record.started:
        observations.append(
            f"{_times(record.started, 'process', 'es')} that it started {_was(record.started)} not watched"
        )
    if not record.operations:
        observations.append("no operation ran in the process that is watched")
    return "; ".join(observations)


def _times(number: int, noun: str, plural: str = "s") -> str:
    return f"{number} {noun}{plural if number != 1 else ''}"


def _was(number: int) -> str:
    return "is" if number == 1 else "are"
