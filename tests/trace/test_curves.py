"""What is kept of every step: right, thinned to a bound, and of a training of any length."""

from __future__ import annotations

import math
import tracemalloc

import pytest
import torch
from torch import nn

import amplint.trace
from amplint.trace import curves
from amplint.trace.curves import Curves
from amplint.trace.data import SERIES_POINTS, Series
from amplint.trace.record import Record
from amplint.trace.thinned import Thinned


def train(steps: int, *, every: int = 1, scaled: bool = False, divided: int = 1) -> tuple[Record, list[float]]:
    """Steps of a line with what their losses are; `divided` is how many backward passes a step has."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=scaled)
    losses = []
    with amplint.trace.watch(every=every) as record:
        for _ in range(steps):
            optimizer.zero_grad()
            losses.append(0.0)
            for _ in range(divided):
                loss = model(torch.randn(8, 4)).pow(2).mean() / divided
                scaler.scale(loss).backward()
                losses[-1] += loss.item()
            scaler.step(optimizer)
            scaler.update()
    return record, losses


def of(record: Record, what: str) -> list[Series]:
    return [one for one in record.series if one.what == what]


def test_neighbours_become_one() -> None:
    kept = Thinned[int](4, max)
    for step in range(19):
        kept.add(step, step % 7)
    assert kept.steps == [0, 8, 16]
    assert kept.values == [6, 6, 4]
    kept.add(19, 9)
    kept.add(19, 11)
    assert kept.values == [6, 6, 11]
    for step in range(20, 10_000):
        kept.add(step, 0)
        assert len(kept.values) == len(kept.steps) <= 4
    assert max(kept.values) == 11


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("divided", [1, 3])
def test_the_loss_is_that_of_the_script(scaled: bool, divided: int) -> None:
    record, losses = train(4, scaled=scaled, divided=divided)
    (series,) = of(record, "loss")
    assert series.steps == (0, 1, 2, 3)
    assert series.values == pytest.approx(losses)
    assert series.row
    assert not of(record, "gradient")


def test_a_loss_that_is_changed_after_scaling_is_not_known() -> None:
    weight = nn.Parameter(torch.ones(1))
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with amplint.trace.watch() as record:
        (scaler.scale(weight.sum()) / 2).backward()
        scaler.step(optimizer)
        scaler.update()
    assert not of(record, "loss")


def test_one_step_of_several_and_every_step_of_the_scaler() -> None:
    record, losses = train(9, every=4, scaled=True)
    assert (record.every, record.steps, record.taken) == (4, 3, 9)
    (loss,) = of(record, "loss")
    assert loss.steps == (0, 4, 8)
    assert loss.values == pytest.approx(losses[::4])
    assert [(one.steps, one.values) for one in of(record, "scale")] == [(tuple(range(9)), (4.0,) * 9)]
    assert [one.values for one in of(record, "skipped")] == [(0,) * 9]
    assert {one.name: len(one.steps) for one in of(record, "activation")} == {"model": 3}
    assert {one.name for one in of(record, "underflow")} == {"model.weight", "model.bias"}


def test_sizes_of_tensors() -> None:
    kept = Curves(256)
    for step, gradient in enumerate(([1.0, -8.0], [2.0**-30, 0.5], [math.nan, 1.0], [0.0, 0.0])):
        kept.take("gradient", "w", torch.tensor(gradient))
        kept.take("gradient", "w", torch.tensor(gradient) / 2)
        kept.end_step(step, on=True)
    values = {one.what: one.values for one in kept.series()}
    assert values == {"gradient": (8.0, 0.5, None, 0.0), "underflow": (0.0, 0.5, 0.0, 0.0)}


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "_NUMBERS", 60)
    kept = Curves(4)
    weight, line = torch.ones(3), ("train.py", 1)

    def steps(first: int, last: int) -> None:
        for step in range(first, last):
            kept.stepped("scaler 1", line, step, 2.0 ** (step % 5), skipped=step % 5 == 0)
            if step % 4 == 0:
                kept.backward(line, weight[0])
                kept.take("gradient", "w", weight)
                kept.take("activation", "m", weight)
            kept.end_step(step, on=step % 4 == 0)

    steps(0, 5000)
    tracemalloc.start()
    steps(5000, 10_000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 200_000
    found = {one.what: one for one in kept.series()}
    assert all(len(one.steps) == len(one.values) <= SERIES_POINTS for one in found.values())
    assert [len(found[what].steps) for what in ("gradient", "underflow", "activation")] == [found_steps()] * 3
    assert found["skipped"].values[-1] == 2000
    assert set(found["scale"].values) == {1.0}
    assert len(found["loss"].steps) > SERIES_POINTS // 2


def found_steps() -> int:
    """How many of 2,500 steps with three numbers each are kept of 60 numbers."""
    kept = Thinned[int](SERIES_POINTS, max)
    for step in range(2500):
        kept.add(step, 0)
        while len(kept.steps) * 3 > 60:
            kept.thin()
    return len(kept.steps)


def test_the_scalers_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.trace.steps.SERIES_POINTS", 8)
    record, _ = train(50, scaled=True)
    assert [step.step for step in record.scaler_steps] == list(range(0, 50, 8))
    assert all(step.after == 4.0 for step in record.scaler_steps)
    record, _ = train(50, every=10, scaled=True)
    assert [step.step for step in record.scaler_steps] == [0, 10, 20, 30, 40]


def test_records_of_long_runs_do_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amplint.trace.curves.SERIES_POINTS", 16)
    monkeypatch.setattr("amplint.trace.steps.SERIES_POINTS", 16)
    sizes = [len(train(steps, every=4, scaled=True)[0].to_json()) for steps in (160, 320)]
    assert abs(sizes[1] - sizes[0]) < 0.15 * sizes[0]
