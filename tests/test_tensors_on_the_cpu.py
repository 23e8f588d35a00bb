"""Products of tensors that are created on the CPU, which a region for CUDA does not cast."""

from __future__ import annotations

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP503"],)
PROGRAM = """
import numpy as np
import torch

{before}

def lens(pixels, focal, model):
    centred = {left}
    scaled = {right}
    return torch.inverse(centred @ scaled)

def measure(model, loader, focal):
    for pixels in loader:
        with torch.autocast("cuda"):
            pose = lens(pixels, focal, model)
"""


def told(left: str, right: str, before: str = "") -> bool:
    program = PROGRAM.format(left=left, right=right, before=before).encode()
    return bool(analyse(Job("program.py", "", program, RULES), Modules()).findings)


@pytest.mark.parametrize(
    "made",
    [
        "torch.eye(3)",
        "torch.diag(torch.tensor([focal, focal, 1.0]))",
        "torch.tensor([[focal, 0.0], [0.0, 1.0]]).float()",
        "torch.from_numpy(np.array([[2.0, 0.5], [0.0, 1.0]])).to(torch.float32)",
        "torch.from_numpy(np.load('lens.npy')).float().cuda().cpu()",
        "torch.zeros(3, 3).type(torch.float32) + 1.0",
    ],
)
def test_products_of_tensors_that_nothing_moves_stay_float32(made: str) -> None:
    assert not told(made, "torch.eye(3)")
    assert told(f"({made}).cuda()", "torch.eye(3).cuda()")


@pytest.mark.parametrize(
    "made",
    [
        "torch.eye(3, device='cuda')",
        "torch.eye(3).cuda()",
        "torch.eye(3).to('cuda')",
        "torch.eye(3).to(pixels.device)",
        "torch.eye(3).to(pixels)",
        "torch.eye(3).type_as(pixels)",
        "torch.eye(3).type(torch.cuda.FloatTensor)",
        "torch.tensor(pixels).float()",
        "torch.as_tensor(pixels).float()",
        "torch.eye(3, out=pixels)",
        "torch.nn.Parameter(torch.eye(3))",
    ],
)
def test_what_may_be_on_a_device_is_cast_there(made: str) -> None:
    assert told(made, made)


@pytest.mark.parametrize(
    "before",
    ["torch.set_default_device('cuda')", "torch.set_default_tensor_type(torch.cuda.FloatTensor)"],
)
def test_a_default_device_counts(before: str) -> None:
    assert told("torch.eye(3)", "torch.eye(3)", before)
    array = "torch.from_numpy(np.load('lens.npy')).float()"
    assert not told(array, array, before)
