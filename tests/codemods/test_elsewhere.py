"""What stands in other files: work on gradients, and what runs inside of regions."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert

ENCODER = """import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.weight = nn.Parameter(torch.ones(1))

    def clear(self):
        for p in self.parameters():
            p.grad = None

    def do_gradient_ops(self):
        self._limit()

    def _limit(self):
        {work}

    def forward(self, x):
        return self.layer(x) * self.weight
"""
TRAINING = """import torch
from encoder import Encoder

model = Encoder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.ones(2, 4)] * 5:
    model.clear()
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    model.do_gradient_ops()
    optimizer.step()
"""


def _converted(folder: Path, wish: Wish, text: str, **files: str) -> Conversion:
    """What becomes of a script beside these `files`."""
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    return convert(text, wish, str(folder / "train.py"))


@pytest.mark.parametrize(
    "work",
    [
        "clip_grad_norm_(self.parameters(), 3)",
        "self.weight.grad *= 0.01",
        "self.weight.grad.mul_(0.01)",
        "self.weight.grad = self.weight.grad * 0.5",
    ],
)
def test_work_on_gradients_in_another_file_goes_to_the_end_of_a_window(tmp_path: Path, work: str) -> None:
    conversion = _converted(tmp_path, Wish(accumulate=4), TRAINING, encoder=ENCODER.format(work=work))
    assert conversion.refused == ()
    assert ":\n        model.do_gradient_ops()\n        optimizer.step()\n" in conversion.text


def test_and_the_gradients_are_unscaled_first(tmp_path: Path) -> None:
    files = {"encoder": ENCODER.format(work="self.weight.grad *= 0.01")}
    conversion = _converted(tmp_path, Wish(to="amp"), TRAINING, **files)
    assert conversion.refused == ()
    assert "    scaler.unscale_(optimizer)\n    model.do_gradient_ops()\n" in conversion.text


def test_what_only_clears_gradients_elsewhere_is_no_use_of_them(tmp_path: Path) -> None:
    files = {"encoder": ENCODER.format(work="self.weight.grad.zero_()")}
    conversion = _converted(tmp_path, Wish(to="amp"), TRAINING, **files)
    assert conversion.refused == ()
    assert "unscale_" not in conversion.text
