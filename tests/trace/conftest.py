"""The process that forks for tests, which ends with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.trace import forked


@pytest.fixture(scope="session", autouse=True)
def the_process_that_forks_ends() -> Iterator[None]:
    yield
    forked.end()
