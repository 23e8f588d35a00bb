"""What scripts of others do in a dry run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from amplint.trace import watch
from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS


@pytest.fixture
def gpu() -> Iterator[None]:
    with dry_run(GPUS["a100"]):
        yield


@pytest.mark.usefixtures("gpu")
@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_default_kind_of_tensors_can_be_that_of_the_gpu() -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        assert torch.Tensor([1.0]).is_cuda
        assert torch.Tensor(np.ones(2, np.float32)).is_cuda
        assert torch.Tensor(2, 3).is_cuda
        assert torch.nn.Parameter(torch.zeros(1)).is_cuda
        assert not torch.from_numpy(np.ones(2)).is_cuda
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert not torch.Tensor([1.0]).is_cuda


def test_a_default_device_does_not_hold_up_what_the_tracer_counts() -> None:
    with dry_run(GPUS["a100"]), watch(steps=1, skip=0) as record:
        torch.set_default_device("cuda")
        model = torch.nn.Linear(8, 8)
        model(torch.ones(4, 8)).sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        torch.set_default_device(None)
        torch.ones(4, 8).requires_grad_().sum().backward()
    assert record.histograms


def test_a_default_kind_ends_with_the_dry_run() -> None:
    with dry_run(GPUS["a100"]):
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
        assert torch.Tensor([1.0]).is_cuda
    assert torch.Tensor([1.0]).device.type == "cpu"


def _add(rank: int, seen: list[tuple[int, bool]]) -> None:
    seen.append((rank, torch.ones(1, device="cuda").is_cuda))


@pytest.mark.usefixtures("gpu")
def test_a_single_process_that_is_spawned_is_this_one() -> None:
    seen: list[tuple[int, bool]] = []
    torch.multiprocessing.spawn(_add, (seen,), torch.cuda.device_count())
    context = torch.multiprocessing.spawn(_add, (seen,), join=False)
    assert context.join()
    assert seen == [(0, True), (0, True)]


@pytest.mark.usefixtures("gpu")
def test_streams_are_given_by_their_name() -> None:
    with torch.cuda.stream(stream=torch.cuda.Stream()):
        assert torch.ones(1, device="cuda").is_cuda
