"""Where no step was recorded, the reports say what was seen instead, and assertions do not pass for it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import torch
from torch import nn

import amplint.trace
from amplint.reports.trace import summary
from amplint.trace.absence import absence
from amplint.trace.record import Record
from tests.conftest import Command


def trained(steps: int, **window: int) -> Record:
    """The record of a loop of `steps` steps."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(**window) as record:
        for _ in range(steps):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    return record


def test_a_window_behind_the_end() -> None:
    assert absence(trained(4, skip=500)) == ("4 steps were taken, none in the window, which leaves out the first 500")
    assert absence(trained(1, skip=1)) == "1 step was taken, none in the window, which leaves out the first"
    assert absence(trained(2, skip=1)) == ""


def test_backward_passes_without_a_step() -> None:
    model = nn.Linear(4, 4)
    with amplint.trace.watch() as record:
        for _ in range(4):
            model(torch.ones(2, 4)).sum().backward()
    assert absence(record) == "backward() ran 4 times and no optimizer stepped"
    assert "no optimizer stepped" in summary(record, [])


def test_inference_is_no_absence() -> None:
    with amplint.trace.watch() as record, torch.no_grad():
        nn.Linear(4, 4)(torch.ones(2, 4))
    assert absence(record) == ""
    record.assert_no_findings()


def test_work_in_another_process() -> None:
    with amplint.trace.watch() as record:
        child = multiprocessing.get_context("fork").Process(target=int)
        child.start()
        child.join()
    assert absence(record) == (
        "1 process that it started is not watched; no operation ran in the process that is watched"
    )


def test_an_empty_record_asserts_nothing() -> None:
    with pytest.raises(AssertionError, match="nothing was recorded: 1 step was taken"):
        trained(1, skip=1).assert_no_findings()
    trained(2, skip=1).assert_no_findings()


def test_the_command_says_so(amplint: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "weight = torch.ones(2, requires_grad=True)\n"
        "optimizer = torch.optim.SGD([weight], lr=0.1)\n"
        "for _ in range(3):\n"
        "    weight.sum().backward()\n"
        "    optimizer.step()\n"
    )
    told = " ".join(amplint("trace", "--skip", "9", str(script)).err.split())
    assert "no steps on no device" in told
    assert "3 steps were taken, none in the window, which leaves out the first 9" in told
