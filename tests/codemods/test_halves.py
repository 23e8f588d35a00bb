"""Half values that leave regions are named where they go wrong, and nothing is said of what is not half."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.codemods.running import told

SCRIPT = """import numpy as np
import torch
from torch import nn


def show(value):
    return torch.softmax(value, dim=1).cpu().data[0].numpy()


def encode(value):
    return value.cpu().numpy().astype(np.int64)


model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    out = net(model(x))
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    found = []
{rows}
"""
NAMED = ("bfloat16 raises here", "if this tensor is bfloat16")


def _told(text: str, dtype: str = "bfloat16", path: str = "") -> list[str]:
    conversion = convert(text, Wish(to="amp", dtype=dtype), path)
    assert conversion.refused == ()
    return [remark.text for remark in told(conversion)]


@pytest.mark.parametrize(
    "row",
    [
        "found.append(out.cpu())\n    every = np.concatenate(found)",
        "shown = show(out.detach())",
        "pair = (out, y)\n    first, second = pair\n    first.detach().cpu().numpy()",
    ],
    ids=["a list", "a function", "a tuple"],
)
def test_what_numpy_is_given_of_a_region_is_cast_or_named(row: str) -> None:
    conversion = convert(SCRIPT.replace("{rows}", f"    {row}"), Wish(to="amp", dtype="bfloat16"))
    assert conversion.refused == ()
    named = any(words in one.text for one in conversion.left for words in NAMED)
    assert named != (".float()" in conversion.text)


@pytest.mark.parametrize(
    "row",
    [
        "labels = y.cpu().numpy()",
        "best = out.topk(2)[1]\n    best = best.cpu().numpy()",
        "_, best = out.max(1)\n    best.cpu().numpy()",
        "right = (out > 0).cpu().numpy()",
        "places = encode(torch.arange(4))",
        "found.append(out.argmax(1).cpu())\n    every = np.concatenate(found)",
    ],
    ids=["labels", "indices", "second of two", "a comparison", "places", "classes"],
)
def test_nothing_is_said_of_what_is_not_half(row: str) -> None:
    assert not any(words in one for one in _told(SCRIPT.replace("{rows}", f"    {row}")) for words in NAMED)


def test_numpy_takes_no_bfloat16() -> None:
    with pytest.raises(TypeError, match="BFloat16"):
        torch.ones(2, dtype=torch.bfloat16).numpy()


TRAINER = """import torch
from metrics import measure


class Trainer:
    def __init__(self, model, optimizer, criterion, logger):
        self.model = model
        self.optimizer = optimizer
        self.criterion = criterion
        self.logger = logger

    def step(self, x, y):
        out = self.model(x)
        loss = self.criterion(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        {row}
        return loss.item()
"""
PRODUCT = TRAINER.replace(
    "loss = self.criterion(out, y)",
    "near = x @ self.model.weight\n        loss = torch.nn.functional.mse_loss(out, near)",
)
"""A product in the region, which is half behind it."""
METRICS = """import numpy as np


def measure(output, target):
    known = target.cpu().numpy()
    return (np.concatenate(output) == known).mean()
"""


RANKING = """import numpy as np
import torch


class Ranking:
    def __init__(self):
        self.outs, self.ids = [], []

    def update(self, kept):
        out, y = kept
        self.outs.append(out.cpu())
        self.ids.extend(np.asarray(y))

    def compute(self):
        return torch.cat(self.outs).numpy()


class Other:
    def update(self, kept):
        return kept
"""


@pytest.mark.parametrize(("made", "told"), [("Ranking", ["metrics.py:15:"]), ("Other", [])])
def test_it_is_followed_through_an_object_of_another_file(tmp_path: Path, made: str, told: list[str]) -> None:
    (tmp_path / "metrics.py").write_text(RANKING, encoding="utf-8")
    text = PRODUCT.replace("{row}", "ranking.update((near, y))").replace("import measure", f"import {made}")
    text += f"\n\nranking = {made}()\n"
    left = _told(text, path=str(tmp_path / "trainer.py"))
    assert [one.split(" ")[0] for one in left if "bfloat16 raises" in one] == told


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("measure([near.cpu()], y)", "metrics.py:6: what is bfloat16 raises here"),
        ("measure([near.float()], y)", None),
        ("measure([out.cpu()], y)", None),
        ("self.logger.keep(near.detach().cpu())", "keep() is given what may be bfloat16"),
        ("self.logger.keep(near.detach().cpu().float())", None),
        ("self.logger.keep(out['logits'].cpu())", None),
    ],
    ids=["a function", "cast before it", "an output", "an object", "cast before that", "a part of an output"],
)
def test_it_is_followed_into_other_files(tmp_path: Path, row: str, told: str | None) -> None:
    (tmp_path / "metrics.py").write_text(METRICS, encoding="utf-8")
    (tmp_path / "trainer.py").write_text(PRODUCT.replace("{row}", row), encoding="utf-8")
    left = _told(PRODUCT.replace("{row}", row), path=str(tmp_path / "trainer.py"))
    found = [one for one in left if "bfloat16 raises" in one or "may be bfloat16" in one]
    assert [one[: len(told)] for one in found] == [told] if told is not None else not found


@pytest.mark.parametrize("row", ["weight @ out[0]", "weight @ out[0].float()"])
def test_products_of_outputs_and_weights_behind_a_region_are_float32(row: str) -> None:
    for dtype in ("float16", "bfloat16"):
        left = _told(SCRIPT.replace("{rows}", f"    weight = model.weight\n    scores = {row}"), dtype)
        assert not any("outside of a region this product raises" in one for one in left)


MAIN = """import torch
from losses import build
from optimizers import Warm
from trainer import Trainer

model = torch.nn.Linear(4, 4)
optimizer = {optimizer}
criterion = build("focal")
trainer = Trainer(model, optimizer, criterion, None)
"""
LOSSES = """import torch
import torch.nn.functional as F


class Focal:
    def __call__(self, output, target):
        return {loss}


def build(name):
    return Focal()


def unused(output, target):
    return F.binary_cross_entropy(output, target)
"""
OPTIMIZERS = """import torch


class Warm:
    def __init__(self, inner):
        self.inner = inner

    def zero_grad(self):
        self.inner.zero_grad()

    def step(self):
        self.inner.step()
"""
PLAIN = "torch.optim.SGD(model.parameters(), lr=0.1)"


def _project(folder: Path, optimizer: str, loss: str) -> str:
    texts = {"main": MAIN.replace("{optimizer}", optimizer), "losses": LOSSES.replace("{loss}", loss)}
    others = {"optimizers": OPTIMIZERS, "metrics": METRICS, "trainer": TRAINER.replace("{row}", "pass")}
    for name, text in {**texts, **others}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return str(folder / "trainer.py")


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ("F.binary_cross_entropy(output, target)", "losses.py:7: binary cross-entropy of probabilities raises"),
        ("-(1 - output.sigmoid() + 1e-8).log().mean()", "losses.py:7: sigmoid runs in half where its input is"),
        ("F.mse_loss(output, target)", None),
    ],
    ids=["cross-entropy", "logarithm", "neither"],
)
def test_losses_that_an_importer_hands_over_are_read(tmp_path: Path, loss: str, told: str | None) -> None:
    path = _project(tmp_path, PLAIN, loss)
    left = [one for one in _told(TRAINER.replace("{row}", "pass"), path=path) if one.startswith("losses.py")]
    assert any(one.startswith(told) for one in left) if told is not None else left == []


def test_so_are_optimizers_that_no_scaler_can_step(tmp_path: Path) -> None:
    text, path = TRAINER.replace("{row}", "pass"), _project(tmp_path, f"Warm({PLAIN})", "F.mse_loss(output, target)")
    why = "main.py:7 gives it an optimizer that is none of PyTorch's, which alone a scaler steps"
    assert [one.text for one in convert(text, Wish(to="amp"), path).refused] == [why]
    assert convert(text, Wish(to="amp", dtype="bfloat16"), path).refused == ()


def test_a_scaler_steps_no_object_without_groups_of_parameters() -> None:
    class Warm:
        def step(self) -> None: ...

    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(1))
    with pytest.raises(AttributeError, match="param_groups"):
        scaler.step(Warm())  # type: ignore[arg-type]


CHOSEN = """import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = {optimizer}(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
    model.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("optimizer", ["torch.optim.__dict__[kind]", "getattr(torch.optim, kind)"])
def test_optimizers_may_be_chosen_by_name(optimizer: str) -> None:
    text = CHOSEN.replace("{optimizer}", optimizer)
    conversion = convert(text, Wish(to="amp"))
    assert conversion.refused == ()
    assert "scaler.step(optimizer)" in conversion.text


ANOMALIES = "torch.autograd.set_detect_anomaly({on})\n"


@pytest.mark.parametrize(("on", "told"), [("True", 1), ("False", 0)])
def test_anomaly_mode_beside_a_scaler_is_named(on: str, told: int) -> None:
    text = SCRIPT.replace("{rows}", "").replace("model = nn", ANOMALIES.replace("{on}", on) + "model = nn", 1)
    why = "anomaly mode raises for the infinite gradients of an overflow, where the scaler skips the step"
    assert _told(text, "float16").count(why) == told
    assert why not in _told(text)


STRUCTURE = """import torch
import torch.nn.functional as F


def likeness(first, second, window):
    mean = F.conv2d(first, window)
    square = mean * mean
    variance = F.conv2d(first * first, window) - square
    return variance.mean()


class Judged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 3, 1)

    def forward(self, x, y, window):
        return likeness(self.layer(x), y, window)


def train(window, loader):
    model = Judged().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = model(x.cuda(), y.cuda(), window)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_variances_by_averages_are_computed_in_float32(dtype: str) -> None:
    text = convert(STRUCTURE, Wish(to="amp", dtype=dtype)).text
    assert "        variance = F.conv2d(first.float() * first.float(), window.float()) - square\n" in text
    assert text.count("enabled=False") == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_those_behind_a_region_get_float32(dtype: str) -> None:
    text = STRUCTURE.replace("return likeness(self.layer(x), y, window)", "return self.layer(x)")
    text = text.replace(
        "loss = model(x.cuda(), y.cuda(), window)", "loss = likeness(model(x.cuda()), y.cuda(), window)"
    )
    converted = convert(text, Wish(to="amp", dtype=dtype)).text
    assert "output = model(x.cuda()).float()\n        loss = likeness(output, y.cuda(), window)\n" in converted
    assert "enabled=False" not in converted


NETS = """import torch
from torch import nn


class Codes(nn.Module):
    def encode(self, x):
        distances = torch.cdist(x, self.book)
        return distances.argmin(dim=1)


class Net(nn.Module):
    def forward(self, x):
        return self.layer(x)

    def nearest(self, x):
        distances = torch.cdist(x, self.book)
        return distances.argmin(dim=1)
"""
REACHING = """import torch
import nets
from torch import nn

model = nets.Net()
codes = nets.Codes().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    z = codes.encode(x.cuda())
    out = {forward}
    loss = nn.functional.mse_loss(out, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("forward", "row"), [("model(z)", None), ("model(z) + model.nearest(z)", 17)])
def test_what_no_region_calls_is_not_judged(tmp_path: Path, forward: str, row: int | None) -> None:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    text = REACHING.replace("{forward}", forward)
    nearest = [one for one in _told(text, path=str(tmp_path / "train.py")) if "the nearest is chosen" in one]
    assert [one.split(":")[1] for one in nearest] == ([str(row)] if row is not None else [])


@pytest.mark.parametrize(
    "row",
    [
        "shown = {'x': x, 'out': out}\n    shown['y'] = y\n    shown['y'].cpu().numpy()",
        "for target, value in zip(y, out):\n        target.cpu().numpy()",
        "for place, value in enumerate(out):\n        np.asarray(place)",
        "out, width = pair(out, 3)\n    np.asarray(width)",
    ],
    ids=["an element", "zip", "enumerate", "a part of a result"],
)
def test_what_stands_beside_half_values_is_not_named(row: str) -> None:
    script = SCRIPT.replace("model =", "def pair(value, width):\n    return value, width\n\n\nmodel =", 1)
    told = _told(script.replace("{rows}", f"    {row}"))
    assert not any(words in one for one in told for words in NAMED)
