"""Every kind of run is watched as it is: parallel models, functions of one's own, no optimizer or several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import amplint.trace
from amplint.reports.trace import summary
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace.versions import SHARDS_ON_CPUS


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def train(model: nn.Module, steps: int = 2, *, scaler: torch.amp.GradScaler | None = None) -> list[float]:
    """Train on batches of 2 x 4 ones in bfloat16 regions; the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.ones(2, 4)).float().pow(2).sum()
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def layers() -> nn.Module:
    """Two layers, the same ones each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))


def products(record: Record, phase: str) -> dict[str, int]:
    """How many matrix products each module ran in a phase, all of which were in bfloat16."""
    counts: dict[str, int] = {}
    for op, count in record.operations.items():
        if op.phase == phase and op.op in ("addmm", "mm", "linear"):
            assert op.outputs == ("bfloat16",)
            counts[op.module] = counts.get(op.module, 0) + count
    return counts


def test_data_parallel_on_a_cpu_is_its_module() -> None:
    model = nn.DataParallel(layers())
    with amplint.trace.watch() as record:
        train(model)
    assert products(record, "forward") == {"model.module.0": 2, "model.module.1": 2}


def test_distributed_data_parallel(one_rank: None) -> None:
    plain = train(nn.parallel.DistributedDataParallel(layers()))
    model = nn.parallel.DistributedDataParallel(layers())
    with amplint.trace.watch() as record:
        assert train(model) == plain
    assert products(record, "forward") == {"model.module.0": 2, "model.module.1": 2}
    assert any(op.op == "allreduce_" for op in record.operations)
    assert findings(record) == []


@pytest.mark.skipif(not SHARDS_ON_CPUS, reason="this PyTorch has no fully_shard on CPUs")
def test_fully_sharded(one_rank: None) -> None:
    def sharded() -> nn.Module:
        model = layers()
        mesh = distributed.init_device_mesh("cpu", (1,))
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    plain = train(sharded())
    model = sharded()
    with amplint.trace.watch() as record:
        assert train(model) == plain
    assert products(record, "forward") == {"model.0": 2, "model.1": 2}
    assert {held.name for held in record.held} == {"model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias"}
    assert findings(record) == []


def test_fully_sharded_by_a_wrapper_and_its_scaler(one_rank: None) -> None:
    def sharded() -> nn.Module:
        cpu, alone = torch.device("cpu"), ShardingStrategy.NO_SHARD
        return FullyShardedDataParallel(layers(), device_id=cpu, sharding_strategy=alone)

    def scaler() -> ShardedGradScaler:
        return ShardedGradScaler("cpu", init_scale=4.0, growth_interval=1)

    plain = train(sharded(), scaler=scaler())
    model = sharded()
    with amplint.trace.watch() as record:
        assert train(model, scaler=scaler()) == plain
    assert record.steps == 2
    assert [(step.scale, step.after, step.skipped) for step in record.scaler_steps] == [(4, 8, False), (8, 16, False)]


def test_a_scaler_of_ones_own_that_is_defined_while_watched() -> None:
    with amplint.trace.watch() as record:

        class Own(torch.amp.GradScaler):
            def step(self, optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> float | None:
                return super().step(optimizer, *args, **kwargs)

            def update(self, new_scale: float | torch.Tensor | None = None) -> None:
                super().update(new_scale)

        train(layers(), scaler=Own("cpu", init_scale=2.0))
    assert (record.steps, [step.step for step in record.scaler_steps]) == (2, [0, 1])
    assert "__init_subclass__" not in vars(torch.amp.GradScaler)


class Scaled(torch.autograd.Function):
    """A product in half, whatever is on around it."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.bfloat16)
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """(N, C), (D, C) -> (N, D)."""
        ctx.save_for_backward(x, weight)
        return x.mm(weight.t())

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(N, D) -> (N, C), (D, C)."""
        x, weight = ctx.saved_tensors
        return gradient.mm(weight), gradient.t().mm(x)


def test_functions_of_ones_own() -> None:
    class Model(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Scaled.apply(x, self.weight)

    torch.manual_seed(0)
    plain = train(Model(4, 4))
    torch.manual_seed(0)
    model = Model(4, 4)
    with amplint.trace.watch() as record:
        assert train(model) == plain
    assert products(record, "forward") == {"model": 2}
    backward = [op for op in record.operations if op.op == "mm" and op.phase == "backward"]
    assert {op.module for op in backward} <= {"model", ""}
    assert sum(record.operations[op] for op in backward) == 4


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = layers()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.layers, x.requires_grad_(), use_reentrant=reentrant)

    plain = train(Model())
    model = Model()
    with amplint.trace.watch() as record:
        assert train(model) == plain
    assert products(record, "forward") == {"model.layers.0": 2, "model.layers.1": 2}
    again = {"model.layers.0": 2, "model.layers.1": 2} if reentrant else {"model.layers.0": 2}
    assert products(record, "recomputation") == again  # what nothing needs is not computed again
    assert sum(products(record, "backward").values()) == 8


def test_an_inference_script_is_recorded_as_a_whole() -> None:
    model = layers()
    with amplint.trace.watch(steps=3, skip=1) as record, torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for _ in range(5):
            model(torch.ones(2, 4))
    assert (record.steps, record.held) == (0, [])
    assert summary(record, []).startswith("no steps on cpu")
    assert products(record, "forward") == {"model.0": 5, "model.1": 5}


def test_inference_mode() -> None:
    model = layers()
    with amplint.trace.watch() as record, torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.ones(2, 4))
    assert products(record, "forward") == {"model.0": 1, "model.1": 1}


def test_what_ran_before_a_window_is_forgotten_once_there_is_a_step() -> None:
    model = layers()
    with amplint.trace.watch(skip=1) as record:
        for _ in range(5):
            model(torch.ones(2, 4))
        train(model, 2)
    assert products(record, "forward") == {"model.0": 1, "model.1": 1}
    assert all(histogram.name != "model" or histogram.dtype == "bfloat16" for histogram in record.histograms)


def test_an_accumulation_window_is_one_step() -> None:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(steps=1, skip=1) as record:
        for batch in range(12):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(torch.ones(2, 4)).float().sum()
            loss.backward()
            if batch % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    assert record.steps == 1
    assert products(record, "forward") == {"model.0": 4, "model.1": 4}


def test_two_scalers() -> None:
    with amplint.trace.watch() as record:
        scalers = [torch.amp.GradScaler("cpu", init_scale=scale) for scale in (2.0, 8.0)]
        models = [layers(), layers()]
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
        for _ in range(2):
            for model, optimizer, scaler in zip(models, optimizers, scalers, strict=True):
                scaler.scale(model(torch.ones(2, 4)).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
    seen = [(step.step, step.scaler, step.scale) for step in record.scaler_steps]
    # the first optimizer to step ends a step, so that the other one steps in the next
    assert seen == [(0, "scaler 1", 2.0), (1, "scaler 2", 8.0), (1, "scaler 1", 2.0), (2, "scaler 2", 8.0)]


def test_workers_of_a_loader_are_not_watched() -> None:
    def collate(rows: list[int]) -> torch.Tensor:
        return torch.tensor(rows, dtype=torch.float32).mul(2)

    model = layers()
    with amplint.trace.watch() as record:
        for batch in DataLoader(range(8), batch_size=4, num_workers=1, collate_fn=collate):  # type: ignore[arg-type]
            model(batch)
    assert not any(op.op == "mul" for op in record.operations)
    assert sum(count for op, count in record.operations.items() if op.op == "addmm") == 4


def test_a_region_counts_from_the_line_that_sets_it_on() -> None:
    """Which regions are on is remembered from operation to operation, until something sets them."""
    x = torch.ones(2, 2)
    with amplint.trace.watch() as record:
        x @ x
        torch.set_autocast_enabled("cpu", True)
        x @ x
        torch.set_autocast_enabled("cpu", False)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x @ x
            with torch.autocast("cpu", dtype=torch.float16):
                x @ x
            with torch.autocast("cpu", enabled=False):
                x @ x
    products = sorted((each for each in record.operations if each.op == "mm"), key=lambda each: each.row)
    assert [each.autocast for each in products] == ["", "bfloat16", "bfloat16", "float16", ""]


def test_code_of_ones_own_that_a_function_calls_has_lines_of_its_own() -> None:
    def far(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (one - other).abs().sum(-1)

    x = torch.randn(3, 2, 4)
    with amplint.trace.watch() as record:
        nn.functional.triplet_margin_with_distance_loss(x[0], x[1], x[2], distance_function=far)
    rows = {each.op: each.row - far.__code__.co_firstlineno for each in record.operations}
    assert rows["abs"] == 1
    assert rows["clamp_min"] == 5


def test_backward_passes_outside_the_window_are_not_looked_into() -> None:
    seen = []
    model = nn.Linear(4, 4)
    model.weight.register_hook(lambda gradient: seen.append(torch._C._len_torch_dispatch_stack()))
    with amplint.trace.watch(steps=1, skip=2) as record:
        train(model, 4)
        assert torch._C._len_torch_dispatch_stack() == 1
    assert seen == [1, 0, 1, 0]  # the first is recorded until it is known that there are others
    assert (record.steps, record.backwards) == (1, 4)
