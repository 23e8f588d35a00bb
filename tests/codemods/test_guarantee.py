"""What is converted lints with no error and no warning that it did not have, and with no info that goes unmentioned."""

from __future__ import annotations

import pytest

from amplint.codemods import Remark, Wish, convert, driver
from amplint.codemods.conversion import Change, Plan
from amplint.codemods.registry import SOURCES
from amplint.findings import Edit, Fix, Span
from amplint.source.rewrite_lines import Lines

FLOAT16 = """import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
scaler = torch.amp.GradScaler("cuda")
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(x).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
TWICE = ("    scaler.step(", "    scaler.unscale_(optimizer)\n    scaler.unscale_(optimizer)\n    scaler.step(")
RUNS_AHEAD = ("    scaler.update()\n", "    scaler.update()\n    scheduler.step()\n")
AGAIN = "in the result, unscale_() runs a second time for this optimizer before update() (AMP201)"
AHEAD = "in the result, the scheduler advances even when the scaler has skipped the optimizer's step (AMP212)"


def _writing(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Let every codemod put `new` in the place of `old`."""

    def plan(text: str, wish: Wish, path: str) -> Plan:
        if new in text:
            return Plan()
        lines, start = Lines(text), text.index(old)
        edit = Edit(Span(lines.position(start), lines.position(start + len(old))), new)
        return Plan((Change(Fix("Write", (edit,)), (Remark(1, "Write"),)),))

    monkeypatch.setattr(driver, "find", lambda wish: plan)


@pytest.mark.parametrize("source", [*SOURCES, None])
def test_what_brings_an_error_is_refused(monkeypatch: pytest.MonkeyPatch, source: str | None) -> None:
    _writing(monkeypatch, *TWICE)
    conversion = convert(FLOAT16, Wish(to="amp", source=source))
    assert (conversion.text, conversion.done, conversion.refused) == (FLOAT16, (), (Remark(13, AGAIN),))


@pytest.mark.parametrize("source", [*SOURCES, None])
def test_what_brings_an_info_says_so(monkeypatch: pytest.MonkeyPatch, source: str | None) -> None:
    _writing(monkeypatch, *RUNS_AHEAD)
    conversion = convert(FLOAT16, Wish(to="amp", source=source))
    assert (conversion.text, conversion.refused) == (FLOAT16.replace(*RUNS_AHEAD), ())
    assert conversion.left == (Remark(15, AHEAD),)


def test_what_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    old = FLOAT16.replace(*RUNS_AHEAD)
    _writing(monkeypatch, "lr=0.1", "lr=0.2")
    conversion = convert(old, Wish(to="amp"))
    assert (conversion.text, conversion.refused) == (old.replace("lr=0.1", "lr=0.2"), ())
