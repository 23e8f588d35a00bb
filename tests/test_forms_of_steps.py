"""Mistakes in forms of training code that hid them: told where they are made, silent where they are repaired."""

from __future__ import annotations

import pytest

from amplint.api import check
from amplint.findings import Severity

HEAD = """
import torch
from torch import nn
"""
STEP = """
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(batch).sum()
        scaler.scale(loss).backward()
        {step}
        scaler.update()
"""
LOOP = "    for batch in data:" + STEP
FILLED = {
    "in_a_line": "    data.append(folder)",
    "in_a_loop": "    for name in names:\n        data.append(name)",
    "in_a_region_of_a_file": "    with open(folder) as lines:\n        data.extend(lines)",
    "in_a_branch": "    if names:\n        data.append(folder)",
    "by_another_name": "    found = data\n    for name in names:\n        found.append(name)",
    "in_a_function": "    def visit(name):\n        data.append(name)\n    names.walk(visit)",
    "by_unseen_code": "    names.collect(data)",
    "by_a_slice": "    data[:] = names",
}


def told(text: str) -> set[str]:
    return {one.code for one in check(HEAD + text) if one.severity > Severity.INFO}


@pytest.mark.parametrize("filled", FILLED.values(), ids=list(FILLED))
def test_list_that_is_filled_is_not_empty(filled: str) -> None:
    function = "def train(model, optimizer, folder, names):\n    scaler = torch.amp.GradScaler('cuda')\n    data = []\n"
    text = f"{function}{filled}\n    if not data:\n        return\n{LOOP}"
    assert "AMP206" in told(text.format(step="optimizer.step()"))
    assert told(text.format(step="scaler.step(optimizer)")) == set()


def test_elements_by_a_variable() -> None:
    text = """
def train(models, make, loader):
    optimizers = [torch.optim.AdamW(model.parameters()) for model in models]
    scalers = [torch.amp.GradScaler("cuda") for _ in models]
    for batch in loader:
        for k in range(len(models)):
            optimizers[k].zero_grad()
            with torch.autocast("cuda"):
                loss = models[k](batch).sum()
            scalers[k].scale(loss).backward()
            {unscale}
            nn.utils.clip_grad_norm_(models[k].parameters(), 1.0)
            {step}
            scalers[k].update()
"""
    unscale, step = "scalers[k].unscale_(optimizers[k])", "scalers[k].step(optimizers[k])"
    assert told(text.format(unscale=unscale, step=step)) == set()
    assert told(text.format(unscale="pass", step=step)) == {"AMP205"}
    assert told(text.format(unscale=unscale, step="optimizers[k].step()")) == {"AMP206"}
    few = text.replace('[torch.amp.GradScaler("cuda") for _ in models]', "[make(), make()]")
    assert told(few.format(unscale=unscale, step=step)) == set()
    assert told(few.format(unscale="pass", step=step)) == {"AMP205"}


@pytest.mark.parametrize("body", ['"""The loss."""', "pass", "...", '"""The loss."""\n        ...'])
@pytest.mark.parametrize("decorator", ["", "@abc.abstractmethod\n    "])
def test_methods_that_subclasses_define(body: str, decorator: str) -> None:
    text = f"""
import abc

class Trainer:
    def __init__(self, model):
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scaler = torch.amp.GradScaler("cuda")

    {decorator}def compute_loss(self, batch):
        {body}

    def train(self, loader):
        for batch in loader:
            self.optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = self.compute_loss(batch)
            {{backward}}
            self.scaler.step(self.optimizer)
            self.scaler.update()
"""
    assert told(text.format(backward="loss.backward()")) == {"AMP207"}
    assert told(text.format(backward="self.scaler.scale(loss).backward()")) == set()


@pytest.mark.parametrize("given", ["**options", "retain_graph=True, **options"])
def test_backward_with_options_of_a_caller(given: str) -> None:
    text = f"""
class Scaler:
    def __init__(self):
        self.scaler = torch.amp.GradScaler("cuda")

    def __call__(self, loss, optimizer, options):
        {{loss}}.backward({given})
        self.scaler.step(optimizer)
        self.scaler.update()
"""
    assert told(text.format(loss="loss")) == {"AMP207"}
    assert told(text.format(loss="self.scaler.scale(loss)")) == set()


def test_class_that_two_branches_define() -> None:
    text = """
from versions import IS_NEW

if IS_NEW:
    class Hook:
        def __init__(self):
            self.scaler = torch.amp.GradScaler("cuda")

        def after_iteration(self, runner):
            runner.optimizer.zero_grad()
            {loss}.backward()
            self.scaler.step(runner.optimizer)
            self.scaler.update()
else:
    class Hook:
        def after_iteration(self, runner):
            runner.optimizer.zero_grad()
            runner.loss.backward()
            runner.optimizer.step()
"""
    assert told(text.format(loss="runner.loss")) == {"AMP207"}
    assert told(text.format(loss="self.scaler.scale(runner.loss)")) == set()


WINDOWS = {
    "not_yet": ("waits = (i + 1) % n != 0 and i + 1 < len(loader)", "if not waits:"),
    "not_at_an_end": ("waits = not ((i + 1) % n == 0 or i + 1 == len(loader))", "if not waits:"),
    "answer": ("ends = True if (i + 1) % n == 0 else False", "if ends:"),
    "opposite_answer": ("waits = False if (i + 1) % n == 0 else True", "if not waits:"),
    "function": ("", "if ends(i, n):"),
    "function_of_the_length": ("", "if ends_or_last(i, n, len(loader)):"),
}


@pytest.mark.parametrize(("before", "condition"), WINDOWS.values(), ids=list(WINDOWS))
def test_conditions_of_windows(before: str, condition: str) -> None:
    text = f"""
def ends(i, n):
    return (i + 1) % n == 0

def ends_or_last(i, n, length):
    if (i + 1) % n == 0:
        return True
    return i + 1 == length

def train(model, criterion, optimizer, loader, n):
    for i, (inputs, targets) in enumerate(loader):
        {before}
        loss = criterion(model(inputs), targets){{share}}
        loss.backward()
        {condition}
            optimizer.step()
            optimizer.zero_grad()
"""
    text = text.replace("def train", "criterion = nn.CrossEntropyLoss()\n\ndef train").replace(
        "model, criterion", "model"
    )
    assert told(text.format(share="")) == {"AMP302"}
    assert told(text.format(share=" / n")) == set()
