"""Faults that are put into a run are found at their line, and their clean twins are silent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import amplint.trace
from amplint.engine.registry import load_registry
from amplint.trace.check import Check
from amplint.trace.data import ScalerStep
from amplint.trace.findings import findings
from amplint.trace.record import Record

Body = Callable[[nn.Module, torch.Tensor], torch.Tensor]


def watched(body: Body, *, half: bool = False) -> Record:
    """Three steps of a layer under bfloat16 autocast, with `body` on top."""
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    if half:
        model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters())
    with amplint.trace.watch() as record:
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not half):
                loss = body(model, torch.ones(2, 4, dtype=torch.bfloat16 if half else torch.float32))
            loss.backward()
            optimizer.step()
    return record


def product_into(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """An extra product that autocast does not see."""
    with torch.no_grad():
        torch.mm(x, x.t(), out=torch.empty(2, 2))
    return model(x).sum()


def product_in_place(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """An in-place product that autocast does not cast."""
    torch.ones(2, 2).addmm_(x, x.t())
    return model(x).sum()


def product_into_a_buffer(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A float32 buffer of the model that collects products."""
    model.register_buffer("gram", torch.zeros(4, 4))
    model.get_buffer("gram").addmm_(x.t(), x)
    return model(x).sum()


def back_and_forth(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Casts that undo each other."""
    y = model(x)
    for _ in range(4):
        y = y.float().to(torch.bfloat16)
    return y.sum()


def loss_without_region(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """A loss of half values that autocast would have computed in float32."""
    with torch.autocast("cpu", enabled=False):
        return nn.functional.mse_loss(model(x.float()).bfloat16(), torch.ones(2, 4).bfloat16())


def plain(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Nothing wrong."""
    return model(x).sum()


FAULTS = [
    (product_into, "AMP801", 3),
    (product_in_place, "AMP801", 2),
    (product_into_a_buffer, "AMP801", 3),
    (loss_without_region, "AMP802", 3),
    (back_and_forth, "AMP810", 4),
]


@pytest.mark.parametrize(("body", "code", "offset"), FAULTS)
def test_faults_are_found_at_their_line(body: Body, code: str, offset: int) -> None:
    found = findings(watched(body))
    row = body.__code__.co_firstlineno + offset
    assert [(finding.code, finding.filename, finding.span.start.row) for finding in found] == [(code, __file__, row)]


def test_weights_in_half() -> None:
    found = findings(watched(plain, half=True))
    assert [finding.code for finding in found] == ["AMP807"]
    assert found[0].message == "AdamW steps bfloat16 parameters: model.weight, model.bias"


def test_a_clean_run_is_silent() -> None:
    record = watched(plain)
    assert findings(record) == []
    record.assert_no_findings()
    with pytest.raises(AssertionError, match="AMP801 mm ran in float32, 3 times"):
        watched(product_into).assert_no_findings()


def steps(pattern: str, scale: float) -> Record:
    """A record of a scaler: `s` is a step, `x` a skipped one, after which the scale is halved."""
    record = Record()
    for number, letter in enumerate(pattern):
        after = scale / 2 if letter == "x" else scale
        record.scaler_steps.append(
            ScalerStep(number, "t.py", 9, "scaler 1", "SGD", "READY", scale, letter == "x", after)
        )
        scale = after
    return record


@pytest.mark.parametrize(
    ("pattern", "scale", "why"),
    [
        ("xxxxss", 65536.0, None),
        ("xxxxxxxxxss", 65536.0, None),
        ("ssssssssxs", 65536.0, None),
        ("xxs", 65536.0, None),
        ("sxsxsxsx", 65536.0, "skipped 4 of 8 steps after its scale had settled"),
        ("x" * 12, 65536.0, "skipped a step at a scale of only 32"),
        ("sx", 16.0, "skipped a step at a scale of only 16"),
    ],
)
def test_skipped_steps(pattern: str, scale: float, why: str | None) -> None:
    found = findings(steps(pattern, scale))
    assert [(finding.code, finding.span.start.row) for finding in found] == ([("AMP806", 9)] if why else [])
    if why:
        assert why in found[0].message


def test_every_check_has_a_fault_here() -> None:
    checks = {rule.code for rule in load_registry().rules.values() if issubclass(rule, Check)}
    elsewhere = {"AMP803", "AMP804", "AMP805", "AMP808", "AMP809", *(f"AMP81{last}" for last in range(1, 6))}
    assert checks == {code for _, code, _ in FAULTS} | {"AMP806", "AMP807"} | elsewhere
