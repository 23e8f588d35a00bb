"""Training loops, evaluation and models that names and places tell of: rounds, functions handed over, settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert

LOOP = """import torch
from torch import nn

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loss = None
for i, (x, y) in enumerate([(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]):
    out = net(x)
    if i % 2:
        part = nn.functional.mse_loss(out, y)
        loss = part if loss is None else loss + part
    else:
        loss = loss / 2
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""
KEPT = """import torch
from torch.distributions import kl_divergence


class Trainer:
    def __init__(self, process, optimizer, criterion):
        self.process = process
        self.optimizer = optimizer
        self.criterion = criterion

    def run(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            made, first, second = self.process(x, y)
            loss = self.loss(made, y, first, second)
            loss.backward()
            self.optimizer.step()

    def loss(self, made, y, first, second):
        return kl_divergence(first, second).mean() - made.log_prob(y).mean()
"""
HANDED_OVER = """import torch
from ignite.engine import Engine
from torch import nn

if __name__ == "__main__":
    net = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(engine, batch):
        x, y = batch
        likelihood = torch.distributions.Normal(net(x), 1.0).log_prob(y).mean()
        loss = -likelihood
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    Engine(step).run([])
"""
RETURNS = """import torch
from torch import nn


def main(batches, evaluates):
    if evaluates:
        net = nn.Linear(4, 4).cuda()
        print(validate(net, batches))
        return
    else:
        net = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    train(net, batches, optimizer)


def train(net, batches, optimizer):
    for x, y in batches:
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def validate(net, batches):
    with torch.no_grad():
        return [net(x).argmax().item() for x, _ in batches]
"""
MODES = """import torch
from torch import nn

if torch.cuda.is_available():
    net = nn.Linear(4, 4).cuda()
else:
    net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    for x, y in batches:
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def check(batches):
{mode}    for x, y in batches:
        out = net(x)
        print(out.argmax(1) == y)


train([])
check([])
"""
SETTINGS = """import torch
from torch import nn


def made(name):
    module, _, last = name.rpartition(".")
    return getattr(__import__(module), last)()


def train(name, batches):
    net = made(name).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in batches:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
CHOSEN = """import torch
from torch import nn


class Chosen(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        out = self.layer(x)
        return torch.nn.functional.binary_cross_entropy(out, x)
"""
EVALUATED = """import torch
from metric import far
from torch import nn

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    x, y = torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda()
    out = net(x)
    print(out.mean(), far(out, y).item())
"""
METRIC = """import kernels
import torch


class Far(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return kernels.far(x, y)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad


def far(x, y):
    return Far.apply(x, y)
"""
REGION = 'with torch.autocast(device_type="cuda", dtype=torch.float16):\n'


def test_a_loss_of_several_rounds_is_followed_through_its_loop() -> None:
    """What is differentiated in one round was computed in those before."""
    converted = convert(LOOP, Wish(to="amp"))
    assert converted.refused == ()
    assert f"    {REGION}        out = net(x).float()\n" in converted.text
    assert "    if i % 2:\n        part = nn.functional.mse_loss(out, y)\n" in converted.text
    assert "        scaler.scale(loss).backward()\n" in converted.text


def test_what_an_object_keeps_of_its_constructor_is_a_model_where_its_loss_comes_of_it() -> None:
    converted = convert(KEPT, Wish(to="amp"))
    assert converted.refused == ()
    body = "                made, first, second = to_float32(self.process(x, y))\n            loss = self.loss("
    assert f"            {REGION}{body}" in converted.text


def test_a_function_that_is_handed_over_trains() -> None:
    """Nothing else in the file runs it."""
    converted = convert(HANDED_OVER, Wish(to="amp"))
    assert converted.refused == ()
    assert f"        {REGION}            output = net(x).float()\n        likelihood = " in converted.text
    assert "        scaler.scale(loss).backward()\n" in converted.text


def test_a_branch_that_returns_is_in_no_region_of_what_follows() -> None:
    converted = convert(RETURNS, Wish(to="amp"))
    assert converted.refused == ()
    assert "    if evaluates:\n        net = nn.Linear(4, 4).cuda()\n" in converted.text
    assert f"        {REGION}            loss = " in converted.text


@pytest.mark.parametrize("mode", ["    net.eval()\n", ""])
def test_evaluation_beside_training_is_joined_or_named(mode: str) -> None:
    """It gets a region behind `eval()`; a function that sets no mode may be anything."""
    converted = convert(MODES.format(mode=mode), Wish(to="amp"))
    assert converted.refused == ()
    assert (f"        {REGION}            out = net(x)\n        print(" in converted.text) is bool(mode)
    assert any(one.text == "this runs in float32 what trains in half" for one in converted.left) is not bool(mode)


def test_models_among_which_a_setting_chooses_are_read(tmp_path: Path) -> None:
    """Each is taken for the model, which is said."""
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "chosen.py").write_text(CHOSEN, encoding="utf-8")
    (tmp_path / "train.py").write_text(SETTINGS, encoding="utf-8")
    converted = convert(SETTINGS, Wish(to="amp"), str(tmp_path / "train.py"))
    assert converted.refused == ()
    assert any(one.text.startswith("settings choose the model here") for one in converted.left)
    assert b"binary_cross_entropy(out.float(), x.float())" in converted.others[0].after


def test_kernels_get_float32_behind_regions(tmp_path: Path) -> None:
    """There no decorator casts what they are given; the output is cast."""
    (tmp_path / "metric.py").write_text(METRIC, encoding="utf-8")
    converted = convert(EVALUATED, Wish(to="amp"), str(tmp_path / "train.py"))
    assert "        out = net(x).float()\n    print(out.mean(), far(out, y).item())\n" in converted.text


def test_numbers_that_an_object_returns_are_no_tensors() -> None:
    """What an object computes of outputs may be a number; only tensors are cast for an array."""
    text = LOOP.replace("import torch\n", "import numpy as np\nimport torch\nfrom precision import Precision\n", 1)
    text = text.replace("loss = None\n", "loss, kept, told = None, np.zeros(9), Precision()\n")
    text = text.replace("    out = net(x)\n", "    out = net(x)\n    kept[i] = told(out, y)\n")
    assert "kept[i] = told(out, y)\n" in convert(text, Wish(to="amp", dtype="bfloat16")).text
