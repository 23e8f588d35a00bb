"""Where scalers, regions and casts stand in shapes that strangers' training code has."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from amplint.codemods import Wish, convert


def _converted(text: str, dtype: str = "float16", path: str = "") -> str:
    conversion = convert(text, Wish(to="amp", dtype=dtype), path)
    assert conversion.refused == ()
    return conversion.text


AGENTS = """import torch
from agents import Agent


class Learner:
    def __init__(self, n):
        self.agents = [Agent() for _ in range(n)]
        self.critic = torch.nn.Linear(4, 4).cuda()
        self.critic_opt = torch.optim.Adam(self.critic.parameters())

    def update_critic(self, x, y):
        self.critic_opt.zero_grad()
        loss = ((self.critic(x) - y) ** 2).mean()
        loss.backward()
        self.critic_opt.step()

    def update_policies(self, outs):
        for i, out in enumerate(outs):
            agent = self.agents[i]
            agent.opt.zero_grad()
            loss = self.critic(out).mean()
            loss.backward()
            agent.opt.step()
"""


def test_one_scaler_serves_the_optimizers_of_a_list() -> None:
    text = _converted(AGENTS)
    assert text.count("GradScaler(") == 1
    assert 'Adam(self.critic.parameters())\n        self.scaler = torch.amp.GradScaler("cuda")\n' in text
    assert "            self.scaler.step(agent.opt)\n            self.scaler.update()\n" in text


BASED = """import torch
from base import Base


class Trainer(Base):
    def __init__(self, model, loader, config):
        super().__init__(model, config)
        self.loader = loader
        self.log_step = 10
        if config:
            self.log_step = config

    def train(self):
        for x, y in self.loader:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(x.cuda()), y.cuda())
            loss.backward()
            self.optimizer.step()
"""


def test_a_scaler_follows_the_constructor_of_the_base_that_makes_the_optimizer() -> None:
    made = '        super().__init__(model, config)\n        self.scaler = torch.amp.GradScaler("cuda")\n'
    assert made in _converted(BASED)


DISCREPANCY = """import torch
from nets import build, distance

features, first, second = build().cuda(), build().cuda(), build().cuda()
optimizer = torch.optim.SGD([*features.parameters(), *first.parameters(), *second.parameters()], lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    out = features(x)
    one = first(out)
    two = second(out)
    loss = torch.nn.functional.mse_loss(one, y) + torch.nn.functional.mse_loss(two, y)
    loss.backward()
    optimizer.step()
    out = features(x)
    one = first(out)
    two = second(out)
    gap = distance(one, two)
    # gap.backward()
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_no_region_follows_another_at_once(dtype: str) -> None:
    lines = _converted(DISCREPANCY, dtype).splitlines()
    headers = [row for row, line in enumerate(lines) if "autocast(" in line]
    for first, second in itertools.pairwise(headers):
        assert any(line and not line.startswith("        ") for line in lines[first + 1 : second])


EPOCHS = """import torch
from nets import build

net = build().cuda()
lr = 0.1


def train(loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()


for epoch in range(20):
{inside}    train([(torch.ones(2, 4), torch.ones(2, 4))])
"""


@pytest.mark.parametrize(
    ("inside", "above"),
    [
        ("    if epoch in [0, 10]:\n        optimizer = torch.optim.SGD(net.parameters(), lr=lr)\n", True),
        (
            "    if epoch in [0, 10]:\n        net = build().cuda()\n"
            "        optimizer = torch.optim.SGD(net.parameters(), lr=lr)\n",
            False,
        ),
    ],
    ids=["of the same model", "of a new one"],
)
def test_the_scaler_of_optimizers_made_in_some_epochs_stands_above_the_loop(inside: str, above: bool) -> None:
    text = _converted(EPOCHS.format(inside=inside))
    assert ('scaler = torch.amp.GradScaler("cuda")\nfor epoch' in text) is above
    assert text.count("GradScaler(") == 1


ALIASED = """import torch
import torch.nn.functional as F
from torch import nn

net = nn.Conv2d(3, 1, 3).cuda()
criterion = nn.BCELoss()
optimizer = torch.optim.Adam(net.parameters())


def train(loader):
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        out = net(x)
        probs = torch.sigmoid(out)
{between}        loss = criterion(probs.view(-1), y.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("between", "inside"),
    [
        ("", "            out = net(x)\n            loss = criterion(out.view(-1), y.view(-1))\n"),
        ("        print((probs > 0.5).sum())\n", "print((torch.sigmoid(out.float()) > 0.5).sum())\n"),
        ("        out = x\n", "            probs = out\n            loss = criterion(probs.view(-1)"),
    ],
    ids=["loss alone", "read elsewhere", "another value before it is read"],
)
def test_no_variable_of_probabilities_is_left_for_logits(between: str, inside: str) -> None:
    text = _converted(ALIASED.format(between=between))
    assert "BCEWithLogitsLoss()" in text
    assert inside in text


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import torch as t\nimport torch.nn as nn\n", "t"),
        ("import torch as t\nimport torch\n", "torch"),
        ("import torch\n", "torch"),
    ],
)
def test_the_name_of_pytorch_can_come_by_a_star(tmp_path: Path, imports: str, name: str) -> None:
    (tmp_path / "nets.py").write_text(f"{imports}\n\ndef build():\n    return None\n", encoding="utf-8")
    text = (
        f"from nets import *\n\nmodel = build().cuda()\noptimizer = {name}.optim.Adam(model.parameters())\n"
        "for x in [1]:\n    optimizer.zero_grad()\n    loss = model(x).mean()\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    new = _converted(text, path=str(tmp_path / "train.py"))
    assert f'scaler = {name}.amp.GradScaler("cuda")' in new
    assert f'with {name}.autocast(device_type="cuda", dtype={name}.float16):' in new


REGULARIZED = """import torch
from nets import build
from penalties import orthogonal, smooth

model = build().cuda()
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = torch.nn.functional.mse_loss(out, y)
    loss = {penalty}
    loss.backward()
    optimizer.step()
"""
PENALTIES = """import torch


def orthogonal(net, loss=0):
    for layer in net.modules():
        loss = loss + (layer.weight @ layer.weight.t()).abs().sum()
    return loss


def smooth(net, x):
    return net(x).abs().mean() + sum(one.abs().sum() for one in net.parameters())
"""


@pytest.mark.parametrize(
    ("penalty", "apart"),
    [
        ("orthogonal(model, loss)", True),
        ("loss + 0.1 * orthogonal(net=model)", True),
        ("loss + sum((one @ one.t()).sum() for one in model.parameters())", True),
        ("loss + smooth(model, x)", False),
        ("loss + (out @ orthogonal(model)).mean()", True),
    ],
)
def test_what_is_computed_of_weights_alone_stays_in_float32(tmp_path: Path, penalty: str, apart: bool) -> None:
    (tmp_path / "penalties.py").write_text(PENALTIES, encoding="utf-8")
    text = _converted(REGULARIZED.format(penalty=penalty), "bfloat16", str(tmp_path / "train.py"))
    assert (f"\n    loss = {penalty}\n" in text) is apart


EVALUATED = """import numpy as np
import torch
from nets import build

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()


def embed(batches):
    model.eval()
    found = {made}
    with torch.no_grad():
        for i, x in enumerate(batches):
            {put}
    return found
"""


@pytest.mark.parametrize(
    ("made", "put", "becomes"),
    [
        ("np.zeros([4, 4])", "found[i] = model(x).cpu()", "found[i] = model(x).float().cpu()"),
        ("np.zeros([4, 4])", "found[i] = model(x).cpu().tolist()", "found[i] = model(x).float().cpu().tolist()"),
        ("torch.zeros(4, 4)", "found[i] = model(x).cpu()", "found[i] = model(x).float().cpu()"),
    ],
    ids=["array", "numbers", "tensor"],
)
def test_elements_of_arrays_are_put_in_float32(made: str, put: str, becomes: str) -> None:
    text = EVALUATED.format(made=made, put=put)
    for dtype in ("bfloat16", "float16"):
        assert f"{becomes}\n" in _converted(text, dtype)


MEASURED = """import torch


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.criterion = {{"ce": torch.nn.CrossEntropyLoss(), "l1": torch.nn.L1Loss()}}

    @staticmethod
    def gradient_norm(model):
        return sum(p.grad.data.norm(2).item() ** 2 for p in model.parameters())

    def train(self, x, y):
        self.optimizer.zero_grad()
        out = self.model(x.cuda())
        loss = self.criterion["ce"](out, y.cuda())
        loss.backward()
        {measure}
        self.optimizer.step()

    @torch.no_grad()
    def evaluate(self, x, y):
        out = self.model(x.cuda())
        total = 0
        for one, label in zip(out, y):
            total += self.criterion["ce"](one, label)
        return total
"""


def test_gradients_in_a_function_that_nothing_calls_are_named() -> None:
    conversion = convert(MEASURED.format(measure="pass"), Wish(to="amp"))
    assert conversion.refused == ()
    (remark,) = conversion.left
    assert remark.text == "between backward pass and step these gradients carry the scale; call this after the step"
    assert "unscale_" not in conversion.text
    called = convert(MEASURED.format(measure="print(self.gradient_norm(self.model))"), Wish(to="amp"))
    assert called.left == ()
    assert "self.scaler.unscale_(self.optimizer)\n        print(" in called.text


def test_losses_of_a_dictionary_are_given_float32_in_training_and_evaluation() -> None:
    text = _converted(MEASURED.format(measure="pass"))
    call = "            out = to_float32(self.model(x.cuda()))\n"
    assert f'{call}        loss = self.criterion["ce"](out, y.cuda())\n' in text
    assert f"{call}        total = 0\n" in text


PACKAGED = """import torch
import {package}.losses
from nets import build

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = {package}.losses.close(out, y)
    loss.backward()
    optimizer.step()
"""


def test_losses_of_folders_and_of_other_libraries_get_float32(tmp_path: Path) -> None:
    (tmp_path / "helpers").mkdir()
    code = "import torch\n\n\ndef close(out, y):\n    return torch.nn.functional.mse_loss(out, y)\n"
    (tmp_path / "helpers" / "losses.py").write_text(code, encoding="utf-8")
    for package in ("helpers", "others"):
        conversion = convert(PACKAGED.format(package=package), Wish(to="amp"), str(tmp_path / "train.py"))
        call = f"        out = to_float32(model(x))\n    loss = {package}.losses.close(out, y)\n"
        assert call in conversion.text
        assert conversion.left == ()


SAVED = """import torch
from nets import build

model = build().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    torch.save(
        optimizer.state_dict(),
        "optimizer.pt",
    )
"""


def test_a_copied_statement_keeps_its_indentation() -> None:
    assert '    torch.save(\n        scaler.state_dict(),\n        "scaler.pt",\n    )\n' in _converted(SAVED)
