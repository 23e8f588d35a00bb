"""What ends with the tests: the process that forks for them, and a test that hangs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import NoReturn

import pytest

from tests.trace import forked

LIMIT_S = 600
"""No test takes a tenth of it on a machine that has nothing else to do."""


@pytest.fixture(scope="session", autouse=True)
def the_process_that_forks_ends() -> Iterator[None]:
    yield
    forked.end()


@pytest.fixture(autouse=True)
def no_test_hangs() -> Iterator[None]:
    """Fail a test that takes too long, where the system has alarms; what it waits for in native code goes on."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, _end)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _end(*_: object) -> NoReturn:
    pytest.fail(f"took longer than {LIMIT_S} s")
