"""State in half, coarse numbers and scaled gradients: what is a mistake, and what only looks like one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import amplint.trace
from amplint.trace.data import Observation
from amplint.trace.findings import findings
from amplint.trace.record import Record
from rules.runtime.recomputed_otherwise import RecomputedOtherwise

Rest = Callable[[torch.amp.GradScaler, torch.optim.Optimizer, list[nn.Parameter]], None]
BF16 = torch.bfloat16


def codes(record: Record) -> list[tuple[str, int]]:
    return [(one.code, one.span.start.row) for one in findings(record)]


def scaled(rest: Rest, enabled: bool = True) -> Record:
    """Three steps with a scaler, whose gradients `rest` has behind the backward pass."""
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, enabled=enabled)
    with amplint.trace.watch() as record:
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(2, 8)).square().mean()).backward()
            rest(scaler, optimizer, list(model.parameters()))
    return record


def finish(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> None:
    scaler.step(optimizer)
    scaler.update()


def clips(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
    clip_grad_norm_(parameters, 1.0)
    finish(scaler, optimizer)


def clips_values(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    clip_grad_value_(parameters, 1.0)
    finish(scaler, optimizer)


def clips_by_hand(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    norm = torch.cat([one.grad.flatten() for one in parameters if one.grad is not None]).norm()
    coefficient = 1.0 / (norm + 1e-6)
    for one in parameters:
        assert one.grad is not None
        one.grad *= coefficient.clamp(max=1.0)
    finish(scaler, optimizer)


def sums_squares(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    norm = torch.stack([one.grad.square().sum() for one in parameters if one.grad is not None]).sum().sqrt()
    if norm > 10:
        return
    finish(scaler, optimizer)


def steps(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]) -> None:
    optimizer.step()


@pytest.mark.parametrize(
    ("rest", "row"), [(clips, 1), (clips_values, 3), (clips_by_hand, 3), (sums_squares, 3), (steps, 1)]
)
def test_scaled_gradients_are_used(rest: Rest, row: int) -> None:
    assert codes(scaled(rest)) == [("AMP814", rest.__code__.co_firstlineno + row)]


def unscales_first(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    scaler.unscale_(optimizer)
    clip_grad_norm_(parameters, 1.0)
    clip_grad_value_(parameters, 0.5)
    finish(scaler, optimizer)


def scales_the_limit(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    clip_grad_norm_(parameters, 1.0 * scaler.get_scale())
    finish(scaler, optimizer)


def divides_the_norm(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    norms = torch.stack([one.grad.norm() for one in parameters if one.grad is not None])
    if norms.norm() / scaler.get_scale() < 1e4:
        finish(scaler, optimizer)


def logs_the_norm(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    assert parameters[0].grad is not None
    parameters[0].grad.norm().item()
    finish(scaler, optimizer)


def divides_in_place(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    for one in parameters:
        assert one.grad is not None
        one.grad /= scaler.get_scale()
    clip_grad_norm_(parameters, 1.0)
    optimizer.step()


def divides_into_others(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: list[nn.Parameter]
) -> None:
    for one in parameters:
        assert one.grad is not None
        one.grad = one.grad / scaler.get_scale()
    clip_grad_norm_(parameters, 1.0)
    optimizer.step()


@pytest.mark.parametrize(
    "rest",
    [unscales_first, scales_the_limit, divides_the_norm, logs_the_norm, divides_in_place, divides_into_others],
)
def test_gradients_that_are_unscaled_may_be_used(rest: Rest) -> None:
    assert codes(scaled(rest)) == []


def test_gradients_carry_no_scale_where_the_scaler_is_off() -> None:
    assert codes(scaled(clips, enabled=False)) == []


Follow = Callable[[Tensor, Tensor], None]


def followed(follow: Follow, dtype: torch.dtype = BF16, size: int = 32) -> Record:
    """Three steps, behind each of which `follow` brings a slow tensor nearer to one that changes."""
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(size) + 3)
    slow = weight.detach().to(dtype)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with amplint.trace.watch() as record:
        for _ in range(4):
            optimizer.zero_grad()
            (weight - 5).square().sum().backward()
            optimizer.step()
            follow(slow, weight.detach())
    return record


def in_two(slow: Tensor, fast: Tensor) -> None:
    slow.mul_(0.999).add_(fast.to(slow.dtype), alpha=0.001)


def by_lerp(slow: Tensor, fast: Tensor) -> None:
    slow.lerp_(fast.to(slow.dtype), 0.001)


def by_copy(slow: Tensor, fast: Tensor) -> None:
    slow.copy_(0.9995 * slow + 0.0005 * fast.to(slow.dtype))


def by_assignment(slow: Tensor, fast: Tensor) -> None:
    slow.data = (slow.data.float() * 0.999 + fast * 0.001).to(slow.dtype)


def of_many(slow: Tensor, fast: Tensor) -> None:
    torch._foreach_lerp_([slow], [fast.to(slow.dtype)], 0.001)


@pytest.mark.parametrize("size", [32, 20_000])
@pytest.mark.parametrize("dtype", [BF16, torch.float16])
@pytest.mark.parametrize("follow", [in_two, by_lerp, by_copy, by_assignment, of_many])
def test_an_average_that_never_moves(follow: Follow, dtype: torch.dtype, size: int) -> None:
    assert codes(followed(follow, dtype, size)) == [("AMP812", follow.__code__.co_firstlineno + 1)]


@pytest.mark.parametrize("follow", [in_two, by_lerp, by_copy, by_assignment, of_many])
def test_an_average_in_float32_moves(follow: Follow) -> None:
    assert codes(followed(follow, torch.float32)) == []


def quickly(slow: Tensor, fast: Tensor) -> None:
    slow.mul_(0.5).add_(fast.to(slow.dtype), alpha=0.5)


def of_its_own(slow: Tensor, fast: Tensor) -> None:
    """What is not read any more is no state."""
    hidden = slow.clone()
    hidden += 1e-5 * fast.to(slow.dtype)


def by_nothing(slow: Tensor, fast: Tensor) -> None:
    slow.add_(torch.zeros_like(slow)).mul_(1.0)


@pytest.mark.parametrize("follow", [quickly, of_its_own, by_nothing])
def test_what_moves_or_is_no_state(follow: Follow) -> None:
    assert codes(followed(follow)) == []


def test_half_gradients_are_no_state() -> None:
    weight = nn.Parameter(torch.ones(300, dtype=BF16))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with amplint.trace.watch() as record:
        for _ in range(4):
            optimizer.zero_grad(set_to_none=False)
            (weight * torch.ones(300, dtype=BF16)).sum().backward()
            assert weight.grad is not None
            weight.grad.mul_(0.999)
            optimizer.step()
    assert [code for code, _ in codes(record) if code not in ("AMP802", "AMP807")] == []


def counted(compute: Callable[[], object]) -> list[str]:
    """The codes of what is found where `compute` runs in each of two steps."""
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with amplint.trace.watch() as record:
        for _ in range(2):
            compute()
            weight.sum().backward()
            optimizer.step()
    return [code for code, _ in codes(record)]


@pytest.mark.parametrize(
    "compute",
    [
        lambda: torch.arange(1000, dtype=BF16),
        lambda: torch.arange(1000, 2000).to(BF16),
        lambda: torch.full((4096,), 0.1, dtype=BF16).cumsum(0),
        lambda: (1 - torch.linspace(1e-4, 2e-3, 1000)).to(BF16).cumprod(0),
        lambda: torch.linspace(0, 1000, 64, dtype=BF16).sin(),
        lambda: torch.linspace(0, 10_000, 64).half().cos(),
    ],
)
def test_numbers_that_half_cannot_tell_apart(compute: Callable[[], object]) -> None:
    assert counted(compute) == ["AMP813"]


@pytest.mark.parametrize(
    "compute",
    [
        lambda: torch.arange(200, dtype=BF16),
        lambda: torch.arange(0, 2000, 16, dtype=BF16),
        lambda: torch.arange(2000, dtype=torch.float16),
        lambda: torch.randint(0, 256, (64,)).to(BF16),
        lambda: (torch.rand(300) > 0.5).to(BF16).cumsum(0),
        lambda: torch.tensor([0.0, 1.0, 1.0] * 30, dtype=BF16).cumprod(0),
        lambda: torch.where(torch.rand(64) > 0.9, torch.rand(64), 1.0).half().cumprod(0),
        lambda: torch.zeros(100, dtype=BF16).cumsum(0),
        lambda: torch.linspace(-10, 10, 64, dtype=BF16).sin(),
        lambda: torch.linspace(0, 1000, 64).sin().to(BF16),
    ],
)
def test_numbers_that_half_can_tell_apart(compute: Callable[[], object]) -> None:
    assert counted(compute) == []


def test_many_terms_in_half_are_lost() -> None:
    def added() -> None:
        total = torch.zeros(4, dtype=BF16)
        for _ in range(600):
            total += 0.3

    assert counted(added) == ["AMP812"]
    assert counted(lambda: torch.zeros(2, dtype=BF16).index_add_(0, torch.zeros(900).long(), torch.ones(900).to(BF16)))


def test_a_checkpoint_that_runs_as_before_is_no_finding() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch() as record:
        with torch.autocast("cpu", dtype=BF16):
            out = torch.utils.checkpoint.checkpoint(model, torch.ones(2, 8), use_reentrant=False)
        out.float().sum().backward()
        optimizer.step()
    assert any(one.phase == "recomputation" for one in record.operations)
    assert list(RecomputedOtherwise().findings(record)) == []


def test_a_loss_that_is_not_finite_needs_no_scale() -> None:
    x = torch.linspace(1, 9, 600).view(2, 300)
    model = nn.Linear(300, 300)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with amplint.trace.watch(numerics="full") as record:
        for scale in (1e-7, 1.0):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                out = model(x)
            (scale * out.float().square().mean() + (out * 1e4 / 1e4).square().mean().float() * (scale == 1)).backward()
            optimizer.step()
    assert record.nonfinite
    assert any(one.underflowed for one in record.losses)
    assert [code for code, _ in codes(record) if code == "AMP804"] == []


def test_a_record_keeps_what_was_observed() -> None:
    record = followed(in_two)
    assert record.observations == Record.from_json(record.to_json()).observations
    assert isinstance(record.observations[0], Observation)


@pytest.mark.parametrize("dtype", [BF16, torch.float16])
def test_a_walk_in_half_loses_no_terms(dtype: torch.dtype) -> None:
    """As a sampler takes, whose roundings add up."""

    def walked() -> None:
        x = torch.zeros(64, dtype=dtype)
        for _ in range(300):
            x.mul_(0.99).add_(torch.randn(64).to(dtype))

    assert counted(walked) == []


def test_sparse_gradients_are_left_alone() -> None:
    table = nn.Embedding(8, 4, sparse=True)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    with amplint.trace.watch() as record:
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(table(torch.tensor([1, 2])).square().mean()).backward()
            finish(scaler, optimizer)
    assert codes(record) == []


def test_gradients_of_another_loss_are_not_scaled() -> None:
    """One model is trained by a scaler, the other without."""
    scaled_one, plain = nn.Linear(4, 1), nn.Linear(4, 1)
    first, second = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (scaled_one, plain))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    with amplint.trace.watch() as record:
        for _ in range(3):
            first.zero_grad()
            plain(torch.ones(2, 4)).mean().backward()
            scaler.scale(scaled_one(torch.ones(2, 4)).mean()).backward()
            clip_grad_norm_(plain.parameters(), 1.0)
            second.step()
            second.zero_grad()
            finish(scaler, first)
    assert codes(record) == []


def test_tensors_of_transforms_and_classes_are_left_alone() -> None:
    class Own(Tensor):
        pass

    def odd() -> None:
        with torch.no_grad():
            x = torch.ones(3, 4, dtype=BF16)
            torch.func.vmap(lambda row: (row + row) * row)(x)
            (x.as_subclass(Own) + 1).add_(1)
            (x.to_sparse() * 2).to_dense().mul_(2)
            torch.empty(0, dtype=BF16).add_(1)
            torch.ones(2, device="meta", dtype=BF16).mul_(2)

    assert counted(odd) == []
