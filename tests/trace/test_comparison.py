"""What is told of float32 is what a run in float32 gives, and errors are told at the lines that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import amplint.trace
from amplint.trace import exact as exactly
from amplint.trace.attention import attention
from amplint.trace.compared import Comparison, LineDrift, TensorDrift, joined
from amplint.trace.findings import findings
from amplint.trace.merge import merged
from amplint.trace.record import Record
from tests.trace.models import MODELS, train

Body = Callable[[torch.Tensor], torch.Tensor]


def gradients(name: str, dtype: torch.dtype, *, amp: bool) -> tuple[list[torch.Tensor], list[torch.Tensor], Record]:
    """The outputs of modules and the gradients of one step, and what was recorded of it."""
    torch.manual_seed(0)
    kind, batch = MODELS[name]
    model, data = kind(), batch()
    outputs: list[torch.Tensor] = []
    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *call: outputs.append(call[-1]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with amplint.trace.watch(compare_float32=True) as record:
        with torch.autocast("cpu", dtype=dtype, enabled=amp):
            loss = F.cross_entropy(model(data).float(), torch.tensor([0, 1, 2, 3]))
        loss.backward()
        optimizer.step()
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [output for output in outputs if isinstance(output, torch.Tensor)], grads, record


def relative(real: torch.Tensor, exact: torch.Tensor) -> float:
    return float((real.double() - exact.double()).norm().detach() / exact.double().norm().detach())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MODELS)
def test_the_errors_are_those_against_a_run_in_float32(name: str, dtype: torch.dtype) -> None:
    outputs, grads, record = gradients(name, dtype, amp=True)
    exact_outputs, exact_grads, _ = gradients(name, dtype, amp=False)
    assert record.comparison is not None
    assert record.comparison.refused == ()
    told = [drift.error for drift in record.comparison.tensors if drift.what == "output"]
    for real, exact in zip(outputs, exact_outputs, strict=False):
        error = relative(real, exact)
        assert min(abs(error - (one or 0)) for one in told) <= 0.02 * error + 1e-6
    size = sum(exact.norm() ** 2 for exact in exact_grads) ** 0.5
    told = [drift.error for drift in record.comparison.tensors if drift.what == "gradient"]
    assert len(told) == len(grads)
    for real, exact in zip(grads, exact_grads, strict=True):
        error = relative(real, exact)
        if exact.norm() > 0.1 * size:
            assert min(abs(error - (one or 0)) for one in told) <= 0.02 * error + 1e-6


@pytest.mark.parametrize("name", MODELS)
def test_the_run_stays_as_it_is(name: str) -> None:
    _, losses = train(name, torch.bfloat16)
    with amplint.trace.watch(compare_float32=True):
        _, watched = train(name, torch.bfloat16)
    assert watched == losses


def test_without_half_there_is_nothing_to_compare() -> None:
    _, _, record = gradients("cnn", torch.bfloat16, amp=False)
    assert record.comparison is None


def compared(body: Body, *, size: float = 1.0, dtype: torch.dtype = torch.float16) -> Comparison:
    """One step of two layers in a region, with `body` behind them, multiplied by `size`."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(compare_float32=True) as record:
        with torch.autocast("cpu", dtype=dtype):
            loss = body(model(torch.randn(32, 16)) * size).float().mean()
        loss.backward()
        optimizer.step()
    assert record.comparison is not None
    assert findings(Record.from_json(record.to_json())) == findings(record)
    return record.comparison


def first_line(body: Body) -> int:
    return body.__code__.co_firstlineno


def square(x: torch.Tensor) -> torch.Tensor:
    x = x + 0
    return (x * x).half().sum(-1)


def epsilon(x: torch.Tensor) -> torch.Tensor:
    length = F.relu(x).half() * 0
    divisor = length + 1e-8
    scaled = x.half() * 0 / divisor.clone()
    return scaled.sum(-1)


def in_place_epsilon(x: torch.Tensor) -> torch.Tensor:
    divisor = torch.zeros_like(x, dtype=torch.float16)
    divisor += 1e-8
    x = x.half() * 0
    x /= divisor
    return x


def variance(x: torch.Tensor) -> torch.Tensor:
    x = x.half() * 0.01 + 10
    return (x * x).mean(-1) - x.mean(-1).square()


def summed(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.float16)
    for part in x.abs().half().flatten().unbind():
        total = total + part
    return total * 1


@pytest.mark.parametrize(
    ("body", "row", "size", "kind"),
    [
        (square, 2, 1e3, "inf"),
        (epsilon, 2, 1.0, "nan"),
        (in_place_epsilon, 2, 1.0, "nan"),
        (variance, 2, 1.0, ""),
        (summed, 3, 20.0, ""),
    ],
)
def test_the_line_that_is_to_blame_comes_first(body: Body, row: int, size: float, kind: str) -> None:
    first = compared(body, size=size).lines[0]
    assert (first.row - first_line(body), first.phase, first.kind) == (row, "forward", kind)


def test_a_bias_that_cancels_out_is_noise() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(compare_float32=True) as record:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(torch.randn(64, 8)).float().square().mean()
        loss.backward()
        optimizer.step()
    assert record.comparison is not None
    assert all(drift.size < record.comparison.tolerance for drift in record.comparison.tensors)
    assert not [one for one in findings(record) if one.code == "AMP811"]


def test_a_mean_of_nothing_is_noise() -> None:
    def norms(x: torch.Tensor) -> torch.Tensor:
        x = F.batch_norm(F.batch_norm(x, None, None, training=True), None, None, training=True)
        return x - x.mean(0)

    comparison = compared(norms)
    assert max(drift.added or 0.0 for drift in comparison.lines if drift.phase == "forward") < comparison.tolerance


def test_a_step_on_the_way_to_the_scale_tells_nothing_of_gradients() -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    with amplint.trace.watch(compare_float32=True) as record:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(torch.randn(4, 8)).float().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert record.comparison is not None
    assert {drift.phase for drift in record.comparison.lines} == {"forward"}
    assert not [drift for drift in record.comparison.tensors if drift.what == "gradient"]


def test_dropout_keeps_its_mask_and_checkpoints_their_numbers() -> None:
    found = compared(lambda x: F.dropout(x, 0.5))
    assert max(drift.size for drift in found.tensors) < found.tolerance


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize("biased", [False, True])
def test_attention_written_out_is_that_of_pytorch(is_causal: bool, scale: float | None, biased: bool) -> None:
    torch.manual_seed(0)
    query, key, value, grad_out = (torch.randn(2, 3, 5, 4) for _ in range(4))
    attn_bias = torch.randn(2, 3, 5, 5) if biased and not is_causal else None
    given = {"query": query, "key": key, "value": value, "dropout_p": 0.0, "is_causal": is_causal, "scale": scale}
    leaves = [one.clone().requires_grad_() for one in (query, key, value)]
    wanted = F.scaled_dot_product_attention(*leaves, attn_mask=attn_bias, is_causal=is_causal, scale=scale)
    wanted.backward(grad_out)
    torch.testing.assert_close(attention(given | {"attn_bias": attn_bias}), [wanted.detach()])
    found = attention(given | {"attn_bias": attn_bias, "grad_out": grad_out})
    torch.testing.assert_close(found, [leaf.grad for leaf in leaves])
    assert attention(given | {"dropout_p": 0.1}) is None
    assert attention(given | {"key": key[:, :1], "value": value[:, :1]}) is None


def test_kernels_for_half_only_are_compared_with_attention_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, usual = gradients("transformer", torch.bfloat16, amp=True)
    assert usual.comparison is not None
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    assert any(operation.op == kernel for operation in usual.operations)
    monkeypatch.setattr(exactly, "HALF_ONLY", {kernel, f"{kernel}_backward"})
    _, _, written_out = gradients("transformer", torch.bfloat16, amp=True)
    assert written_out.comparison is not None
    assert written_out.comparison.refused == ()
    sizes = {(drift.what, drift.name): drift.size for drift in usual.comparison.tensors}
    for drift in written_out.comparison.tensors:
        assert drift.size == pytest.approx(sizes[drift.what, drift.name], rel=1e-3, abs=1e-6)


def test_ranks_are_one_comparison_with_the_worst_of_each() -> None:
    line = LineDrift("forward", "mm", "train.py", 3, "model", "float16", "", 0.1, 0.2)
    other = replace(line, kind="inf", added=None, error=None, row=5)
    weight = TensorDrift("gradient", "w", "float32", 0.5)
    one = Comparison("float16", 2, 0.015625, "", [line], [weight], ("a",))
    two = Comparison("float16", 3, 0.015625, "model", [other, replace(line, added=0.3)], [replace(weight, error=None)])
    both = joined([one, two])
    assert both == Comparison(
        "float16", 3, 0.015625, "model", [other, replace(line, added=0.3)], [replace(weight, error=None)], ("a",)
    )
    assert merged([Record(rank=0, ranks=2, comparison=one), Record(rank=1, ranks=2, comparison=two)]).comparison == both
    assert merged([Record(rank=0, ranks=2), Record(rank=1, ranks=2)]).comparison is None
