"""Estimates against what CUDA's allocator counts, on a machine with a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import amplint.trace
from amplint.trace.gpus import GPUS
from amplint.trace.memory.estimates import variants
from amplint.trace.memory.estimating import estimates

TRAINED = Path(__file__).parent / "trained"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def pretended() -> str:
    """The GPU in the list that is most like the one at hand."""
    capability = torch.cuda.get_device_capability()
    return min(GPUS, key=lambda name: (GPUS[name].capability != capability, GPUS[name].capability[0] != capability[0]))


@pytest.mark.parametrize("program", ["mlp", "cnn", "transformer"])
def test_the_estimate_is_within_a_tenth_of_the_peak(program: str) -> None:
    path = TRAINED / f"{program}.py"
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    measured = int(ran.stdout.split()[-1])
    (estimate,) = estimates(str(path), [], variants(4)[:1], pretended())
    print(program, pretended(), measured, estimate.total, dict(estimate.peak))
    assert estimate.total == pytest.approx(measured, rel=0.1), estimate.refused


def test_a_trace_has_the_peak_of_the_allocator() -> None:
    torch.cuda.reset_peak_memory_stats()
    with amplint.trace.watch() as record:
        torch.ones(2**20, device="cuda").mul(2)
    assert record.memory is not None
    assert 2 * 4 * 2**20 <= record.memory <= torch.cuda.max_memory_allocated()
