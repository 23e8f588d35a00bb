"""The fixture `amp_trace`, in a pytest that knows nothing of amplint but the plug-in."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from tests.test_packaging import PROJECT

pytest_plugins = ["pytester"]

TESTS = """
import torch

def test_dtypes(amp_trace):
    model = torch.nn.Linear(4, 4)
    with amp_trace() as record, torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.ones(2, 4))
    record.assert_dtype("model", torch.bfloat16)
    record.assert_no_findings()

def test_float32(amp_trace):
    model = torch.nn.Linear(4, 4)
    with amp_trace(steps=1) as record:
        model(torch.ones(2, 4))
    record.assert_dtype("model", torch.float16)

def test_product(amp_trace):
    with amp_trace() as record, torch.autocast("cpu", dtype=torch.bfloat16):
        torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=torch.empty(2, 2))
    record.assert_no_findings()

def test_cuda_without_a_gpu(amp_trace):
    with amp_trace(dry_run=True, skip=0) as record, torch.autocast("cuda", dtype=torch.float16):
        torch.nn.Linear(4, 4).cuda()(torch.ones(2, 4, device="cuda"))
    record.assert_no_findings()
    assert record.device == "cuda"

def test_nothing(amp_trace):
    with amp_trace(steps=2) as record:
        pass
    record.assert_no_findings()
"""


def test_the_fixture_and_its_assertions(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(TESTS)
    done = pytester.runpytest_inprocess("-p", "amplint.trace.pytest_plugin")
    done.assert_outcomes(passed=2, failed=3)
    done.stdout.fnmatch_lines(
        [
            "E *model computes in float32 (addmm, *test_*.py:*), not in float16",
            "test_*.py:14: AssertionError",
            "E *AMP801 mm ran in float32, once*",
            "E *nothing was recorded: no operation ran in the process that is watched*",
        ]
    )


def test_the_plug_in_is_an_entry_point_that_loads_little() -> None:
    (module,) = PROJECT["project"]["entry-points"]["pytest11"].values()
    assert import_module(module).amp_trace
    program = f"import sys, {module}; print(sorted({{'torch', 'libcst', 'click'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
