"""What stops a conversion for what the result lints with, what does not, and what can be allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Remark, Wish, convert
from tests.conftest import Command

RAISES = "in the result, binary cross-entropy of probabilities raises under CUDA autocast (AMP404)"
INLINE = """import torch
from models import Net, cost
import torch.nn.functional as F

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.randn(8, 4).cuda(), torch.randn(8, 3).cuda())]:
    optimizer.zero_grad()
    a = sum(F.binary_cross_entropy(model(one), y) for one in x) + cost(model)
    b = sum(F.binary_cross_entropy(model(one), 1 - y) for one in x) + cost(model)
    loss = a + b
    loss.backward()
    optimizer.step()
"""


def test_every_reason_is_told_with_the_row_of_the_original() -> None:
    conversion = convert(INLINE, Wish(to="amp"))
    assert conversion.refused == (Remark(9, RAISES), Remark(10, RAISES))
    assert conversion.text == INLINE
    assert "scaler.scale(loss).backward()" in conversion.tried


@pytest.mark.parametrize("allowed", ["AMP404", "bce-in-autocast"])
def test_a_finding_can_be_allowed(allowed: str) -> None:
    conversion = convert(INLINE, Wish(to="amp", allow=(allowed,)))
    assert conversion.refused == ()
    lines = conversion.text.splitlines()
    assert [remark.text for remark in conversion.left] == [RAISES, RAISES]
    assert all("binary_cross_entropy" in lines[remark.row - 1] for remark in conversion.left)


def test_the_command_takes_it_and_shows_what_was_refused(amplint: Command, project: Path) -> None:
    (project / "train.py").write_text(INLINE, encoding="utf-8")
    plain = amplint("convert", "--to", "amp", "train.py")
    assert (plain.status, plain.out) == (1, "")
    assert "train.py:9: refused: " in plain.err
    assert "train.py:10: refused: " in plain.err
    shown = amplint("convert", "--to", "amp", "--show-refused", "--write", "train.py")
    assert (shown.status, shown.err) == (1, plain.err)
    assert "+    scaler.scale(loss).backward()\n" in shown.out
    assert (project / "train.py").read_text(encoding="utf-8") == INLINE
    assert amplint("convert", "--to", "amp", "--allow", "AMP494", "train.py").status == 2
    allowed = amplint("convert", "--to", "amp", "--allow", "AMP404", "--write", "train.py")
    assert (allowed.status, allowed.out) == (0, "")
    assert "train.py:11: check: in the result, binary" in allowed.err


CHECKPOINT = """import torch
from torch import nn
from utils import save_checkpoint

model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4).cuda()).mean()
    loss.backward()
    optimizer.step()
    save_checkpoint(epoch, model, optimizer)
"""
SAVING = """import torch


def save_checkpoint(epoch, model, optimizer):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
"""


def test_a_checkpoint_that_is_written_elsewhere_is_to_be_checked(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text(SAVING, encoding="utf-8")
    conversion = convert(CHECKPOINT, Wish(to="amp"), str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert [remark.text for remark in conversion.left] == [
        "in the result, a checkpoint that this call leads to holds the optimizer's state but not the scaler's (AMP211)"
    ]


LOSS = """import torch
from torch import nn
import torch.nn.functional as F
from models import Net


def loss_fn(recon, x, mean, log_var):
    bce = {bce}
    return bce - 0.5 * torch.sum(1 + log_var - mean.pow(2) - log_var.exp())


criterion = nn.BCELoss()
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in [torch.rand(8, 4).cuda()]:
    recon, mean, log_var = model(x)
    loss = loss_fn(recon, x, mean, log_var)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(4, 6), nn.Linear(3, 4)

    def forward(self, x):
        mean, log_var = self.body(x).chunk(2, 1)
        return torch.sigmoid(self.out(mean)), mean, log_var
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "bce",
    [
        "F.binary_cross_entropy(recon.view(-1, 4), x, reduction='sum')",
        "criterion(recon, x) + criterion(recon, x)",
        "2 * criterion(input=recon.flatten(), target=x.flatten()).mean()",
    ],
)
def test_cross_entropy_of_probabilities_out_of_reach_gets_float32(bce: str, dtype: str) -> None:
    conversion = convert(LOSS.format(bce=bce), Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    casts = ("to_float32(model(x))", "(output.float() for output in model(x))")
    assert any(f"recon, mean, log_var = {cast}\n    loss = loss_fn(" in conversion.text for cast in casts)
    here = conversion.text.replace("from models import Net\n", NET).replace('"cuda"', '"cpu"').replace(".cuda()", "")
    exec(here, {})
    assert convert(conversion.text, Wish(to="amp", dtype=dtype)).text == conversion.text
