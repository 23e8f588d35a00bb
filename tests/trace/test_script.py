"""A script that is watched notices nothing of it: neither itself nor the processes that it starts."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from amplint.trace.record import Record
from amplint.trace.run import run as watched
from amplint.trace.watching import Watch
from amplint.trace.window import Window
from tests.trace.test_command import run, trace, trace_afresh

SCRIPT = """\
import argparse, atexit, os, pickle, sys, threading, time
import helper
import torch
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((4,), float(index)).mul(2)

class Model(torch.nn.Linear):
    pass

def later():
    time.sleep(0.2)
    print(pickle.loads(pickle.dumps(Model)) is Model, sys.argv)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = Model(4, 1)
    atexit.register(lambda: print("exit", pickle.loads(pickle.dumps(model)).weight))
    print(parser.prog, arguments.lr, sys.path[0], sys.argv, open("data.txt").read(), __file__, __spec__, __doc__)
    torch.save(model, "model.pt")
    print(type(torch.load("model.pt", weights_only=False)) is Model)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    for context in ("fork", "spawn"):
        for batch in DataLoader(Data(), batch_size=2, num_workers=1, multiprocessing_context=context):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(batch).sum()
            loss.backward()
            optimizer.step()
            print(loss.item())
    threading.Thread(target=later).start()
    sys.exit(3)
"""


@pytest.mark.slow
def test_processes_threads_pickles_and_paths(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "helper.py").touch()
    (tmp_path / "sub" / "train.py").write_text(SCRIPT)
    (tmp_path / "data.txt").write_text("data")
    alone = run(tmp_path, "sub/train.py", "--lr", "0.5")
    ran = trace_afresh(tmp_path, "-q", "--then", "continue", "sub/train.py", "--lr", "0.5")
    assert alone.returncode == ran.returncode == 3, ran.stderr
    assert ran.stdout == alone.stdout


SIGNALLED = """\
import os, signal
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.ones(2, 4)).sum().backward()
    if step == 2:
        END
    optimizer.step()
"""


def test_sigterm_ends_a_script_as_it_does_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SIGNALLED.replace("END", "os.kill(os.getpid(), signal.SIGTERM)"))
    ran = trace(tmp_path, "--output", "trace.json", "train.py")
    assert ran.returncode == -signal.SIGTERM
    assert "1 step on cpu" in ran.stderr
    record = Record.from_json((tmp_path / "trace.json").read_text())
    assert (record.steps, record.cut) == (1, True)


def test_a_script_that_leaves_at_once_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SIGNALLED.replace("END", "os._exit(5)"))
    ran = trace(tmp_path, "--output", "trace.json", "train.py")
    assert (ran.returncode, ran.stdout, ran.stderr) == (5, "", "")
    assert not (tmp_path / "trace.json").exists()


@pytest.fixture
def take_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a script take over this process for the time of a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def test_an_excepthook_of_the_script_is_asked(
    take_over: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.excepthook = lambda *failure: print(failure[1])\nint('x')\n")
    assert watched("train.py", (), Watch(Window())) == 1
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("invalid literal for int() with base 10: 'x'\n", "")


def test_an_interrupted_script(take_over: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train.py").write_text("raise KeyboardInterrupt\n")
    watch = Watch(Window())
    assert watched("train.py", (), watch) == 128 + signal.SIGINT
    assert watch.record.cut
    assert "train.py" in capsys.readouterr().err


def test_a_script_behind_a_link_finds_its_neighbours(
    take_over: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside_a_link.py").write_text("NAME = 'beside'\n")
    (tmp_path / "there" / "train.py").write_text("import beside_a_link\nprint(beside_a_link.NAME, __file__)\n")
    os.symlink("there/train.py", "link.py")
    assert watched("link.py", (), Watch(Window())) == 0
    assert capsys.readouterr().out == f"beside {tmp_path / 'link.py'}\n"


def test_a_script_may_close_its_output(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys\nsys.stdout.close()\nint('x')\n")
    ran = trace(tmp_path, "-q", "train.py")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "\nValueError: invalid literal for int()" in ran.stderr
    assert "amplint" not in ran.stderr


REPLACED = """\
import sys
import torch

class Logger:
    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        self.stream.write(text)

    def flush(self):
        self.stream.flush()

sys.stderr = Logger(sys.stderr)
torch.ones(2) + 1
"""


def test_a_script_that_replaces_standard_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REPLACED)
    ran = trace_afresh(tmp_path, "train.py")
    assert ran.returncode == 0
    assert "no steps on cpu" in ran.stderr


THREADS = """\
import threading
import torch

def work():
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    print("not reached")

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_end_without_a_word_behind_the_window(
    take_over: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    (tmp_path / "train.py").write_text(THREADS)
    assert watched("train.py", (), Watch(Window(steps=1), stop=True)) == 0
    assert capsys.readouterr() == ("", "")
