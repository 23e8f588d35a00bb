"""A dry run: scripts see a GPU, operands on two devices are refused, and afterwards all is as it was."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import amplint.trace
from amplint.trace.dry import dry_run
from amplint.trace.gpus import GPUS
from amplint.trace.kinds import is_cast
from tests.conftest import Command


@pytest.fixture
def gpu() -> Iterator[None]:
    """A dry run round the test."""
    with dry_run(GPUS["t4"]):
        yield


@pytest.mark.usefixtures("gpu")
def test_tensors_say_where_they_lie() -> None:
    on_cpu = torch.ones(2, 2)
    there = on_cpu.to("cuda", non_blocking=True)
    assert (there.device, there.is_cuda, there.is_cpu, there.get_device()) == (torch.device("cuda:0"), True, False, 0)
    assert there.type() == "torch.cuda.FloatTensor"
    assert there[0].t().device == there.new_zeros(3).device == (there * 2).device == torch.zeros_like(there).device
    assert torch.zeros(1, device=0).is_cuda
    assert torch.arange(3, device=there.device).is_cuda
    assert torch.as_tensor([1.0], device="cuda").is_cuda
    assert not on_cpu.is_cuda
    assert not there.cpu().is_cuda
    assert not torch.zeros_like(there, device="cpu").is_cuda
    assert on_cpu.to(there).is_cuda
    assert on_cpu.type_as(there).is_cuda
    assert there.to(torch.float16).is_cuda
    assert there.cuda() is there


@pytest.mark.usefixtures("gpu")
def test_what_is_made_there_lies_there() -> None:
    with torch.device("cuda"):
        assert nn.Linear(2, 2).weight.is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(1).is_cuda
        assert not torch.zeros(1, device="cpu").is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(1).is_cuda
    assert torch.cuda.FloatTensor([1.0]).is_cuda
    generator = torch.Generator(device="cuda").manual_seed(0)
    assert torch.randn(2, generator=generator, device="cuda").is_cuda


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_computed_again_has_its_region(reentrant: bool) -> None:
    layer, inputs = nn.Linear(2, 2).cuda(), torch.ones(1, 2, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        outputs = checkpoint(layer, inputs, use_reentrant=reentrant)
    outputs.float().sum().backward()
    assert outputs.dtype == torch.bfloat16
    assert inputs.grad is not None
    assert inputs.grad.is_cuda


@pytest.mark.usefixtures("gpu")
def test_the_gpu_has_its_own_memory() -> None:
    on_cpu = torch.zeros(2)
    there = on_cpu.cuda()
    there += 1
    assert on_cpu.tolist() == [0.0, 0.0]
    assert there.tolist() == [1.0, 1.0]


@pytest.mark.usefixtures("gpu")
def test_modules_and_their_copies_lie_there() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("cuda")
    tensors = [*model.state_dict().values(), *copy.deepcopy(model).state_dict().values()]
    assert all(tensor.is_cuda for tensor in tensors)
    assert nn.Linear(2, 2, device="cuda").weight.is_cuda
    assert not nn.Linear(2, 2).cuda().cpu().weight.is_cuda


@pytest.mark.usefixtures("gpu")
def test_gradients_go_back_to_where_their_tensor_lies() -> None:
    weight = torch.ones(2, requires_grad=True)
    weight.cuda().square().sum().backward()
    assert weight.grad is not None
    assert not weight.grad.is_cuda


@pytest.mark.usefixtures("gpu")
def test_checkpoints_remember_where_tensors_lay() -> None:
    file = io.BytesIO()
    torch.save({"there": torch.ones(2).cuda(), "here": torch.ones(2)}, file)
    file.seek(0)
    loaded = torch.load(file)
    assert (loaded["there"].is_cuda, loaded["here"].is_cuda) == (True, False)
    file.seek(0)
    assert not torch.load(file, map_location="cpu")["there"].is_cuda
    file.seek(0)
    assert torch.load(file, map_location=torch.device("cuda"))["here"].is_cuda


MISTAKES = {
    "operands apart": (lambda there: there + torch.ones(2, 2), "Expected all tensors to be on the same device"),
    "layer elsewhere": (lambda there: nn.Linear(2, 2)(there), "Expected all tensors to be on the same device"),
    "no such gpu": (lambda there: there.to("cuda:1"), "invalid device ordinal"),
    "dtypes apart": (lambda there: there @ there.half(), "same dtype"),
    "no half": (lambda there: torch.linalg.inv(there.half()), "Low precision dtypes not supported"),
}


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_as_on_a_gpu(name: str) -> None:
    mistake, message = MISTAKES[name]
    with pytest.raises(RuntimeError, match=message):
        mistake(torch.ones(2, 2).cuda())


@pytest.mark.usefixtures("gpu")
def test_numpy_gets_nothing_from_there() -> None:
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        torch.ones(2).cuda().numpy()


@pytest.mark.usefixtures("gpu")
def test_probabilities_are_refused_under_autocast() -> None:
    probabilities = torch.full((2,), 0.5).cuda()
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(probabilities, torch.ones(2).cuda())


@pytest.mark.usefixtures("gpu")
def test_what_only_the_cpu_lacks_in_half_runs() -> None:
    values = torch.rand(3, 3).cuda().half()
    assert torch.logcumsumexp(values, 0).dtype == torch.float16
    assert F.conv2d(values[None, None], values[None, None]).dtype == torch.float16


@pytest.mark.usefixtures("gpu")
def test_regions_for_the_cpu_stay_apart() -> None:
    there = torch.ones(2, 2).cuda()
    with torch.autocast("cuda"), torch.autocast("cpu"):
        assert (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")) == (True, torch.float16)
        assert (there @ there).dtype == torch.float16
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cuda")


@pytest.mark.usefixtures("gpu")
def test_weights_are_cast_once_in_a_region() -> None:
    layer = nn.Linear(2, 2).cuda()
    with amplint.trace.watch() as record, torch.autocast("cuda"):
        for _ in range(3):
            layer(torch.ones(1, 2).cuda())
    casts = sum(count for operation, count in record.operations.items() if is_cast(operation))
    assert casts == 2 + 3
    assert {operation.device for operation in record.operations if operation.op == "addmm"} == {"cuda"}


@pytest.mark.usefixtures("gpu")
def test_weights_that_were_cast_without_gradients_are_cast_again() -> None:
    layer = nn.Linear(2, 2).cuda()
    with torch.autocast("cuda"):
        with torch.no_grad():
            layer(torch.ones(1, 2).cuda())
        outputs = layer(torch.ones(1, 2).cuda())
    outputs.float().sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.usefixtures("gpu")
def test_regions_of_other_threads_are_of_the_same_dtype() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(product).result() == product() == torch.float16


def product() -> torch.dtype:
    with torch.autocast("cuda"):
        return (torch.ones(2, 2).cuda() @ torch.ones(2, 2).cuda()).dtype


@pytest.mark.usefixtures("gpu")
def test_numbers_on_both_devices_are_looked_at() -> None:
    with amplint.trace.watch(numerics="full") as record:
        for device in ("cpu", "cuda"):
            torch.ones(2, 2, device=device).half()
    assert sum(loss.elements for loss in record.losses) == 8


def train() -> list[float]:
    """A few steps with most of what scripts use of CUDA."""
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    recurrent = nn.LSTM(3, 8, batch_first=True).to(device)
    head = nn.Linear(8, 2, device=device)
    parameters = [*recurrent.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=0.01, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    data = TensorDataset(torch.randn(12, 5, 3), torch.randint(0, 2, (12,)))
    losses = []
    stream = torch.cuda.Stream()
    for batch, labels in DataLoader(data, batch_size=4, pin_memory=True):
        with torch.cuda.stream(stream):
            batch, labels = batch.to(device, non_blocking=True), labels.cuda()
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(head(recurrent(batch)[0][:, -1]), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.synchronize()
        losses.append(loss.item())
    return losses


def test_a_script_for_cuda_trains() -> None:
    with dry_run(GPUS["a100"]), amplint.trace.watch() as record:
        losses = train()
    assert losses[-1] < losses[0] + 0.1
    assert record.device == "cuda"
    assert [step.skipped for step in record.scaler_steps] == [False] * 3
    assert {held.dtype for held in record.held} == {"float32"}


def test_the_gpu_is_described() -> None:
    with dry_run(GPUS["t4"]):
        assert torch.cuda.get_device_name(0) == "Tesla T4"
        assert torch.cuda.get_device_capability() == (7, 5)
        assert torch.cuda.get_device_properties(0).total_memory == 16 * 2**30
        assert torch.cuda.get_device_properties("cuda").L2_cache_size == 4 * 2**20
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.cuda.is_bf16_supported(including_emulation=False) is False


def test_there_are_as_many_gpus_as_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    with dry_run(GPUS["a100"]):
        for number in (lambda: torch.cuda.set_device(1), lambda: torch.cuda.get_device_properties("cuda:1")):
            with pytest.raises(RuntimeError, match="invalid device ordinal"):
                number()
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with dry_run(GPUS["a100"]):
        torch.cuda.set_device(1)
        assert torch.cuda.device_count() == 2
        assert torch.ones(1, device="cuda").device == torch.ones(1).to("cuda:1").device == torch.device("cuda:1")


def test_afterwards_all_is_as_it_was() -> None:
    before = [{**vars(owner)} for owner in (torch, torch.cuda, torch.accelerator, torch._C, DataLoader)]
    with dry_run(GPUS["a100"]):
        pass
    assert before == [{**vars(owner)} for owner in (torch, torch.cuda, torch.accelerator, torch._C, DataLoader)]
    with torch.autocast("cpu"):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
        assert torch.ones(2, 2, dtype=torch.bfloat16).softmax(0).dtype == torch.bfloat16


SCRIPT = """import torch
model = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(9):
    with torch.autocast("cuda"):
        loss = model(torch.ones(2, 4, device="cuda")).float().sum()
    loss.backward()
    optimizer.step()
print(torch.cuda.get_device_name())
"""


def test_the_command_runs_dry(amplint: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ran = amplint("trace", "--dry-run", "--gpu", "h100", "--then", "continue", str(script))
    assert ran.status == 0
    assert ran.out == "NVIDIA H100 80GB HBM3\n"
    assert "3 steps on cuda" in ran.err
    assert "dry run: the CPU computed for NVIDIA H100" in ran.err
    assert "%" not in ran.err.partition("loss scale:")[0]
    assert "float16" in ran.err


@pytest.mark.parametrize("name", GPUS)
def test_every_gpu_can_be_pretended(name: str) -> None:
    with dry_run(GPUS[name]):
        assert torch.cuda.get_device_properties(0).shared_memory_per_block_optin >= 48 * 2**10
