"""Code is run until it has nothing new to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry
from amplint.semantics.events import Backward, Unscale
from amplint.semantics.python import functions, statements
from amplint.semantics.python.machine import Machine
from amplint.semantics.python.novelty import Novelty, Patience
from amplint.source import syntax as cst
from tests.linting import findings_of

RULES = tuple(rule for rule in load_registry().rules.values() if rule.handlers())
NODE = cst.Name(value="loss")


def test_code_is_over_when_it_tells_nothing_for_some_runs_that_cost_something() -> None:
    novelty, patience = Novelty(frozenset()), Patience(runs=2, steps=30)
    for steps in (10, 10):
        assert not novelty.is_over("train", patience)
        novelty.ran("train", novelty.event_count, steps)
    assert not novelty.is_over("train", patience)
    novelty.ran("train", novelty.event_count, 10)
    assert novelty.is_over("train", patience)
    assert not novelty.is_over("validate", patience)


def test_what_is_new_begins_the_patience_anew() -> None:
    novelty, patience = Novelty(frozenset()), Patience(runs=1, steps=0)
    novelty.ran("train", novelty.event_count, 1)
    before = novelty.event_count
    novelty.record(Backward, NODE, {"loss": object()})
    novelty.ran("train", before, 1)
    assert not novelty.is_over("train", patience)


def test_new_is_another_place_kind_or_flag() -> None:
    novelty = Novelty(frozenset())
    for kind, node, details in [
        (Unscale, NODE, {"again": False}),
        (Unscale, NODE, {"again": True}),
        (Backward, NODE, {"again": True}),
        (Backward, cst.Name(value="loss"), {"again": True}),
        (Unscale, NODE, {"again": False}),
    ]:
        novelty.record(kind, node, details)
    assert novelty.event_count == 4


VALIDATED = """
import torch

def validate(model, loader, trains):
    for inputs in loader:
        outputs = model(inputs)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if trains:
            with torch.autocast("cuda"):
                model(inputs).sum().backward()
{work}

def train(model, optimizer, loader, args):
    scaler = torch.amp.GradScaler()
    for epoch in range(args.epochs):
        for inputs in loader:
            with torch.autocast("cuda"):
                loss = model(inputs).sum()
            if args.one:
                scaler.scale(loss).backward()
            if args.two:
                scaler.unscale_(optimizer)
            if args.three:
                scaler.step(optimizer)
                scaler.update()
            validate(model, [inputs, args.other], False)
    validate(model, loader, {last})
"""
WORK = "\n".join(f"        total_{i} = outputs[{i}] * {i}" for i in range(40))


def lint(text: str) -> list[str]:
    """The codes found in a file with this text."""
    return [finding.code for finding in findings_of(text, RULES)]


def runs(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the functions of a script are run."""
    bodies: list[object] = []
    outcomes = functions._outcomes
    with monkeypatch.context() as patch:
        patch.setattr(functions, "_outcomes", lambda *given: bodies.append(given) or outcomes(*given))
        lint(text)
    return len(bodies)


def test_a_function_that_tells_nothing_new_is_not_run_for_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    text = VALIDATED.format(work=WORK, last="False")
    few = runs(text, monkeypatch)
    monkeypatch.setattr(Novelty, "is_over", lambda *_: False)
    assert few < runs(text, monkeypatch)


def test_a_call_with_another_flag_is_run() -> None:
    assert "AMP101" not in lint(VALIDATED.format(work=WORK, last="False"))
    assert "AMP101" in lint(VALIDATED.format(work=WORK, last="True"))


HELPERS = """
import torch

def clip(model, inputs, times):
    outputs = model(inputs)
{work}
    torch.nn.utils.clip_grad_norm_(model.parameters(), times)

def train(model, optimizer, scaler, batches):
{calls}
"""
CALLS_OF_HELPERS = "\n".join(f"    clip(model, batches[{i}], {i}.0)" for i in range(12))
CALLING = """
import torch
from helpers import clip, train

model, batches = torch.nn.Linear(1, 1), [torch.ones(1, 1)] * 12
optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
{calls}
"""


@pytest.mark.parametrize(
    ("calls", "most"), [("train(model, optimizer, scaler, batches)", 4), (CALLS_OF_HELPERS.replace("    ", ""), 12)]
)
def test_a_function_of_another_file_is_run_anew_below_another_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: str, most: int
) -> None:
    work = WORK.replace("        ", "    ")
    (tmp_path / "helpers.py").write_text(HELPERS.format(work=work + "\n" + work, calls=CALLS_OF_HELPERS))
    path, names = str(tmp_path / "train.py"), list[str]()
    outcomes = functions._outcomes
    monkeypatch.setattr(functions, "_outcomes", lambda *given: names.append(given[2].chunk.name) or outcomes(*given))
    analyse(Job("train.py", path, CALLING.format(calls=calls).encode(), RULES), Modules())
    assert 2 <= names.count("clip") <= most
    assert most < 12 or names.count("clip") == 12


LONG_WORK = "\n".join([WORK.replace("        ", "            ")] * 3)
TWICE = """
import torch

def train(model, optimizer, scaler, loader, updates):
    optimizer.zero_grad()
    for index, inputs in enumerate(loader):
        with torch.autocast("cuda"):
            outputs = model(inputs)
{work}
        scaler.scale(outputs.sum()).backward()
        if index % 2:
            scaler.step(optimizer)
            if updates:
                scaler.update()
                optimizer.zero_grad()
    optimizer.zero_grad()
    scaler.update()

def run(model, loaders):
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda")
    train(model, optimizer, scaler, loaders[0], True)
    train(model, optimizer, scaler, loaders[1], True)
    train(model, optimizer, scaler, loaders[2], {last})
"""


def statements_run(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many statements of a script are run, each counted for every path, round and call."""
    spent: list[object] = []
    spend = Machine.spend
    with monkeypatch.context() as patch:
        patch.setattr(Machine, "spend", lambda machine: spent.append(machine) or spend(machine))
        lint(text)
    return len(spent)


def test_a_loop_that_told_nothing_after_its_first_round_runs_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TWICE.format(work=LONG_WORK, last="True")
    few, found = statements_run(text, monkeypatch), lint(text)
    monkeypatch.setattr(statements, "LATER_ROUNDS", Patience(runs=10**9, steps=0))
    assert few < statements_run(text, monkeypatch)
    assert lint(text) == found


def test_a_loop_in_a_call_with_another_flag_runs_every_round() -> None:
    assert "AMP203" not in lint(TWICE.format(work=LONG_WORK, last="True"))
    assert "AMP203" in lint(TWICE.format(work=LONG_WORK, last="False"))


SWITCHED = """
import torch

def train(model, optimizer, loader, args):
    scaler = torch.amp.GradScaler("cuda")
    if args.plain:
        scaler = torch.amp.GradScaler("cuda", enabled=False)
    for epoch in range(args.epochs):
        for index, inputs in enumerate(loader):
            with torch.autocast("cuda"):
                outputs = model(inputs)
{work}
            optimizer.zero_grad()
            scaler.scale(outputs.sum()).backward()
            scaler.step(optimizer)
            if index % args.every == 0:
                print(index)
"""


def test_a_loop_whose_first_round_told_something_runs_every_round() -> None:
    assert "AMP203" in lint(SWITCHED.format(work=LONG_WORK))
