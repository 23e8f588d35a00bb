"""Evaluation beside training: the same casts."""

from __future__ import annotations

import pytest

from amplint.codemods import Wish, convert

GIVEN = """import torch


def train(model, loader, criterion, optimizer):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        {trained}


def evaluate(model, loader, criterion):
    with torch.no_grad():
        for x, y in loader:
            out = model(x.cuda())
            loss = criterion(out, y.cuda())
            {evaluated}
"""


@pytest.mark.parametrize(
    ("trained", "evaluated", "casts"),
    [
        ("print(loss.item())", "print(out.argmax(1), loss.item())", 0),
        ("print(out.argmax(1))", "print(loss.item())", 2),
        ("print(out.argmax(1))", "print(out.argmax(1))", 2),
        ("print(loss.item())", "print(loss.item())", 0),
    ],
    ids=["in evaluation alone", "in training alone", "in both", "in neither"],
)
def test_a_loss_of_unknown_kind_is_given_the_same_in_training_and_evaluation(
    trained: str, evaluated: str, casts: int
) -> None:
    conversion = convert(GIVEN.format(trained=trained, evaluated=evaluated), Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    assert conversion.text.count("criterion(out.float(), y") == casts
    assert conversion.text.count("criterion(out, y") == 2 - casts


BRANCHES = """import torch


def train(model, loader, criterion, optimizer):
    for x, y in loader:
        out = model(x.cuda())
        if isinstance(out, list):
            loss = criterion(out[0], y)
            for one in out[1:]:
                loss += criterion(one, y)
        else:
            one = out
            loss = criterion(one, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(one.argmax(1))
"""


def test_so_it_is_in_the_branches_of_a_condition() -> None:
    conversion = convert(BRANCHES, Wish(to="amp"))
    assert conversion.refused == ()
    assert ".float()" not in conversion.text
    assert any("criterion gets what a model returned" in remark.text for remark in conversion.left)
