"""Training code whose structure decides where regions, scaler and remarks go: acting, resuming, holders of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told as remarks

HEAD = """import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
LOOP = """for x in loader:
    loss = model(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
ACTING = (
    HEAD
    + """
for _ in range(9):
    for step in range(3):
        with torch.no_grad():
            action = model(observations)
        observations = environment.step(action.argmax(1).cpu())
        values[step] = action.mean()
    out = model(observations)
    loss = (values.mean() - out).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
)
RENDERING = (
    HEAD
    + """
def train(images, only):
    if only:
        with torch.no_grad():
            images = model(images)
        show(images)
        return
    images = torch.stack(images)
    for image in images:
        loss = model(image).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(loader, False)
"""
)
PLOTTING = (
    HEAD
    + """
for epoch in range(2):
    if epoch % 10 == 0:
        pose = model(fixed)
        show(pose)
    for image, given in loader:
        if given is None:
            pose = model(image)
        else:
            pose = given
        loss = model(pose).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
)
PLAYER = """class Player:
    def __init__(self):
        self.model, self.values = None, []

    def act(self):
        self.values.append(self.model(self.state))
"""
PLAYING = """import torch
from torch import nn

from player import Player

player = Player()
player.model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(player.model.parameters(), lr=0.1)
player.model.train()
for _ in range(9):
    for step in range(3):
        player.act()
    loss = 0
    for value in player.values:
        loss = loss + value.mean()
    player.model.zero_grad()
    loss.backward()
    optimizer.step()
"""
POLICY = """import torch
from torch import nn


class Trainer:
    def __init__(self, policy):
        self.policy = policy

    def update(self, batch):
        values, scores = self.policy.evaluate(batch)
        loss = (values - scores).pow(2).mean()
        self.policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.actor.parameters(), 1.0)
        self.policy.optimizer.step()
"""
ONE_LOSS = HEAD + LOOP.replace("model(x).mean()", "model.get_loss(x, 3)")


def _converted(text: str, dtype: str = "float16", path: Path | None = None) -> Conversion:
    return convert(text, Wish(to="amp", dtype=dtype), str(path) if path is not None else "")


def test_acting_without_gradients_has_a_region_of_its_own() -> None:
    conversion = _converted(ACTING)
    assert "with torch.no_grad(), torch.autocast(" in conversion.text
    assert "\n    for step in range(3):\n        with" in conversion.text
    assert conversion.text.count("torch.autocast(") == 2


def test_what_a_branch_binds_that_returns_reaches_no_loss() -> None:
    conversion = _converted(RENDERING)
    assert "\n    if only:\n" in conversion.text
    assert "\n    images = torch.stack(images)\n    for" in conversion.text


def test_a_condition_reads_nothing_that_each_of_its_branches_binds() -> None:
    conversion = _converted(PLOTTING)
    assert "\n    if epoch % 10 == 0:\n" in conversion.text
    region = 'with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
    assert (
        f"        if given is None:\n            {region}                pose = model(image).float()\n"
        in conversion.text
    )
    assert f"        {region}            loss = model(pose).float().pow(2).mean()\n" in conversion.text


def test_a_method_that_runs_the_model_of_its_object_changes_the_object(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "player.py").write_text(PLAYER)
    conversion = _converted(PLAYING, path=tmp_path / "train.py")
    assert "dtype=torch.float16):\n        for step in range(3):\n            player.act()" in conversion.text


def test_a_method_of_an_object_with_a_model_runs_it() -> None:
    conversion = _converted(POLICY)
    outputs = "values, scores = (output.float() for output in self.policy.evaluate(batch))"
    assert f"dtype=torch.float16):\n            {outputs}" in conversion.text
    assert conversion.text.count("GradScaler(") == 1


def test_a_method_that_gives_a_loss_runs_the_model() -> None:
    assert "):\n        loss = model.get_loss(x, 3)" in _converted(ONE_LOSS).text


def test_a_model_behind_its_wrapper_is_evaluated_in_a_region() -> None:
    wrapped = HEAD + LOOP
    wrapped += "with torch.no_grad():\n    shown = model.module(x)\n"
    assert "with torch.no_grad(), torch.autocast(" in _converted(wrapped).text


def test_an_optimizer_that_is_restored_out_of_sight_is_stepped_by_the_scaler() -> None:
    text = HEAD + "if resume:\n    model, optimizer = restored(resume)\n"
    text += LOOP
    conversion = _converted(text)
    assert "scaler.step(optimizer)" in conversion.text
    assert conversion.text.index("restored(resume)") < conversion.text.index("GradScaler(")


@pytest.mark.parametrize("name", ["grad", "_grad"])
def test_gradients_copied_to_another_model_are_refused(name: str) -> None:
    text = HEAD + "shared = nn.Linear(4, 4)\nfor x in loader:\n    loss = model(x).mean()\n    loss.backward()\n"
    text += f"    for p, q in zip(model.parameters(), shared.parameters()):\n        q.{name} = p.grad\n"
    text += "    optimizer.step()\n"
    conversion = _converted(text)
    assert [one.row for one in conversion.refused] == [11]
    assert not _converted(text, "bfloat16").refused


@pytest.mark.parametrize(("use", "refused"), [("parallel.DistributedDataParallel", 0), ("amp.initialize", 1)])
def test_apex_stands_in_the_way_only_where_it_scales(use: str, refused: int) -> None:
    text = "from apex import amp, parallel\n" + HEAD + f"model = {use}(model)\n"
    text += LOOP
    assert len(_converted(text).refused) == refused


def test_a_model_that_is_given_has_been_moved() -> None:
    text = """import torch


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in loader:
        loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    assert not _converted(text, "bfloat16").left
    assert _converted(text.replace("(model, loader):", "(loader):\n    model = torch.nn.Linear(4, 4)"), "bfloat16").left


OTHERS = {
    "gram": """import torch


def criterion(out):
    b, c, n = out.shape
    turned = out.transpose(1, 2)
    return (torch.bmm(out, turned) / (c * n)).mean()
""",
    "similarity": """import torch


def criterion(out):
    return (torch.bmm(out, out.transpose(1, 2)) / 0.07).mean()
""",
    "probabilities": """import torch
from torch import nn


class Losses:
    def __init__(self):
        self.bce = nn.BCELoss()

    def criterion(self, out):
        return self.bce(out, out)


criterion = Losses().criterion
""",
    "schedule": """import numpy as np


def criterion(out):
    return out.mean() * np.sqrt(1 - out.shape[0] ** 2)
""",
}


@pytest.mark.parametrize(
    ("name", "named"),
    [("gram", ""), ("similarity", ""), ("probabilities", "losses.py:10: "), ("schedule", "")],
)
def test_hazards_of_losses_in_other_files(tmp_path: Path, name: str, named: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "losses.py").write_text(OTHERS[name])
    text = "from losses import criterion\n" + HEAD
    text += LOOP.replace("model(x).mean()", "criterion(model(x))")
    told = [one.text for one in remarks(_converted(text, path=tmp_path / "train.py")) if "losses.py" in one.text]
    told = [one for one in told if "products of rows" in one or "binary" in one or "root" in one]
    assert any(one.startswith(named) for one in told) if named else not told


KERNEL = """import torch
from torch import nn

import pooling_cuda


class Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return pooling_cuda.forward(x)

    @staticmethod
    def backward(ctx, gradient):
        return pooling_cuda.backward(gradient)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return Pool.apply(self.layer(x))
"""


@pytest.mark.parametrize("folder", ["", "lib/"])
def test_a_kernel_of_its_own_gets_float32_also_on_a_search_path(tmp_path: Path, folder: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "net.py").write_text(KERNEL)
    added = "import os, sys\n\nsys.path.insert(0, os.path.join(os.path.dirname(__file__), 'lib'))\n"
    (tmp_path / "_paths.py").write_text(added)
    text = "import _paths\nfrom net import Net\n" + HEAD.replace("nn.Linear(4, 4)", "Net()")
    text += LOOP
    conversion = _converted(text, path=tmp_path / "train.py")
    why = f"{folder}net.py:10: pooling_cuda.forward() may have no kernel for half"
    assert any(one.text.startswith(why) for one in conversion.cured)
    assert b"cast_inputs=torch.float32" in conversion.others[0].after


def test_the_key_of_the_scaler_is_renamed_and_not_the_dictionary() -> None:
    text = HEAD + LOOP
    text += 'opt_state = {}\nopt_state["optimizer"] = optimizer.state_dict()\ntorch.save(opt_state, "last.pt")\n'
    assert 'opt_state["scaler"] = scaler.state_dict()' in _converted(text).text


def test_a_loss_that_no_class_in_sight_computes_is_given_float32() -> None:
    text = """import torch


class Training:
    def step(self, batch):
        self.network.train()
        self.optimizer.zero_grad()
        self.run(batch)
        self.loss.backward()
        self.optimizer.step()

    def __init__(self, network, optimizer):
        self.network, self.optimizer = network, optimizer

    def run(self, batch):
        self.out = self.network(batch)
        self.loss = self.loss_of_network()
"""
    conversion = _converted(text, "bfloat16")
    assert conversion.left == ()
    call = "            self.out = to_float32(self.network(batch))\n        self.loss = self.loss_of_network()\n"
    assert call in conversion.text


def test_the_scaler_stands_above_a_loop_that_makes_the_optimizer_anew() -> None:
    text = HEAD + "for epoch in range(3):\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / (epoch + 1))\n"
    text += "    for x in loader:\n        loss = model(x).mean()\n        optimizer.zero_grad()\n"
    text += "        loss.backward()\n        optimizer.step()\n"
    text = text.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "", 1)
    assert 'scaler = torch.amp.GradScaler("cuda")\nfor epoch' in _converted(text).text
