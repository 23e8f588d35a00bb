"""`--from cuda-amp` where another tool's repair of the same names breaks programs."""

from __future__ import annotations

import warnings

import pytest
import torch

from amplint.codemods import Wish, convert

FLAG = """import torch
from torch.cuda.amp import autocast


def run(use_amp):
    with autocast(use_amp):
        return torch.is_autocast_enabled("cuda")
"""
NO_TORCH = """from torch.cuda.amp import GradScaler as Scaler


def run(use_amp):
    return Scaler(enabled=use_amp).is_enabled()
"""
CALLED_WITHOUT_TORCH = """import torch.nn as nn
from torch.cuda import amp


def run(use_amp):
    with amp.autocast(enabled=use_amp):
        return nn.Module() is not None and bool(use_amp)
"""
MODULE = """import torch
import torch.cuda.amp as amp


def run(use_amp):
    with amp.autocast(enabled=use_amp):
        return torch.is_autocast_enabled("cuda")
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FLAG, 'autocast("cuda", enabled=use_amp)'),
        (NO_TORCH, 'Scaler("cuda", enabled=use_amp)'),
        (CALLED_WITHOUT_TORCH, 'torch.amp.autocast("cuda", enabled=use_amp)'),
        (MODULE, 'torch.amp.autocast("cuda", enabled=use_amp)'),
    ],
    ids=["a flag by position", "no import of torch", "a module of torch", "a module's own name"],
)
def test_the_result_means_the_same(old: str, new: str) -> None:
    conversion = convert(old, Wish(source="cuda-amp"))
    assert conversion.refused == ()
    assert new in conversion.text
    assert "amp.amp" not in conversion.text
    assert "cuda.amp" not in conversion.text
    module: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that there is no GPU
        exec(conversion.text, module)
        run = module["run"]
        assert callable(run)
        assert not run(False)
        assert run(True) is (torch.cuda.is_available() or old is CALLED_WITHOUT_TORCH)
    assert convert(conversion.text, Wish(source="cuda-amp")).text == conversion.text
