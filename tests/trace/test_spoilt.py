"""What spoils a run in a step that is not recorded is named, with the line where the forward pass shows it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import amplint.trace
from amplint.trace import spoilt
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.conftest import Command

Body = Callable[[Tensor, float], Tensor]
SPOILT = 2
"""The step that is given what is too much for float16."""


def exponential(x: Tensor, much: float) -> Tensor:
    """A softmax that forgets to subtract the maximum."""
    weights = (x * (1 + 20 * much)).exp()
    return (weights / weights.sum(-1, keepdim=True)).float().pow(2).mean()


def exponential_from_maximum(x: Tensor, much: float) -> Tensor:
    return (x * (1 + 100 * much)).float().softmax(-1).pow(2).mean()


def logarithm(x: Tensor, much: float) -> Tensor:
    """A probability that float16 rounds to 1."""
    likely = torch.sigmoid(x + 12 * much)
    return -torch.log(1 - likely).float().mean()


def softplus(x: Tensor, much: float) -> Tensor:
    return F.softplus(x + 12 * much).float().mean()


def squares(x: Tensor, much: float) -> Tensor:
    """A loss that is summed up."""
    error = x * (1 + 100 * much)
    return error.square().sum() / 10_000


def squares_in_float32(x: Tensor, much: float) -> Tensor:
    return (x * (1 + 100 * much)).float().square().sum() / 10_000


def whole_batch(x: Tensor, much: float) -> Tensor:
    """A sum over more elements than float16 can count."""
    values = (x.mean().sigmoid() + 1).expand(76_800 if much else 768)
    return (values.sum() / len(values)).log()


def whole_batch_in_float32(x: Tensor, much: float) -> Tensor:
    values = (x.mean().sigmoid() + 1).expand(76_800 if much else 768)
    return (values.float().sum() / len(values)).log()


def variance(x: Tensor, much: float) -> Tensor:
    """A variance whose logarithm is learned."""
    logarithm = x + 12 * much
    return (logarithm.exp() - 1 - logarithm).float().mean() / 10


def variance_within_limits(x: Tensor, much: float) -> Tensor:
    logarithm = x + 12 * much
    return (logarithm.float().clamp(max=10).exp() - 1 - logarithm).mean() / 10


def masked(x: Tensor, much: float) -> Tensor:
    """Infinite scores that a softmax takes away again, and a NaN that nothing is learned from."""
    with torch.no_grad():
        (torch.zeros(3) / torch.zeros(3)).nanmean()
    scores = x + torch.full_like(x, -math.inf).triu(1)
    scores += torch.ones_like(x).tril().log()
    return scores.softmax(-1).float().pow(2).mean()


def root(x: Tensor, much: float) -> Tensor:
    """A derivative without end."""
    return (x.float().square() * (1 - much)).sqrt().mean()


OVERFLOWS = {exponential: 2, logarithm: 3, squares: 3, whole_batch: 3, variance: 3}
"""What float16 does not hold, with the row that is to blame."""
CLEAN = (
    exponential_from_maximum,
    softplus,
    squares_in_float32,
    whole_batch_in_float32,
    variance_within_limits,
)


def watched(
    body: Body, spoilt_at: int = SPOILT, *, skip: int = 0, every: int = 1, scale: float | None = None
) -> Record:
    """Six steps of a layer under float16 autocast."""
    torch.manual_seed(0)
    model = nn.Linear(16, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
    with amplint.trace.watch(skip=skip, every=every) as record:
        for step in range(6):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = body(model(torch.randn(16, 16)), float(step == spoilt_at))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return record


def rows(record: Record, body: Body) -> list[tuple[str, int]]:
    """The codes of errors, with rows from the first of `body` on."""
    first = body.__code__.co_firstlineno
    return [(one.code, one.span.start.row - first) for one in findings(record) if one.code == "AMP803"]


@pytest.mark.parametrize(
    ("spoilt_at", "skip", "every"), [(0, 1, 1), (2, 4, 1), (1, 0, 2)], ids=["first", "skipped", "between"]
)
@pytest.mark.parametrize(("body", "row"), OVERFLOWS.items(), ids=lambda part: getattr(part, "__name__", None))
def test_an_overflow_in_a_step_not_recorded(body: Body, row: int, spoilt_at: int, skip: int, every: int) -> None:
    record = watched(body, spoilt_at, skip=skip, every=every)
    assert rows(record, body) == [("AMP803", row)]
    assert f"step {spoilt_at + 1}" in findings(record)[0].message
    assert "convert what goes in with .float()" in findings(record)[0].advice or body is logarithm


@pytest.mark.parametrize(("spoilt_at", "skip"), [(0, 1), (SPOILT, 4)])
@pytest.mark.parametrize("body", CLEAN)
def test_what_float32_holds_is_no_finding(body: Body, spoilt_at: int, skip: int) -> None:
    assert rows(watched(body, spoilt_at, skip=skip), body) == []


@pytest.mark.parametrize("skip", [1, 6])
def test_what_is_meant_is_no_finding(skip: int) -> None:
    assert findings(watched(masked, skip=skip)) == []


@pytest.mark.parametrize("skip", [1, 4])
def test_a_scaler_may_find_its_scale_before_anything_is_recorded(skip: int) -> None:
    def large(x: Tensor, _: float) -> Tensor:
        return x.float().pow(2).mean() * 1000

    assert findings(watched(large, skip=skip, scale=2.0**16)) == []


def test_steps_that_are_not_recorded_are_not_counted() -> None:
    record = watched(exponential, skip=4)
    assert record.steps == 2
    assert [count for one, count in record.operations.items() if one.op == "exp"] == [2]


@pytest.mark.parametrize("waits", [True, False])
def test_gradients_that_only_the_backward_pass_spoils(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU nothing may wait for each step."""
    if not waits:
        monkeypatch.setattr(spoilt, "is_on_host", lambda tensor: False)
    record = watched(root, skip=4)
    found = [one for one in findings(record) if one.code == "AMP803"]
    assert [one.message for one in found] == ["gradients that SGD.step takes are NaN, in float32, step 3"]
    assert "--skip 2 --steps 1" in found[0].advice
    assert rows(watched(root), root) == [("AMP803", 2)]


def test_optimizers_that_leave_out_what_is_not_finite_are_left_alone() -> None:
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([math.inf, 1.0])
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    looked = spoilt.Spoilt()
    optimizer.found_inf = torch.ones(1)  # type: ignore[attr-defined]
    assert not looked.look(optimizer, 0)
    del optimizer.found_inf  # type: ignore[attr-defined]
    assert looked.look(optimizer, 1)
    assert [(one.step, one.kind) for one in looked.found()] == [(1, "inf")]


SCRIPT = """\
import torch

model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(9):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        odds = (100 * model(torch.ones(4, 16))).exp()
    (odds / odds.sum()).float().mean().backward()
    optimizer.step()
"""


def test_the_command_names_what_spoils_the_first_step(amplint: Command, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    for options in ((), ("--skip", "3")):
        ran = amplint("trace", *options, str(script))
        assert "train.py:8:1: AMP803" in ran.err.replace("\n", "")
