"""The end of a traced run: the record's file, and a report for all ranks of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from amplint.cli import traced
from amplint.cli.failures import warn
from amplint.cli.step_line import StepLine
from amplint.trace.findings import findings, findings_of_ranks
from amplint.trace.merge import merged
from amplint.trace.ranks import Machine, file_of
from amplint.trace.record import Record

if TYPE_CHECKING:
    from amplint.trace.watching import Watch

_PATIENCE, _LITTLE_PATIENCE = 10.0, 2.0
"""Seconds that the first rank waits for the records of the others, when the script has ended and after SIGTERM."""


class Ending:
    """Reports what `watch` recorded, once: at the end of the script, or on SIGTERM.

    As a context manager it handles SIGTERM, unless the script installs its own handler; `line` is cleared before
    anything is printed. The process then ends by SIGTERM, as it would without the tracer.
    """

    def __init__(
        self, watch: Watch, output: Path | None, html: Path | None, line: StepLine, *, quiet: bool, fail_on: str | None
    ) -> None:
        self._watch = watch
        self._output = output
        self._html = html
        self._line = line
        self._quiet = quiet
        self._fail_on = fail_on
        self._machine = Machine()
        self._process = os.getpid()
        self._is_reporting = self._terminated = False

    def __enter__(self) -> Ending:
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminate)
        return self

    def __exit__(self, *_: object) -> None:
        if signal.getsignal(signal.SIGTERM) == self._terminate:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._terminated:
            _end_by_signal()

    def report(self, record: Record) -> int:
        """Write and report `record`; return the exit status. Raises Failure if it cannot be written."""
        self._is_reporting = True
        self._line.close()
        if self._output is not None:
            traced.write(file_of(self._output, record), record.to_json())
        if not self._machine.first:
            try:
                self._machine.leave(record)
            except OSError as failure:
                warn(f"what rank {record.rank} did is not reported: {failure}")
            return traced.status(findings(record), self._fail_on)
        records, whole = self._of_machine(record)
        found = findings(record) if record.ranks == 1 else findings_of_ranks(records, whole)
        traced.show(whole, found, quiet=self._quiet or record.rank != 0, err=True)
        if self._html is not None:
            traced.write_page(self._html if record.rank == 0 else file_of(self._html, record), whole, found)
        return traced.status(found, self._fail_on)

    def _of_machine(self, record: Record) -> tuple[list[Record], Record]:
        """The records of this machine's ranks, and their merged record."""
        if self._machine.alone:
            return [record], record
        records = [record, *self._machine.others(lambda: _LITTLE_PATIENCE if self._terminated else _PATIENCE)]
        missing = self._machine.ranks - len(records)
        if missing:
            warn(f"{missing} of {self._machine.ranks} ranks left no record; what they did is not reported")
        return records, merged(records)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._process:  # a fork of the traced process
            _end_by_signal()
        self._terminated = True
        if not self._is_reporting:
            with open(os.dup(2), "w", encoding="utf-8") as unlocked, contextlib.redirect_stderr(unlocked):
                try:  # the script may be writing to its own standard error, which nobody else can do meanwhile
                    self.report(self._watch.partial_record())
                except click.ClickException as failure:
                    failure.show()
            _end_by_signal()


def _end_by_signal() -> None:
    """End by SIGTERM with its default action."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
