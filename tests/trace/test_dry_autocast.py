"""The CPU treats operations as CUDA's autocast does: compared with CUDA's own kernels on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.testing._internal.autocast_test_lists import AutocastCPUTestLists, AutocastTestLists
from torch.utils._pytree import tree_leaves, tree_map

from amplint.trace.dry import dry_run
from amplint.trace.dry.cuda import cuda_module
from amplint.trace.gpus import GPUS
from tests.trace.versions import VERSION

OWNERS = (torch, torch._C._nn, torch._C._linalg, torch._C._VariableFunctions)
GPU = GPUS["a100"]
NOT_COMPARED = {
    "cudnn_convolution": "only builds with cuDNN have it",
    "cudnn_convolution_transpose": "only builds with cuDNN have it",
    "equal": "its result depends on values, which fake tensors lack",
    "gru_cell": "a build without CUDA does not run it on fake tensors",
    "grid_sampler": "a build without CUDA does not run it on fake tensors",
}

CUDNN_ASKED = torch.backends.cudnn.is_available() and VERSION < (2, 7)
"""Convolutions of fake tensors ask cuDNN for a GPU in builds that have it."""


def calls(
    place: Callable[[torch.Tensor], torch.Tensor], lists: type = AutocastTestLists
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every call of PyTorch's own tests of autocast: a name, and what makes the call with operands as `place` gives."""
    for kind, entries in vars(lists(torch.device("cpu"))).items():
        for number, (name, arguments, *more) in enumerate(entries):
            options = next((one for one in more if isinstance(one, dict)), {})
            placed = tree_map(lambda one: place(one) if isinstance(one, torch.Tensor) else one, tuple(arguments))
            owner = torch.Tensor if kind.startswith("methods") else next(one for one in OWNERS if hasattr(one, name))
            function = getattr(owner, name)
            yield f"{kind} {number} {name}", lambda f=function, a=placed, o=options: f(*a, **o)


def dtypes(
    place: Callable[[torch.Tensor], torch.Tensor],
    half: torch.dtype,
    device: str = "cuda",
    lists: type = AutocastTestLists,
) -> dict[str, Any]:
    """The dtypes that each call gives, or the error that it raises."""
    found: dict[str, Any] = {}
    for name, call in calls(place, lists):
        with torch.autocast(device, dtype=half):
            try:
                found[name] = [one.dtype if isinstance(one, torch.Tensor) else one for one in tree_leaves(call())]
            except Exception as failure:
                found[name] = type(failure), str(failure).partition(". ")[0].partition(".\n")[0]
    return found


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_operations_give_the_dtypes_of_cuda(half: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    for asking in ("init_cuda_context", "init_gpu_context"):  # what builds with CUDA before 2.13 ask a driver
        monkeypatch.setattr(fake_tensor, asking, lambda *_: None, raising=False)
    mode = FakeTensorMode()

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        with unset_fake_temporarily():
            meta = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        return FakeTensor(mode, meta, torch.device("cuda:0"))

    with cuda_module(GPU), mode:
        real = dtypes(fake, half)
    with dry_run(GPU):
        dry = dtypes(lambda one: one.to("cuda"), half)
    assert len(real) > 100
    assert real.keys() == dry.keys()
    differing = {name.split()[-1]: (real[name], dry[name]) for name in real if real[name] != dry[name]}
    if CUDNN_ASKED:
        differing = {name: dtypes for name, dtypes in differing.items() if "conv" not in name}
    assert differing.keys() <= NOT_COMPARED.keys(), differing


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_regions_for_the_cpu_are_as_outside(half: torch.dtype) -> None:
    def stay(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    real = dtypes(stay, half, "cpu", AutocastCPUTestLists)
    with dry_run(GPU):
        assert dtypes(stay, half, "cpu", AutocastCPUTestLists) == real
        with torch.autocast("cuda"):
            assert dtypes(stay, half, "cpu", AutocastCPUTestLists) == real
    assert len(real) > 50


def test_each_device_has_its_regions() -> None:
    def made(device: str) -> torch.dtype:
        return linear[device](torch.ones(1, 2, device=device)).dtype

    with dry_run(GPU):
        linear = {device: torch.nn.Linear(2, 2, device=device) for device in ("cpu", "cuda")}
        with torch.autocast("cpu"):
            assert (made("cpu"), made("cuda")) == (torch.bfloat16, torch.float32)
            assert torch.is_autocast_enabled("cpu")
            assert not torch.is_autocast_enabled()
            with torch.autocast("cuda"):
                assert (made("cpu"), made("cuda")) == (torch.bfloat16, torch.float16)
                with torch.autocast("cpu", enabled=False):
                    assert (made("cpu"), made("cuda")) == (torch.float32, torch.float16)
            with torch.autocast("cuda", enabled=False):
                assert (made("cpu"), made("cuda")) == (torch.bfloat16, torch.float32)
        with torch.autocast("cuda"):
            assert (made("cpu"), made("cuda")) == (torch.float32, torch.float16)
            binary = torch.ones(1)
            assert torch.nn.functional.binary_cross_entropy(binary, binary) == 0
    assert not torch.is_autocast_enabled("cpu")


def test_a_dry_run_within_a_region_for_the_cpu() -> None:
    with torch.autocast("cpu"), dry_run(GPU):
        assert torch.is_autocast_enabled("cpu")
        assert torch.mm(torch.ones(1, 1), torch.ones(1, 1)).dtype == torch.bfloat16
