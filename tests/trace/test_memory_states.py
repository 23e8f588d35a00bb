"""`amplint memory --parameters`: model states from a count alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplint.cli.memory import Count
from amplint.trace.gpus import fitting
from amplint.trace.memory.states import OPTIMIZERS, states
from tests.conftest import Command


def test_adam_takes_sixteen_bytes_a_parameter_under_three_recipes() -> None:
    totals = {each.recipe: each.total for each in states(1000, "adam")}
    assert totals.pop("bfloat16 throughout") == 8000
    assert set(totals.values()) == {16000}


def test_autocast_keeps_float32_weights_and_gradients() -> None:
    float32, amp, masters, _ = states(1000, "momentum")
    assert (amp.weights, amp.gradients, amp.masters) == (float32.weights, float32.gradients, 0)
    assert amp.copies == 2000
    assert (masters.weights, masters.gradients, masters.masters, masters.optimizer) == (2000, 2000, 4000, 4000)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_smallest_gpu_that_holds_them_comes_first(optimizer: str) -> None:
    for each in states(3_500_000_000, optimizer):
        sizes = [gpu.memory for gpu in fitting(each.total)]
        assert sizes == sorted(sizes)
        assert all(size * 2**30 > each.total for size in sizes)


@pytest.mark.parametrize(
    ("text", "number"), [("3.5e9", 3_500_000_000), ("7B", 7_000_000_000), ("125M", 125_000_000), ("1_000", 1000)]
)
def test_counts_are_written_as_people_write_them(text: str, number: int) -> None:
    assert Count().convert(text, None, None) == number


@pytest.mark.parametrize("text", ["many", "-1", "0", "1e99", "7BB", "", "0x10"])
def test_other_counts_are_refused(amplint: Command, text: str) -> None:
    done = amplint("memory", "--parameters", text)
    assert done.status == 2
    assert "no number of parameters; write 3.5e9, 7B or 125M" in done.err


def test_the_documented_table_is_what_comes_out(amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    done = amplint("memory", "--parameters", "3.5e9", "--optimizer", "adam")
    page = Path(__file__).parents[2] / "docs" / "memory.md"
    assert done.status == 0, done.err
    assert done.out in page.read_text(encoding="utf-8")


def test_a_model_that_no_gpu_holds(amplint: Command) -> None:
    done = amplint("memory", "--parameters", "1T")
    assert "none" in done.out


def test_torch_is_not_needed() -> None:
    program = (
        "import sys; from amplint.cli.main import main\n"
        "try: main(['memory', '--parameters', '7B'])\nexcept SystemExit: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
