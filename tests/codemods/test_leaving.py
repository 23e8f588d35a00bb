"""Half values that leave a region, or are ranked, moved or written in one, in the file itself and in others."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from amplint.source.source import Source
from amplint.training import hazards
from amplint.training.writes import rounded, writes
from tests.codemods.running import told

ON = 'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):'
SHOWN = """import torch


class Trainer:
    def __init__(self, encoder):
        self.encoder = encoder
        self.optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)

    def show(self, net, noise, code):
        images = net(noise, code)
        images.cpu()

    def train(self, net, batches, noise):
        net.train()
        for x in batches:
            self.optimizer.zero_grad()
            code = self.encoder(x)
            loss = net(code, code).mean()
            loss.backward()
            self.optimizer.step()
            self.show(net, noise, code.detach())
"""
AGENT = """import torch
from torch import nn


class Agent:
    def __init__(self, memory):
        self.memory = memory
        self.model = nn.Linear(4, 2).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.recent = None

    def act(self, state):
        with torch.no_grad():
            values = self.model(state)
        self.recent = int(values.argmax())
        return self.recent

    def learn(self, state, reward):
        if reward is not None:
            self.memory.append(state, self.recent, reward)
        batch = self.memory.sample(8)
        loss = self.model(batch).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def run(self, environment):
        state = environment.reset()
        for _ in range(10):
            action = self.act(state)
            state, reward = environment.step(action)
            self.learn(state, reward)
"""
ADAPT = """import torch


def adapt(src_encoder, tgt_encoder, critic, criterion, optimizer, batches):
    tgt_encoder.train()
    critic.train()
    for source, target, labels in batches:
        src = src_encoder(source)
        tgt = tgt_encoder(target)
        loss = criterion(critic(torch.cat((src, tgt), 0)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_a_model_that_another_function_runs_on_an_output_gets_a_region() -> None:
    """It stands in that function, whose caller has none."""
    text = convert(SHOWN, Wish(to="amp", dtype="bfloat16")).text
    assert f"        {ON}\n            images = net(noise, code).float()\n" in text
    assert "            self.optimizer.step()\n            self.show(net, noise, code.detach())\n" in text


def test_what_a_memory_gives_carries_no_gradient() -> None:
    """The statements that fill it are no part of the forward pass."""
    text = convert(AGENT, Wish(to="amp", dtype="bfloat16")).text
    assert f"        {ON}\n            loss = self.model(batch)" in text
    assert "            self.memory.append(state, self.recent, reward)\n        batch = self.memory.sample(8)\n" in text
    assert "            action = self.act(state)\n" in text


def test_every_encoder_of_a_loss_is_in_its_region() -> None:
    """A parameter that is a model by its name runs in it, also where nothing else shows what it is."""
    text = convert(ADAPT, Wish(to="amp", dtype="bfloat16")).text
    assert f"        {ON}\n            src = src_encoder(source)\n" in text


TRAIN = """import torch


def train(model, batches, optimizer):
    for x, y in batches:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
"""
MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, y):
        return (torch.clamp(self.layer(x).sigmoid(), 1e-6, LARGEST) - y).log().mean()


LARGEST = 1 - 1e-6
"""


def _told(folder: Path, files: dict[str, str], text: str = TRAIN) -> list[str]:
    (folder / "pyproject.toml").touch()
    for name, content in {"train.py": text, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return [one.text for one in told(convert(text, Wish(to="amp", dtype="bfloat16"), str(folder / "train.py")))]


@pytest.mark.parametrize(
    "files",
    [
        {"main.py": "import models\nfrom train import train\n\nnet = models.Net()\ntrain(net, [], None)\n"},
        {
            "setup.py": "from train import train\n\n\ndef run(net):\n    train(net, [], None)\n",
            "main.py": "from models import Net\nfrom setup import run\n\nrun(Net())\n",
        },
    ],
    ids=["by its module", "through a file between"],
)
def test_models_of_importers_are_read(tmp_path: Path, files: dict[str, str]) -> None:
    """The bound of what they return is 1 in half."""
    assert any(one.startswith("models.py:11: ") for one in _told(tmp_path, {**files, "models.py": MODEL}))


@pytest.mark.parametrize("asked", ['"zoos." + name', '".%s" % name, "zoos"'])
def test_models_that_a_run_chooses_in_a_package_are_read(tmp_path: Path, asked: str) -> None:
    """`import_module()` takes one of its modules."""
    text = TRAIN.replace("import torch\n", "import importlib\n\nimport torch\n") + (
        f"\n\ndef main(name):\n    module = importlib.import_module({asked})\n"
        "    net = module.Net()\n    train(net, [], torch.optim.SGD(net.parameters(), lr=0.1))\n"
    )
    found = _told(tmp_path, {"zoos/__init__.py": "", "zoos/one.py": MODEL}, text)
    assert any(one.startswith("zoos/one.py:11: ") for one in found)


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ("p = torch.sigmoid(x)\n    best = p[y].clone()\n    return (p > best).sum()", True),
        ("p = torch.sigmoid(x)\n    return p.argsort()", True),
        ("p = torch.sigmoid(x.float())\n    return p.argsort()", False),
        ("p = torch.sigmoid(x)\n    return p > 0.5", False),
        ("turn = torch.eye(3)\n    return torch.matmul(x, turn)", True),
        ("return torch.matmul(x, y) + z.unsqueeze(2)", True),
        ("return torch.bmm(x, y).permute(0, 2, 1)[:, :, :3]", True),
        ("return torch.inverse(x).bmm(y)", True),
        ("return torch.matmul(x, y) + z", False),
        ("return np.transpose(x)[:3, :3] @ np.eye(3)", False),
    ],
)
def test_ranks_and_transformations(body: str, is_told: bool) -> None:
    """Scores near 1 tie, and coordinates lose their digits."""
    source = Source("", f"import numpy as np\nimport torch\n\n\ndef run(x, y, z):\n    {body}\n", "")
    found = [why for chunk in source.chunks for _, why, _ in hazards.of(chunk, "bfloat16", sparse=False)]
    assert bool(found) is is_told


@pytest.mark.parametrize(
    ("made", "is_told"), [("deltas.clone()", True), ("torch.zeros_like(deltas)", True), ("deltas.float()", False)]
)
def test_boxes_are_put_into_a_tensor_like_float32(made: str, is_told: bool) -> None:
    """Exponentials are float32, and a copy of half deltas rounds them."""
    text = (
        "import torch\n\n\ndef boxes(deltas, widths):\n"
        f"    found = {made}\n    found[:, 0::4] = torch.exp(deltas[:, 0::4]) * widths\n    return found\n"
    )
    source = Source("", text, "")
    assert bool([one for chunk in source.chunks for one in rounded(chunk)]) is is_told


def test_arrays_in_a_comprehension_are_float32_for_opencv() -> None:
    """cv2 takes no float16."""
    text = TRAIN.replace("import torch\n", "import cv2\nimport torch\n") + (
        "\n\ndef track(model, x):\n    with torch.no_grad():\n        found = model(x, x)\n"
        "    found = found.cpu().numpy()\n    return [cv2.resize(one, (8, 8)) for one in found]\n"
    )
    converted = convert(text, Wish(to="amp")).text
    assert "        found = to_float32(model(x, x))\n    found = found.cpu().numpy()\n" in converted


@pytest.mark.parametrize(
    ("write", "casts"),
    [
        ("self.kept.scatter_(1, y, self.confidence)", False),
        ("kept = torch.zeros(2, 4)\n        kept.scatter_(1, y, self.layer(x))", True),
        ("kept = torch.zeros(2, 4)\n        kept.scatter_add_(1, y, torch.ones(2, 4))", False),
        ("self.kept.masked_scatter_(y, x)", True),
        ("self.kept.lerp_(x.mean(0), 0.1)", True),
        ("kept = torch.zeros(2, 4)\n        kept[y > 0] = 1", False),
    ],
)
def test_only_tensors_are_cast_where_they_are_written(write: str, casts: bool) -> None:
    """Some methods take numbers as well."""
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        self.layer = nn.Linear(4, 4)\n\n    def forward(self, x, y):\n"
        f"        {write}\n"
    )
    source = Source("", text, "")
    assert bool([one for chunk in source.chunks for one in writes(chunk) if one.cast]) is casts
