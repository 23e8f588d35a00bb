"""`--to amp` with losses, loggers and layers of other files that go wrong on half values."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told

LOOP = """import torch
from torch import nn

from others import {name}

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    out = torch.sigmoid(model(x.cuda()))
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
BCE = """import torch.nn.functional as F


def entropy(probabilities, targets, scale=1):
    return scale * F.binary_cross_entropy(probabilities, targets)


def joint(pair, scale):
    return scale * F.binary_cross_entropy(pair[0], pair[1])
"""
LOGGER = """class Logger:
    def log_images(self, step, out):
        self.show(step, out)

    def show(self, step, out):
        print(step, out["image"].data.cpu().numpy())
"""
ADAPTIVE = """import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.style, self.norm = nn.Linear(4, 8), Adaptive()

    def forward(self, x):
        for one in self.modules():
            if type(one).__name__ == "Adaptive":
                one.weight, one.bias = self.style(x).mean(0).chunk(2)
        return self.norm(x)


class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = None
        self.bias = None
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.var, self.weight, self.bias, True)
"""
TRAINER = """import torch


class Trainer:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion

    def run(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
"""
MAIN = """import torch
from losses import entropy_of
from pack import Trainer

model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sigmoid())
criterion = entropy_of("bce")
Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), criterion).run(loader)
"""
LOSSES = """import torch.nn.functional as F


def entropy_of(kind):
    return Entropy()


class Entropy:
    def __call__(self, probabilities, targets):
        return F.binary_cross_entropy(probabilities, targets)
"""


def _converted(folder: Path, text: str, dtype: str = "float16", **others: str) -> Conversion:
    for name, content in others.items():
        (folder / f"{name}.py").write_text(content)
    path = folder / "train.py"
    path.write_text(text)
    return convert(text, Wish(to="amp", dtype=dtype), str(path))


@pytest.mark.parametrize(
    "loss",
    [
        "entropy(out, y.cuda())",
        "entropy(out, y.cuda(), scale=2)",
        "entropy(torch.relu(out), y.cuda())",
        "joint([out, y.cuda()], 2)",
    ],
)
def test_a_loss_of_another_file_that_refuses_half_probabilities_gets_float32(tmp_path: Path, loss: str) -> None:
    conversion = _converted(tmp_path, LOOP.format(name=loss.partition("(")[0], loss=loss), others=BCE)
    assert f"        out = torch.sigmoid(model(x.cuda()).float())\n    loss = {loss}\n" in conversion.text
    assert (conversion.refused, conversion.left) == ((), ())


def test_such_a_loss_that_gets_what_may_be_no_tensor_is_refused(tmp_path: Path) -> None:
    text = LOOP.format(name="entropy", loss="entropy(torch.relu(model(x.cuda())), y.cuda())")
    assert [one.row for one in _converted(tmp_path, text, others=BCE).refused] == [11]


def test_values_for_numpy_are_followed_through_methods_of_another_file(tmp_path: Path) -> None:
    text = LOOP.format(name="Logger", loss="nn.functional.mse_loss(out, y.cuda())")
    text = (
        text.replace("torch.sigmoid(", "net(").replace("model = ", "logger = Logger()\nmodel = ")
        + "    logger.log_images(1, {'image': out})\n"
    )
    result = _converted(tmp_path, text, "bfloat16", others=LOGGER)
    assert "        out = net(model(x.cuda())).float()\n" in result.text
    assert not result.left


def test_normalization_by_weights_that_a_layer_gives_is_named(tmp_path: Path) -> None:
    text = LOOP.format(name="Net", loss="nn.functional.mse_loss(out, y.cuda())").replace("nn.Linear(4, 4)", "Net()")
    told = [one.text for one in _converted(tmp_path, text, others=ADAPTIVE).left]
    assert any(one.startswith("others.py:27: batch_norm raises") for one in told)
    learned = ADAPTIVE.replace("self.weight = None", "self.weight = nn.Parameter(torch.ones(4))")
    assert not any("batch_norm" in one.text for one in _converted(tmp_path, text, others=learned).left)


def test_a_loss_that_a_user_of_the_package_hands_over_is_read(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("from pack.training import Trainer\n")
    (package / "training.py").write_text(TRAINER)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "losses.py").write_text(LOSSES)
    conversion = convert(TRAINER, Wish(to="amp"), str(package / "training.py"))
    assert any("losses.py:10: binary cross-entropy of probabilities raises" in one.text for one in told(conversion))


def test_a_method_of_a_model_that_runs_nothing_is_no_forward_pass(tmp_path: Path) -> None:
    net = "from torch import nn\n\n\nclass Net(nn.Linear):\n    def width(self):\n        return self.out_features\n"
    text = LOOP.format(name="Net", loss="head(out).mean()")
    text = text.replace("nn.Linear(4, 4).cuda()", "Net(4, 4).cuda()\nhead = nn.Linear(model.width(), 1).cuda()")
    result = _converted(tmp_path, text, others=net).text
    assert "\nhead = nn.Linear(model.width(), 1).cuda()\n" in result


def test_a_region_is_indented_as_the_block_around_it(tmp_path: Path) -> None:
    text = LOOP.format(name="entropy", loss="nn.functional.mse_loss(out, y.cuda())")
    wide = text.replace("\n    ", "\n        ").replace("model =", "if True:\n  pass\nmodel =", 1)
    assert "\n                out = torch.sigmoid(" in _converted(tmp_path, wide, others=BCE).text
