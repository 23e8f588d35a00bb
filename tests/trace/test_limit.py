"""Tests that hang."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.trace.conftest import LIMIT_S
from tests.trace.forked import python


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="the system has no alarms")
def test_a_script_that_hangs_fails_its_test_and_leaves_the_next_alone(tmp_path: Path) -> None:
    signal.alarm(1)
    with pytest.raises(pytest.fail.Exception, match=f"took longer than {LIMIT_S} s"):
        python(tmp_path, os.environ, "-c", "import time; time.sleep(3600)")
    signal.alarm(LIMIT_S)
    assert python(tmp_path, os.environ, "-c", "print(1)").stdout == "1\n"
