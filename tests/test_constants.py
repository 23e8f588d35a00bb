"""Numbers out of the range of float16, computed in all forms, and all ways to write them to a tensor."""

from __future__ import annotations

import pytest
import torch

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = tuple(load_registry().rules.values())
HEAD = (
    "import math\nimport sys\nimport numpy as np\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
)
SMALL = [
    "2 ** -30",
    "2 ** (-BIAS + 1)",
    "np.finfo(np.float32).tiny",
    "np.finfo('float32').tiny",
    "torch.finfo().tiny",
    "np.finfo(float).eps",
    "np.finfo(np.float32).eps * 1e-3",
    "min(1e-9, 1e-8)",
    "abs(-1e-9)",
    "pow(10, -9)",
    "math.pow(10, -9)",
    "math.exp(-30)",
    "np.float32(1e-9)",
]
LARGE = [
    "-(1 << 31)",
    "int(-1e9)",
    "max(-1e9, -1e20)",
    "-math.pow(10, 9)",
    "np.finfo(np.float32).min / 2",
    "np.iinfo(np.int32).min",
    "torch.iinfo(torch.int32).min",
]
OVERFLOWING = [
    "torch.full(x.shape, -1e9).half()",
    "m.float().masked_fill(m, -1e9).half()",
    "torch.where(m, 0.0, torch.tensor(-1e9)).to(x.dtype)",
    "torch.triu(torch.full((4, 4), -1e9), 1).to(torch.float16)",
    "((1 - m.float()) * -1e9).half()",
    "x.masked_fill(m, torch.tensor(-1e9))",
]
VANISHING = [
    "torch.maximum(x, x.new_tensor(1e-9)).log()",
    "1 / torch.max(x, torch.tensor(1e-9, dtype=x.dtype))",
    "x / (x + torch.tensor(1e-9))",
    "torch.where(x == 0, 1e-9, x).log()",
    "x.masked_fill(x == 0, 1e-9).log()",
    "torch.log2(x + 1e-30 * (x == 0).type(x.dtype))",
    "F.cosine_similarity(x, x, eps=1e-12)",
    "torch.logit(x, eps=1e-9)",
]
RIGHT = [
    "torch.full(x.shape, -1e4).half()",
    "torch.full(x.shape, -1e9).bfloat16()",
    "torch.full(x.shape, torch.finfo(x.dtype).min).half()",
    "m.float().masked_fill(m, -1e9).double()",
    "torch.log(x.float() + torch.tensor(1e-9))",
    "x.max(-1)",
    "torch.max(x, torch.tensor(1e-3, dtype=x.dtype)).log()",
    "torch.where(x == 0, 1e-3, x).log()",
    "F.cosine_similarity(x.float(), x.float(), eps=1e-12)",
    "x / (x + max(1e-9, 1e-3))",
]


def found(program: str, code: str) -> int:
    """The number of findings of a rule in a program."""
    raw = (HEAD + "BIAS = 127\n" + program).encode()
    findings = findings_of(raw, RULES, path="/nowhere/x.py")
    return sum(finding.code == code for finding in findings)


@pytest.mark.parametrize("number", SMALL)
def test_small_numbers_are_computed(number: str) -> None:
    program = "def f(x):\n    x = x.half()\n    return x / (x + NUMBER)\n"
    assert found(f"NUMBER = {number}\n{program}", "AMP402") == 1
    assert eval(number, {"BIAS": 127, **_modules()}) < 2.0**-25


@pytest.mark.parametrize("number", LARGE)
def test_large_numbers_are_computed(number: str) -> None:
    program = "def f(x, m):\n    x = x.half()\n    return x.masked_fill(m, NUMBER)\n"
    assert found(f"NUMBER = {number}\n{program}", "AMP401") == 1
    assert eval(number, _modules()) < -65504


@pytest.mark.parametrize("value", OVERFLOWING)
def test_what_is_converted_overflows(value: str) -> None:
    assert found(f"def f(x, m):\n    x = x.half()\n    return {value}\n", "AMP401") == 1
    x, m = torch.ones(4, 4, dtype=torch.float16), torch.eye(4) > 0
    if ".masked_fill(m, torch.tensor" in value:
        with pytest.raises(RuntimeError, match="without overflow"):
            eval(value, {"x": x, "m": m, **_modules()})
        return
    assert torch.isinf(eval(value, {"x": x, "m": m, **_modules()})).any()


@pytest.mark.parametrize("value", VANISHING)
def test_guards_that_are_tensors_vanish(value: str) -> None:
    assert found(f"def f(x, m):\n    x = x.half()\n    return {value}\n", "AMP402") == 1
    x = torch.zeros(4, 4, dtype=torch.float16)
    assert not torch.isfinite(eval(value, {"x": x, **_modules()})).all()


@pytest.mark.parametrize("value", RIGHT)
def test_what_is_right_is_left_alone(value: str) -> None:
    program = f"def f(x, m):\n    x = x.half()\n    return {value}\n"
    assert not found(program, "AMP401")
    assert not found(program, "AMP402")


def _modules() -> dict[str, object]:
    import math

    import numpy as np
    from torch.nn import functional

    return {"math": math, "np": np, "torch": torch, "F": functional}
