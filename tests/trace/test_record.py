"""What the tracer sees is what happens, and what is watched stays as it is."""

from __future__ import annotations

import inspect
from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks

import amplint.trace
from amplint.trace.data import Divergence, HalfLoss, Histogram, NonFinite, Update
from amplint.trace.record import Record, UnreadableRecord
from amplint.trace.watching import _most_allocated
from tests.trace import models
from tests.trace.models import MODELS, train

DTYPES = [torch.bfloat16, torch.float16]


def name(dtype: torch.dtype) -> str:
    """`float16` for torch.float16."""
    return str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("model", MODELS)
def test_results_of_modules_have_the_dtypes_that_hooks_see(model: str, dtype: torch.dtype) -> None:
    seen: dict[type[nn.Module], set[str]] = defaultdict(set)

    def see(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            assert isinstance(output, torch.Tensor)
            seen[type(module)].add(name(output.dtype))

    handle = hooks.register_module_forward_hook(see)
    try:
        with amplint.trace.watch() as record:
            trained, _ = train(model, dtype)
    finally:
        handle.remove()
    checked = 0
    for path, module in trained.named_modules():
        if type(module) in seen and any(record.of_module(f"model.{path}")):
            assert seen[type(module)] == {name(dtype)}
            record.assert_dtype(f"model.{path}", dtype)
            checked += 1
    assert checked


@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("model", MODELS)
def test_losses_stay_the_same_bit_for_bit(model: str, dtype: torch.dtype, scaled: bool) -> None:
    _, plain = train(model, dtype, scaled=scaled)
    with amplint.trace.watch():
        _, watched = train(model, dtype, scaled=scaled)
    assert watched == plain
    _, after = train(model, dtype, scaled=scaled)
    assert after == plain


@pytest.mark.parametrize("model", MODELS)
def test_the_backward_pass_belongs_to_lines_of_the_forward_pass(model: str) -> None:
    with amplint.trace.watch() as record:
        train(model, torch.bfloat16)
    kind, _ = MODELS[model]
    lines, start = inspect.getsourcelines(kind)
    own = range(start, start + len(lines))
    products = [op for op in record.operations if op.phase == "backward" and op.op in ("mm", "convolution_backward")]
    assert products
    for product in products:
        assert product.filename == models.__file__
        assert product.row in own
        assert product.module.startswith("model.")
        assert product.outputs[0] == "bfloat16"


class Square(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return 2 * gradient * ctx.saved_tensors[0]


def test_a_backward_pass_of_ones_own_has_its_own_lines() -> None:
    with amplint.trace.watch() as record:
        Square.apply(torch.ones(2, requires_grad=True)).sum().backward()
    rows = {operation.row for operation in record.operations if operation.op == "mul" and operation.phase == "backward"}
    lines, first = inspect.getsourcelines(Square)
    assert rows == {first + len(lines) - 1}


def test_what_is_computed_again_is_told_from_the_forward_pass() -> None:
    with amplint.trace.watch() as record:
        train("checkpointed", torch.bfloat16)
    counts = {
        phase: sum(count for op, count in record.operations.items() if op.op == "addmm" and op.phase == phase)
        for phase in ("forward", "recomputation")
    }
    assert counts == {"forward": 9, "recomputation": 6}


def test_regions_are_seen_from_within() -> None:
    x, linear = torch.randn(2, 4), nn.Linear(4, 4)
    with amplint.trace.watch() as record:
        linear(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            linear(x)
            with torch.autocast("cpu", enabled=False):
                linear(x)
    products = [(op.autocast, *op.outputs) for op in record.operations if op.op == "addmm"]
    assert products == [("", "float32"), ("bfloat16", "bfloat16"), ("", "float32")]


@pytest.mark.parametrize("fused", [False, True], ids=["loop", "fused"])
def test_the_history_of_a_scaler(fused: bool) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    with amplint.trace.watch() as record:
        for step in range(4):
            loss = model(torch.randn(2, 4)).sum() * (float("inf") if step == 1 else 1)
            scaler.scale(loss).backward()
            if step == 2:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert [
        (step.step, step.stage, step.scale, step.skipped, step.after, step.growth_tracker)
        for step in record.scaler_steps
    ] == [
        (0, "READY", 4.0, False, 4.0, 1),
        (1, "READY", 4.0, True, 2.0, 0),
        (2, "UNSCALED", 2.0, False, 2.0, 1),
        (3, "READY", 2.0, False, 4.0, 0),
    ]
    assert record.steps == 4
    assert {held.dtype for held in record.held} == {"float32"}
    assert all(dict(held.state) == {"exp_avg": "float32", "exp_avg_sq": "float32"} for held in record.held)


def test_only_the_steps_of_the_window_are_recorded() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(steps=2, skip=1, every=3) as record:
        for size in range(1, 9):
            (model(torch.ones(size, 4)).sum() * size).backward()
            optimizer.step()
    assert record.steps == 2
    assert sum(count for op, count in record.operations.items() if op.op == "addmm") == 2


def test_two_optimizers_step_in_turn() -> None:
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (first, second)]
    with amplint.trace.watch(steps=2, skip=1) as record:
        for _ in range(5):
            for model, optimizer in zip((first, second), optimizers, strict=True):
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
    counts = {op.module: count for op, count in record.operations.items() if op.op == "addmm"}
    assert (record.steps, counts) == (2, {"first": 2, "second": 2})


def test_a_record_survives_its_file() -> None:
    with amplint.trace.watch() as record:
        train("cnn", torch.float16, 1, scaled=True)
    first = next(iter(record.operations))
    record.numerics = "full"
    record.seconds[first] = 0.1
    record.nonfinite.append(NonFinite(1, "backward", "mul", "", "t.py", 3, "model", "inf", "float16", 2.0, True))
    record.losses.append(HalfLoss("backward", "mm", "t.py", 3, "model.head", "float16", 9, 1, 0, -27, -3, 2.0))
    record.histograms.append(Histogram("gradient", "model.w", "float32", 2.0, {-3: 4, 0: 1}, 1, 0))
    record.updates.append(Update("model.w", "SGD", "t.py", 5, 1, "bfloat16", 1e-4, 0.5))
    did = ((0, "float16"), (1, "float32"))
    record.divergences.append(Divergence("dtype", "forward", "mm", "t.py", 3, "model", did))
    record.rank, record.ranks, record.cut = None, 2, True
    assert Record.from_json(record.to_json()) == record


def test_an_optimizer_that_fails_or_runs_a_closure_does_not_end_the_record() -> None:
    model = nn.Linear(4, 4)

    class Failing(torch.optim.SGD):
        def step(self, closure: object = None) -> None:
            raise ZeroDivisionError

    def closure() -> torch.Tensor:
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        return loss

    with amplint.trace.watch() as record:
        with pytest.raises(ZeroDivisionError):
            Failing(model.parameters()).step()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        torch.optim.LBFGS(model.parameters(), max_iter=1).step(closure)
    counts = {op.phase: count for op, count in record.operations.items() if op.op in ("addmm", "mm")}
    assert counts == {"forward": 1, "backward": 1}
    assert not torch._C._len_torch_dispatch_stack()
    assert not torch._C._len_torch_function_stack()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 2}', "null"])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(UnreadableRecord):
        Record.from_json(text)


@pytest.mark.parametrize("number", [1, 99])
def test_a_record_of_another_format_says_so(number: int) -> None:
    with pytest.raises(UnreadableRecord, match=f"^a trace of format {number}, and this amplint reads format 2: trace"):
        Record.from_json(f'{{"schema": {number}}}')


def test_the_memory_of_the_fullest_gpu_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    most = [2**20, 2**30]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", most.__getitem__)
    assert _most_allocated("cuda") == 2**30
    assert _most_allocated("cpu") is None
    most[:] = 0, 0
    assert _most_allocated("cuda") is None


def test_a_dtype_that_is_not_as_asserted() -> None:
    with amplint.trace.watch() as record:
        train("cnn", torch.bfloat16, 1)
    with pytest.raises(AssertionError, match=r"model\.head computes in bfloat16 \(addmm"):
        record.assert_dtype("model.head", torch.float16)
    with pytest.raises(AssertionError, match=r"model\.tail did not run"):
        record.assert_dtype("model.tail", torch.float16)


def test_pytorch_is_left_as_it_was() -> None:
    before = {name: getattr(torch.amp.GradScaler, name) for name in ("step", "update", "unscale_")}
    with pytest.raises(ZeroDivisionError), amplint.trace.watch():
        raise ZeroDivisionError
    assert {name: getattr(torch.amp.GradScaler, name) for name in before} == before
    assert not hooks._global_forward_pre_hooks
    with amplint.trace.watch(), pytest.raises(RuntimeError, match="watched already"), amplint.trace.watch():
        pass


def test_compiled_models_stay_compiled_afterwards() -> None:
    @torch.compile(backend="eager")
    def double(x: torch.Tensor) -> torch.Tensor:
        return F.relu(x) * 2

    with amplint.trace.watch() as record:
        double(torch.ones(3))
    assert any(op.op == "relu" for op in record.operations)
    torch._dynamo.utils.counters.clear()
    double(torch.ones(3))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
