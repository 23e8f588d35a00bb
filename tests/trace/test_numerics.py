"""Faults in the numbers of a run are found at their line, their clean twins are silent, and nothing is disturbed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import amplint.trace
from amplint.trace import flags, nonfinite
from amplint.trace.data import NUMERICS, HalfLoss, NonFinite, ScalerStep
from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace.models import MODELS, train

Body = Callable[[nn.Sequential, torch.Tensor], torch.Tensor]
LEVELS = NUMERICS[1:]


def watched(
    body: Body,
    *,
    scale: float | None = None,
    steps: int = 3,
    half: torch.dtype | None = None,
    lr: float = 0.01,
    numerics: str = "full",
) -> Record:
    """Steps of two layers under float16 autocast, or all in `half`, with `body` around them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).to(half)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, foreach=False)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale or 1.0, enabled=scale is not None)
    with amplint.trace.watch(numerics=numerics) as record:
        for _ in range(steps):
            optimizer.zero_grad()
            x = torch.randn(32, 16, dtype=half)
            with torch.autocast("cpu", dtype=torch.float16, enabled=half is None):
                loss = body(model, x)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return record


def plain(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """Nothing wrong."""
    return model(x).float().pow(2).mean()


def large_activations(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """An inf in one layer's forward pass."""
    hidden = model[0](x) * 1e5
    return model[2](hidden).float().pow(2).mean()


def log_of_zero(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """An inf that no dtype avoids."""
    positive = F.relu(model(x).float())
    return positive.log().mean()


def root_of_zero(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """An inf only in the backward pass."""
    positive = F.relu(model(x).float())
    return positive.sqrt().mean()


def small_loss(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """A loss whose gradients float16 cannot hold without a scale."""
    return model(x).float().pow(2).mean() * 1e-7


def large_loss(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """A loss for which a fresh scaler has to find its scale."""
    return model(x).float().pow(2).mean() * 1000


def masked(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """Infinite scores that a softmax takes away again, and uninitialised memory."""
    y = model(x)
    scores = y @ y.mT
    scores = scores + torch.full_like(scores, -math.inf).triu(1)
    scores = scores.masked_fill(torch.eye(len(y)).roll(1) > 0, -math.inf)
    scores += torch.where(scores > 100, -math.inf, 0.0)
    torch.empty(10**4).resize_(10**4 + 1)
    torch.empty(4).fill_(math.nan)
    return scores.softmax(-1).float().pow(2).mean() + y.float().mean()


def metric(model: nn.Sequential, x: torch.Tensor) -> torch.Tensor:
    """A NaN that nothing is learned from."""
    with torch.no_grad():
        hits = torch.zeros(3)
        (hits / hits).nanmean()
    return plain(model, x)


def places(record: Record, body: Body) -> list[tuple[str, int]]:
    """The codes of what is found, with rows from the first of `body` on; those in this helper have no row."""
    first = body.__code__.co_firstlineno
    rows = [(finding.code, finding.span.start.row - first) for finding in findings(record)]
    return [(code, row if row in range(20) else 0) for code, row in rows]


@pytest.mark.parametrize("numerics", LEVELS)
@pytest.mark.parametrize(
    ("body", "row", "words"),
    [
        (large_activations, 2, "mul made inf out of finite numbers, in float16, step 1"),
        (log_of_zero, 3, "log made inf out of finite numbers, in float32, step 1"),
        (root_of_zero, 3, "div made inf out of finite numbers in the backward pass of this line, in float32, step 1"),
    ],
)
def test_the_origin_of_what_is_not_finite(body: Body, row: int, words: str, numerics: str) -> None:
    record = watched(body, numerics=numerics)
    assert places(record, body) == [("AMP803", row)]
    found = findings(record)[0]
    assert words in found.message
    assert (".float()" in found.advice) == (body is large_activations)


@pytest.mark.parametrize("scale", [None, 2.0**16])
@pytest.mark.parametrize("body", [plain, masked, metric])
def test_what_is_meant_and_what_is_right_is_no_finding(body: Body, scale: float | None) -> None:
    assert findings(watched(body, scale=scale)) == []


def test_a_scaler_does_not_cure_a_derivative_without_end() -> None:
    assert places(watched(root_of_zero, scale=2.0**16), root_of_zero) == [("AMP803", 3)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model", MODELS)
def test_models_that_train_well_have_no_findings(model: str, dtype: torch.dtype) -> None:
    with amplint.trace.watch(numerics="full") as record:
        train(model, dtype, scaled=dtype is torch.float16)
    record.assert_no_findings()


def test_a_module_names_the_origin_of_its_layer() -> None:
    class Hot(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Too large for float16."""
            return (x.half().abs() + 1) * 1e5

    layers = nn.Sequential(nn.Linear(4, 4), Hot(), nn.Linear(4, 4))
    with amplint.trace.watch() as record, torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
        layers(torch.ones(2, 4))
    assert [(origin.module, origin.op, origin.finite_in_float32) for origin in record.nonfinite] == [
        ("layers.1", "mul", True)
    ]


def test_flags_that_are_read_once_a_step_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU nothing may wait for each operation."""

    def deferred(self: nonfinite.Origins, kind: nonfinite.Kind, args: object, *others: object) -> None:
        _, inputs, outputs, _ = others
        meant = nonfinite._is_meant(args, others[0])
        self._flags.look(kind, inputs, outputs, meant)  # type: ignore[arg-type]

    monkeypatch.setattr(nonfinite.Origins, "look", deferred)
    for body, row in ((large_activations, 2), (log_of_zero, 3), (root_of_zero, 3)):
        assert places(watched(body), body) == [("AMP803", row)]
    for body in (plain, masked, metric):
        assert findings(watched(body)) == []
    monkeypatch.setattr(flags, "_MOST", 5)
    assert places(watched(log_of_zero), log_of_zero) == [("AMP803", 3)]


def test_gradients_that_underflow() -> None:
    found = findings(watched(small_loss))
    assert [finding.code for finding in found] == ["AMP804"]
    assert "0 in float16 and not in float32" in found[0].message
    assert places(watched(small_loss), small_loss) == [("AMP804", 2)]
    assert findings(watched(small_loss, scale=2.0**16)) == []


def test_a_scale_that_is_too_high() -> None:
    record = watched(plain, scale=2.0**24, steps=4)
    assert places(record, plain) == [("AMP805", 2)]
    assert "a loss scale of 16777216 is too high for" in findings(record)[0].message


def test_a_fresh_scaler_may_find_its_scale() -> None:
    record = watched(large_loss, scale=2.0**16, steps=6)
    assert any(step.skipped for step in record.scaler_steps)
    assert any(origin.scale == 2.0**16 for origin in record.nonfinite)
    assert findings(record) == []


def steps(*scales: float, first: int = 0) -> list[ScalerStep]:
    """Skipped steps at `scales`."""
    return [
        ScalerStep(number, "t.py", 9, "scaler 1", "SGD", "READY", scale, skipped=True, after=scale / 2)
        for number, scale in enumerate(scales, first)
    ]


@pytest.mark.parametrize(
    ("scales", "first", "codes"),
    [
        ((2.0**16, 2.0**15), 0, []),
        ((2.0**24,), 2000, []),
        ((2.0**17,), 0, []),
        ((2.0**24,), 0, ["AMP805"]),
        ((2.0**24, 2.0**23), 2000, ["AMP805"]),
        ((64.0,), 0, ["AMP803", "AMP806"]),
    ],
)
def test_skipped_steps_excuse_an_overflow(scales: tuple[float, ...], first: int, codes: list[str]) -> None:
    record = Record(scaler_steps=steps(*scales, first=first))
    place = ("backward", "mm", "", "t.py", 3, "model")
    record.nonfinite = [NonFinite(first, *place, "inf", "float16", scales[0], True)]
    assert [finding.code for finding in findings(record)] == codes


@pytest.mark.parametrize(
    ("numbers", "codes"), [((2000, 2001), ["AMP805"]), ((2000, 2100), []), ((2000, 2000), []), ((0, 100), ["AMP805"])]
)
def test_only_steps_that_follow_each_other_are_skipped_in_a_row(numbers: tuple[int, int], codes: list[str]) -> None:
    place = ("t.py", 9, "scaler 1", "SGD", "READY", 2.0**24)
    record = Record(every=100, scaler_steps=[ScalerStep(number, *place, skipped=True) for number in numbers])
    record.nonfinite = [NonFinite(numbers[0], "backward", "mm", "", "t.py", 3, "", "inf", "float16", 2.0**24, True)]
    assert [finding.code for finding in findings(record)] == codes


@pytest.mark.parametrize(
    ("loss", "skipped_at", "found"),
    [
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 1000, 500, 0, -30, -5), None, True),
        (HalfLoss("forward", "mm", "t.py", 3, "", "float16", 1000, 500, 0, -30, -5), None, False),
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 1000, 10, 0, -30, -5), None, False),
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 1000, 500, 0, -30, 14), None, False),
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 10, 9, 0, -30, -5), None, False),
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 1000, 500, 0, -30, -5, 4.0), 256.0, False),
        (HalfLoss("backward", "mm", "t.py", 3, "", "float16", 1000, 500, 0, -30, -5, 4.0), 512.0, True),
    ],
)
def test_underflow_that_a_scale_cures(loss: HalfLoss, skipped_at: float | None, found: bool) -> None:
    record = Record(losses=[loss], scaler_steps=steps(skipped_at, first=5) if skipped_at else [])
    assert ("AMP804" in {finding.code for finding in findings(record)}) is found


def test_updates_that_are_lost() -> None:
    def codes(**options: float) -> list[str]:
        return [finding.code for finding in findings(watched(plain, half=torch.bfloat16, numerics="sample", **options))]

    assert codes(lr=1e-5) == ["AMP807", "AMP808"]
    assert codes(lr=0.1) == ["AMP807"]
    assert codes(lr=0.0) == ["AMP807"]
    record = watched(plain, half=torch.bfloat16, lr=1e-5)
    assert all(update.lost > 0.5 for update in record.updates)
    assert [update.lost for update in watched(plain, lr=1e-5).updates] == [0.0] * 12


def test_a_running_mean_in_half_comes_with_half_weights() -> None:
    """PyTorch refuses batch norms of which the running mean alone is half."""
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch() as record:
        model(torch.randn(8, 4).bfloat16()).float().pow(2).mean().backward()
        optimizer.step()
    assert "AMP807" in {finding.code for finding in findings(record)}
    model.float()[1].bfloat16().weight.data = torch.ones(4)
    with pytest.raises(RuntimeError, match="expected scalar type"):
        model(torch.randn(8, 4))


@pytest.mark.parametrize("fused", [False, True], ids=["loop", "fused"])
def test_a_step_that_a_scaler_skips_updates_nothing_and_loses_nothing(fused: bool) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with amplint.trace.watch() as record:
        for step in range(3):
            loss = model(torch.randn(2, 4)).sum() * (math.inf if step == 1 else 1)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert {(update.step, update.lost) for update in record.updates} == {(0, 0.0), (2, 0.0)}
    assert all(update.ratio for update in record.updates)
    scales = {histogram.scale for histogram in record.histograms if histogram.what == "gradient"}
    assert scales == {4.0, 2.0}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_two_optimizers_of_one_scaler(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    maker, judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)), nn.Linear(4, 1)
    optimizers = [torch.optim.Adam(model.parameters(), lr=1e-3) for model in (maker, judge)]
    scaler = torch.amp.GradScaler("cpu")
    seen: set[torch.dtype] = set()
    for layer in (maker[0], maker[2], judge):
        layer.register_forward_hook(lambda _, __, output: seen.add(output.dtype))
    with amplint.trace.watch(numerics="full") as record:
        for number in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                made = maker(torch.randn(8, 4))
                fooled = F.softplus(-judge(made).float()).mean()
            scaler.scale(fooled).backward(retain_graph=True)
            with torch.autocast("cpu", dtype=dtype):
                caught = F.softplus(judge(made.detach()).float()).mean()
            scaler.scale(caught * (math.inf if number == 1 else 1)).backward()
            for optimizer in optimizers:
                scaler.step(optimizer)
            scaler.update()
    assert seen == {dtype}
    for path in ("maker.0", "maker.2", "judge"):
        record.assert_dtype(path, dtype)
    assert [(step.step, step.skipped) for step in record.scaler_steps] == [
        (0, False), (0, False), (1, False), (1, True), (2, False), (2, False),
    ]  # fmt: skip
    assert {(update.name.partition(".")[0], update.step) for update in record.updates} >= {("maker", 0), ("judge", 2)}


def test_histograms_count_exponents() -> None:
    model = nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -1.5, 0.25, 0.0], [3.0, math.inf, 2.0**-30, 1.0]]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with amplint.trace.watch() as record:
        model(torch.zeros(1, 4)).sum().backward()
        optimizer.step()
    weights = next(histogram for histogram in record.histograms if histogram.what == "weight")
    assert (weights.name, weights.dtype, weights.scale) == ("model.weight", "float32", 1.0)
    assert weights.exponents == {0: 3, -2: 1, 1: 1, -30: 1}
    assert (weights.zeros, weights.nonfinite) == (1, 1)
    assert {histogram.what for histogram in record.histograms} == {"activation", "weight", "gradient"}


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("model", MODELS)
def test_losses_and_random_numbers_stay_the_same_bit_for_bit(model: str, numerics: str) -> None:
    def run() -> tuple[list[float], list[float]]:
        trained, losses = train(model, torch.float16, 2, scaled=True)
        return losses, [*torch.rand(3).tolist(), *(parameter.sum().item() for parameter in trained.parameters())]

    alone = run()
    with amplint.trace.watch(numerics=numerics):
        assert run() == alone


@pytest.mark.parametrize("numerics", LEVELS)
def test_random_and_stateful_operations_are_left_alone(numerics: str) -> None:
    def run() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.BatchNorm1d(8), nn.Dropout(), nn.AlphaDropout()).half().train()
        x = torch.randn(16, 8, dtype=torch.float16)
        out = model(x).mul_(2).add_(1)
        return [out.detach(), *model.buffers(), torch.rand(2)]

    alone = run()
    with amplint.trace.watch(numerics=numerics):
        seen = run()
    assert all(torch.equal(one, other) for one, other in zip(alone, seen, strict=True))


def test_what_is_kept_does_not_grow_with_steps() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with amplint.trace.watch() as record:
        for _ in range(150):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    assert len(record.updates) <= 2 * 33
    assert len(record.histograms) < 10


def test_levels_are_named() -> None:
    with pytest.raises(ValueError, match="off, sample, full"):
        amplint.trace.watch(numerics="some")
    record = watched(large_activations, numerics="off")
    assert record.numerics == "off"
    assert (record.nonfinite, record.losses, record.histograms, record.updates) == ([], [], [], [])
    assert findings(record) == []


@pytest.mark.parametrize("numerics", LEVELS)
def test_tensors_without_numbers_of_their_own_are_left_alone(numerics: str) -> None:
    with amplint.trace.watch(numerics=numerics):
        curvature = torch.func.hessian(lambda vector: (vector**3).sum())(torch.ones(2))
        nested = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]) * 2.0
    assert curvature.tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert [part.tolist() for part in nested.unbind()] == [[2.0], [2.0, 2.0]]
