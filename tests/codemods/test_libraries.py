"""Half values that reach libraries, kernels and coordinates in other files are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amplint.codemods import Wish, convert
from tests.codemods.running import told

SCRIPT = """import torch
from others import {name}
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    out = net(model(x.cuda()))
    loss = nn.functional.mse_loss(out, y.cuda())
    loss.backward()
    optimizer.step()
    {row}
"""
PRODUCT = SCRIPT.replace("net(model(x.cuda()))", "model(x.cuda())").replace(
    "loss = nn.functional.mse_loss(out, y.cuda())",
    "near = x @ model.weight\n    loss = nn.functional.mse_loss(out, near)",
)
IMAGES = """import cv2
import numpy as np


def array_of(tensor):
    return tensor.detach().cpu().numpy().transpose(1, 2, 0)


def colours(array):
    return cv2.cvtColor(np.clip(array, 0, 1), cv2.COLOR_RGB2BGR)


def bytes_of(array):
    return cv2.cvtColor(np.uint8(255 * array), cv2.COLOR_RGB2BGR)
"""
NET = """import torch
from torch import nn
{imported}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), None
        self.head = solve

    def forward(self, x):
        return self.head(self.layer(x))


def solve(x):
    {body}
"""
WRITER = """from {library} import SummaryWriter


class Logger:
    def __init__(self):
        self.writer = SummaryWriter()

    def log_step(self, images):
        for key in images:
            self.writer.add_image(key, images[key])
"""
KERNELS = """from torch import nn
from torch.autograd import Function

from . import _ext


class Net(nn.Linear):
    def forward(self, x):
        return Normalize.apply(super().forward(x))


class Normalize(Function):
    @staticmethod
    def forward(ctx, x):
        checked(_ext.normalize, x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient
"""
MASKS = """import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.most = 1e9
        self.query = nn.Linear(4, 4)

    def forward(self, x, mask):
        return self.filled(self.query(x), mask)

    def filled(self, scores, mask):
        scores = torch.matmul(scores, scores.transpose(1, 2))
        return scores.masked_fill(mask == 0, -1 * self.most)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention() for _ in range(2)])

    def forward(self, x, mask):
        for index in range(2):
            x = self.layers[index](x, mask)
        return x
"""
TRAINER = """import torch
from others import Net


class Trainer:
    def __init__(self, trains=True):
        self.net = Net().cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, loader):
        for x, mask in loader:
            self.optimizer.zero_grad()
            loss = self.net(x.cuda(), mask.cuda()).float().mean()
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    if name is not None:
        Trainer(trains=True).train(loader)
    else:
        Trainer().train(loader)
"""


def _told(folder: Path, others: str, text: str, dtype: str = "float16") -> list[str]:
    (folder / "others.py").write_text(others, encoding="utf-8")
    (folder / "train.py").write_text(text, encoding="utf-8")
    conversion = convert(text, Wish(to="amp", dtype=dtype), str(folder / "train.py"))
    assert conversion.refused == ()
    return [remark.text for remark in told(conversion) if remark.text.startswith("others.py")]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("colours(array_of(merged(near)))", ["others.py:10: this library raises for NumPy arrays of float16"]),
        ("bytes_of(array_of(merged(near)))", []),
        ("colours(array_of(merged(near).float()))", []),
        ("colours(array_of(merged(out)))", []),
    ],
    ids=["floats", "whole numbers", "cast before", "an output"],
)
def test_a_library_that_takes_no_array_of_float16(tmp_path: Path, row: str, told: list[str]) -> None:
    text = PRODUCT.format(name="array_of, bytes_of, colours", row=row)
    assert [one.partition(";")[0] for one in _told(tmp_path, IMAGES, text)] == told


def test_a_library_raises_for_arrays_of_float16() -> None:
    array = torch.ones(2, 2, dtype=torch.float16).numpy()
    image = pytest.importorskip("PIL.Image")
    with pytest.raises(TypeError, match="Cannot handle this data type"):
        image.fromarray(array)


def _net(body: str, imported: str = "") -> str:
    return NET.format(body=body, imported=imported)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (_net("return torch.as_tensor(Image.fromarray(x.detach().numpy()))", "from PIL import Image"), "this library"),
        (_net("return torch.as_tensor(Image.fromarray(x.float().numpy()))", "from PIL import Image"), ""),
        (_net("return QPFunction()(x, x)", "from qpth.qp import QPFunction"), "a solver gets what half has rounded"),
        (_net("return torch.matmul(x[:3, :3].view(1, 3, 3), x)"), "a transformation in half"),
        (_net("turn = x[0, :3, :3]\n    return turn @ x"), "a transformation in half"),
        (_net("return torch.matmul(x[:3, :4], x)"), ""),
        (_net("return torch.cos(x @ x.t())"), "an angle in half"),
        (_net("turns = x @ x.t()\n    return turns.sin()"), "an angle in half"),
        (_net("return torch.cos((x @ x.t()).float())"), ""),
        (_net("return torch.cos(torch.arange(4) * 2.0)"), ""),
        (_net("return torch.sqrt(1 - x**2)"), "the root of what is left is NaN"),
        (_net("return torch.sqrt((1 - x**2).clamp(0, 1))"), ""),
        (_net("return x / (x @ x.t())"), "a divisor that is a product of matrices"),
        (_net("return torch.nn.functional.grid_sample(x, x)"), "positions that this samples at"),
    ],
    ids=[
        *("PIL", "PIL of float32", "a solver", "a rotation", "a rotation by name", "another part", "an angle"),
        *("an angle by name", "an angle in float32", "an angle of numbers", "a sine", "a bounded sine", "a divisor"),
        "a grid",
    ],
)
def test_what_a_constructor_stores_is_read(tmp_path: Path, others: str, told: str) -> None:
    text = SCRIPT.format(name="Net", row="").replace("nn.Linear(4, 4)", "Net()")
    found = _told(tmp_path, others, text)
    assert [told in one for one in found] == [True] * bool(told)


def test_a_rotation_in_half_loses_the_place() -> None:
    angle = torch.tensor(0.3)
    turn = torch.tensor([[angle.cos(), -angle.sin()], [angle.sin(), angle.cos()]])
    places = torch.tensor([[100.25], [70.5]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        turned = turn @ places
    assert (turned.float() - turn @ places).abs().max() > 0.05


def test_an_angle_in_half_loses_its_phase() -> None:
    times = torch.tensor([[1000.3, 2000.7]])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        turned = torch.cos(times.t() @ torch.ones(1, 1))
    assert (turned.float() - torch.cos(times.t())).abs().max() > 0.5


@pytest.mark.parametrize(("library", "count"), [("tensorboardX", 1), ("torch.utils.tensorboard", 0)])
def test_a_writer_of_another_file_takes_no_bfloat16(tmp_path: Path, library: str, count: int) -> None:
    text = PRODUCT.format(name="Logger", row='logger.log_step({"near": near[:1]})')
    text = text.replace("model =", "logger = Logger()\nmodel =", 1)
    assert len(_told(tmp_path, WRITER.format(library=library), text, "bfloat16")) == count
    assert not _told(tmp_path, WRITER.format(library=library), text)


def test_a_kernel_behind_a_package_is_named(tmp_path: Path) -> None:
    text = SCRIPT.format(name="Net", row="").replace("nn.Linear(4, 4)", "Net(4, 4)")
    (found,) = _told(tmp_path, KERNELS, text)
    assert found.startswith("others.py:15: _ext.normalize() may have no kernel for half")


@pytest.mark.parametrize(("dtype", "count"), [("float16", 1), ("bfloat16", 0)])
def test_a_constant_that_an_object_keeps_is_named_for_a_trainer_of_two_calls(
    tmp_path: Path, dtype: str, count: int
) -> None:
    assert sum("does not fit float16" in one for one in _told(tmp_path, MASKS, TRAINER, dtype)) == count
