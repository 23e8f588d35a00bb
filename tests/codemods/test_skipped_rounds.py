"""Rounds that skip their step: where the scaler is updated, if gradients were unscaled."""

from __future__ import annotations

import pytest
import torch

from amplint.codemods import Wish, convert

LOOP = """import math

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(6):
    x = torch.randn(8, 4)
    loss = (model(x) - 1).abs().mean()
    optimizer.zero_grad()
    loss.backward()
{body}
"""
CLIPS = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
EITHER = """    if number < 3:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    else:
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.1)"""
PERHAPS = """    if number % 2:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"""
STEPS = "    if number % 3:\n        optimizer.step()"
INSIDE = """    if number % 3:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()"""


@pytest.mark.parametrize(
    ("body", "indentation"),
    [(f"{CLIPS}\n{STEPS}", 4), (f"{EITHER}\n{STEPS}", 4), (STEPS, 8), (INSIDE, 8)],
    ids=["clipped", "clipped in both branches", "not unscaled", "clipped beside the step"],
)
def test_the_update_ends_every_round_in_which_gradients_are_unscaled(body: str, indentation: int) -> None:
    conversion = convert(LOOP.format(body=body), Wish(to="amp", device="cpu"))
    assert conversion.refused == ()
    assert f"\n{' ' * indentation}scaler.update()\n" in conversion.text
    exec(compile(conversion.text, "<converted>", "exec"), {})


def test_what_is_clipped_in_some_rounds_alone_is_no_reason_for_an_update_in_all() -> None:
    conversion = convert(LOOP.format(body=f"{PERHAPS}\n{STEPS}"), Wish(to="amp", device="cpu"))
    assert conversion.refused or "\n        scaler.update()\n" in conversion.text


def test_gradients_that_are_clipped_before_their_window_ends_are_refused() -> None:
    body = f"{CLIPS}\n    if number % 3 == 2:\n        optimizer.step()\n        optimizer.zero_grad()"
    text = LOOP.format(body=body).replace("    optimizer.zero_grad()\n    loss", "    loss")
    conversion = convert(text, Wish(to="amp", device="cpu"))
    assert any("between a backward and the step" in one.text for one in conversion.refused)


def test_pytorch_refuses_to_unscale_twice_without_an_update() -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
