"""A pytest plug-in with the fixture `amp_trace`. It imports neither torch nor the rest of amplint on loading."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from amplint.trace import watch

if TYPE_CHECKING:
    from amplint.trace.watching import Watch


@pytest.fixture
def amp_trace() -> Callable[..., Watch]:
    """Watch a block of a test: `with amp_trace() as record:`; takes the arguments of `amplint.trace.watch`."""
    return watch
