"""The line that says which step runs stays apart from what a script prints, and is drawn on terminals only."""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from amplint.cli import step_line
from amplint.cli.step_line import StepLine
from amplint.trace.watching import Watch
from amplint.trace.whereabouts import Whereabouts
from amplint.trace.window import Window

DRAWN = "\r\x1b[2Kstep 1\r"


class Terminal(io.StringIO):
    """Standard output and error of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw lines without waiting."""
    monkeypatch.setattr(step_line, "_PATIENCE_S", 0)
    monkeypatch.setattr(step_line, "_INTERVAL_S", 0.001)


@contextlib.contextmanager
def on_terminal() -> Iterator[Terminal]:
    """Let this process write to a terminal."""
    terminal = Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield terminal


def wait(condition: Callable[[], bool]) -> None:
    """Until it holds, which takes a moment."""
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_the_line_gives_way_to_what_is_printed() -> None:
    with on_terminal() as terminal, StepLine(lambda: "step 1", hidden=False):
        wait(lambda: terminal.getvalue().endswith(DRAWN))
        print("epoch 1")
        wait(lambda: f"\r\x1b[2Kepoch 1\n{DRAWN}" in terminal.getvalue())
        print("50 %", end="")
        time.sleep(0.02)
        assert terminal.getvalue().endswith("\r\x1b[2K50 %")
        print()
        wait(lambda: terminal.getvalue().endswith(DRAWN))
    assert terminal.getvalue().endswith(f"{DRAWN}\r\x1b[2K")
    assert "write" not in vars(terminal)


def test_nothing_is_drawn_while_something_is_to_be_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def typed(prompt: str) -> str:
        seen.append(terminal.getvalue())
        time.sleep(0.02)
        seen.append(terminal.getvalue())
        return "y"

    monkeypatch.setattr(builtins, "input", typed)
    with on_terminal() as terminal, StepLine(lambda: "step 1", hidden=False):
        wait(lambda: terminal.getvalue().endswith(DRAWN))
        assert input("sure? ") == "y"
        wait(lambda: terminal.getvalue().endswith(DRAWN))
    assert seen[0] == seen[1]
    assert seen[0].endswith("\x1b[2K")
    assert builtins.input is typed


def test_a_fork_writes_as_it_would_alone() -> None:
    with on_terminal() as terminal, StepLine(lambda: "step 1", hidden=False) as line:
        wait(lambda: terminal.getvalue().endswith(DRAWN))
        held = threading.Thread(target=line._lock.acquire)
        held.start()
        held.join()
        child = os.fork()
        if not child:
            terminal.write("child\n")
            os._exit(0 if terminal.getvalue().endswith(f"{DRAWN}child\n") else 1)
        assert os.waitpid(child, 0)[1] == 0
        line._lock = threading.RLock()


@pytest.mark.parametrize("hidden", [True, False])
def test_where_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch, hidden: bool) -> None:
    with on_terminal() as terminal:
        if not hidden:
            monkeypatch.setattr(sys, "stderr", io.StringIO())
        with StepLine(lambda: "step 1", hidden=hidden):
            time.sleep(0.02)
    assert terminal.getvalue() == ""


def test_step_line_and_seconds_are_told() -> None:
    where = Whereabouts(Watch(Window(3, 1)), 4)
    assert where() == f"step 1 of 4, {os.path.basename(__file__)}:{sys._getframe().f_lineno}, 0 s"
    assert Whereabouts(Watch(Window()), None)().startswith("step 1, ")
