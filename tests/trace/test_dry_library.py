"""What scripts use of PyTorch besides tensors and modules, in a dry run."""

from __future__ import annotations

import gc
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, TensorDataset

import amplint.trace
from amplint.trace.dry import CannotFollow, dry_run
from amplint.trace.gpus import GPUS
from tests.trace.versions import VERSION


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """A dry run round each test."""
    with dry_run(GPUS["a100"]):
        yield


@pytest.fixture
def group(gpu: None, tmp_path: Path) -> Iterator[None]:
    """A process group of one process, begun as for NCCL."""
    device = torch.device("cuda:0")
    distributed.init_process_group(
        "nccl", init_method=f"file://{tmp_path}/group", rank=0, world_size=1, device_id=device
    )
    yield
    distributed.destroy_process_group()


def trained(model: nn.Module) -> torch.Tensor:
    """The loss of one step, after which the first parameter is where it was."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(2, 4, device="cuda")).float().sum()
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.usefixtures("group")
def test_data_parallel_in_one_process() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).cuda()
    with torch.autocast("cuda"):
        assert trained(DistributedDataParallel(module=model, device_ids=[0], output_device=0)).is_cuda
    assert all(parameter.grad is not None and parameter.grad.is_cuda for parameter in model.parameters())


@pytest.mark.usefixtures("group")
@pytest.mark.filterwarnings("ignore")
def test_fully_sharded() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, fully_shard

    half = MixedPrecision(param_dtype=torch.float16)
    assert trained(FullyShardedDataParallel(nn.Linear(4, 4), device_id=0, mixed_precision=half)).is_cuda
    model = nn.Linear(4, 4).cuda()
    fully_shard(model, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    assert model.weight.is_cuda
    assert trained(model).is_cuda


@pytest.mark.usefixtures("group")
def test_collectives() -> None:
    there = torch.ones(2, device="cuda")
    distributed.all_reduce(there, op=distributed.ReduceOp.AVG if VERSION >= (2, 7) else distributed.ReduceOp.SUM)
    distributed.all_to_all_single(torch.empty_like(there), there)
    distributed.barrier(device_ids=[0])
    distributed.new_group(backend="nccl")
    assert distributed.is_nccl_available()


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_is_called_back_sees_the_gpu(reentrant: bool) -> None:
    class Shifted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: torch.Tensor) -> torch.Tensor:
            return inputs + torch.ones(2, device=inputs.device)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            assert gradient.device == torch.device("cuda:0")
            return gradient * torch.ones(2, device="cuda")

    def segment(inputs: torch.Tensor) -> torch.Tensor:
        return (Shifted.apply(inputs) * torch.ones(2, device="cuda").to("cuda:0")).sin()  # type: ignore[no-untyped-call]

    leaf = torch.ones(2, device="cuda", requires_grad=True)
    checkpoint(segment, leaf, use_reentrant=reentrant).sum().backward()
    torch.autograd.grad(segment(leaf).sum(), leaf)
    assert leaf.grad is not None
    assert leaf.grad.is_cuda


@pytest.mark.parametrize("pinned", [False, True])
def test_activations_can_be_kept_by_the_cpu(pinned: bool) -> None:
    leaf = torch.ones(2, device="cuda", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
        loss = (leaf.exp() * leaf).sum()
    loss.backward()
    assert leaf.grad is not None
    assert leaf.grad.is_cuda


def test_kinds_of_tensors() -> None:
    there = torch.ones(2).type(torch.cuda.FloatTensor)
    assert isinstance(there, torch.cuda.FloatTensor)
    assert not isinstance(torch.ones(2), torch.cuda.FloatTensor)
    assert there.type("torch.cuda.HalfTensor").dtype == torch.float16
    assert not there.type(torch.FloatTensor).is_cuda
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    assert nn.Linear(2, 2).weight.is_cuda
    torch.set_default_tensor_type("torch.FloatTensor")
    assert not torch.zeros(1).is_cuda


def test_random_numbers_come_from_a_generator_of_their_device() -> None:
    on_cpu, there = torch.Generator(), torch.Generator("cuda")
    assert (on_cpu.device.type, there.device) == ("cpu", torch.device("cuda:0"))
    assert torch.randn(2, generator=there, device="cuda").is_cuda
    for generator, device in ((on_cpu, "cuda"), (there, "cpu")):
        with pytest.raises(RuntimeError, match=f"Expected a '{device}' device type for generator"):
            torch.randn(2, generator=generator, device=device)


def test_pinned_memory() -> None:
    assert torch.empty(2, pin_memory=True).tolist() is not None
    data = TensorDataset(torch.ones(4))
    loader: DataLoader[Any] = DataLoader(data, 2, False, None, None, 1, None, True)
    assert loader.pin_memory
    assert [batch.shape for (batch,) in loader] == [(2,), (2,)]
    there = TensorDataset(torch.ones(4).cuda())
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        list(DataLoader(there, 2, pin_memory=True))
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        torch.ones(1).cuda().pin_memory()


def test_sparse_tensors_lie_somewhere() -> None:
    there = torch.eye(2).to_sparse().cuda()
    assert (there.device, (there @ torch.ones(2, 2).cuda()).is_cuda) == (torch.device("cuda:0"), True)
    assert there.to_sparse_csr().is_cuda
    with pytest.raises(RuntimeError, match="same device"):
        torch.sparse.mm(there, torch.ones(2, 2))


def test_streams_graphed_callables_and_settings() -> None:
    there = torch.ones(1, 2, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()), torch.Stream("cuda"), torch.cuda.nvtx.range("step"):
        there.record_stream(torch.cuda.current_stream())
    with torch.profiler.profile(activities=list(torch.profiler.supported_activities())):
        there = there + 1
    layer = nn.Linear(2, 2).cuda()
    assert torch.cuda.make_graphed_callables(layer, (there,)) is layer
    assert torch.cuda.memory_stats()["allocated_bytes.all.peak"] == torch.cuda.memory.memory_allocated() == 0
    torch.backends.cuda.preferred_linalg_library("cusolver")
    torch.backends.cuda.cufft_plan_cache[0].max_size = 10
    query = torch.ones(1, 2, 4, 8, device="cuda", dtype=torch.float16)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        assert nn.functional.scaled_dot_product_attention(query, query, query).dtype == torch.float16


def test_optimizers_keep_their_state_there() -> None:
    for options in ({"capturable": True}, {"fused": True}, {"foreach": True}):
        layer = nn.Linear(4, 4).cuda()
        optimizer = torch.optim.AdamW(layer.parameters(), **options)
        layer(torch.ones(1, 4).cuda()).sum().backward()
        optimizer.step()
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        optimizer.load_state_dict(torch.load(file, map_location="cpu"))
        assert optimizer.state[layer.weight]["exp_avg"].is_cuda


def test_a_worker_that_was_forked_has_no_gpu() -> None:
    class Data(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.ones(1).cuda()

    torch.ones(1).cuda()
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        list(DataLoader(Data(), num_workers=1, multiprocessing_context="fork"))
    gc.collect()  # ends the worker, which the traceback holds
    assert next(iter(DataLoader(Data()))).is_cuda


def alone(rank: int) -> None:
    """What a process does that is not this one."""
    torch.ones(1).cuda()


def test_several_processes_are_too_many() -> None:
    alone(0)
    with pytest.raises(CannotFollow, match="several processes that a script starts"):
        torch.multiprocessing.start_processes(alone, nprocs=2, start_method="fork")


def test_threads_see_the_gpu() -> None:
    with ThreadPoolExecutor(1) as pool:
        there = pool.submit(torch.ones, 1, device="cuda").result()
        assert pool.submit(torch.add, there, 1).result().is_cuda


def test_tensors_are_shown_with_their_device() -> None:
    there = nn.Parameter(torch.ones(2, device="cuda", dtype=torch.float16))
    assert repr(there.detach().float()) == "tensor([1., 1.], device='cuda:0')"
    shown = "Parameter containing:\ntensor([1., 1.], device='cuda:0', dtype=torch.float16, requires_grad=True)"
    assert str(there) == shown
    assert str(torch.ones(1)) == "tensor([1.])"


def test_what_has_no_memory_of_its_own() -> None:
    there = torch.ones(2).cuda()
    assert there.to("meta").device.type == "meta"
    assert torch.nested.nested_tensor([there, there], device="cuda").is_cuda
    assert torch.func.hessian(lambda values: values.exp().sum())(there).is_cuda


def test_storages_can_be_put_there() -> None:
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    file.seek(0)
    assert torch.load(file, map_location=lambda storage, location: storage.cuda(0)).is_cuda


def test_seeds_of_the_gpu_count() -> None:
    drawn = []
    for _ in range(2):
        torch.cuda.manual_seed_all(1)
        drawn.append(torch.randn(2, device="cuda"))
    assert torch.equal(*drawn)


@pytest.mark.skipif(VERSION < (2, 7), reason="PyTorch 2.6 runs no flex_attention under a mode")
@pytest.mark.filterwarnings("ignore")
def test_higher_order_operators() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    query = torch.ones(1, 2, 16, 8, device="cuda", requires_grad=True)
    with amplint.trace.watch():
        attended = flex_attention(query, query, query)
        attended.sum().backward()  # type: ignore[union-attr]
    assert attended.is_cuda  # type: ignore[union-attr]
    assert query.grad is not None


def test_programs_that_are_taken_from_a_model() -> None:
    layer, inputs = nn.Linear(2, 2).cuda(), torch.ones(1, 2).cuda()
    assert torch.export.export(layer, (inputs,)).module()(inputs).is_cuda
    taken = torch.compile(layer, backend="aot_eager")(inputs)
    taken.sum().backward()
    assert taken.is_cuda
