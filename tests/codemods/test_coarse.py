"""Results of which half leaves few digits are computed in float32, or named where they cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from amplint.codemods import Conversion, Wish, convert
from amplint.source.source import Source
from amplint.training import hazards

TRAIN = """import torch
from models import Net

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    loss = net(x, y)
    loss.backward()
    optimizer.step()
"""
MODELS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        rows = torch.arange(0, 4)
        mask = torch.triu(torch.ones(4, 4))
        mask = mask.unsqueeze(0)
        self.register_buffer("rows", rows)
        self.register_buffer("mask", mask)

    def forward(self, x, y):
        out = self.layer(x)
{body}
"""
OFF = '        with torch.autocast("cuda", enabled=False):\n'


def _converted(folder: Path, body: str, dtype: str = "bfloat16") -> tuple[Conversion, str]:
    models = MODELS.format(body=body)
    (folder / "models.py").write_text(models, encoding="utf-8")
    conversion = convert(TRAIN, Wish(to="amp", dtype=dtype), str(folder / "train.py"))
    assert conversion.refused == ()
    return conversion, conversion.others[0].after.decode() if conversion.others else models


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (
            "        xx, yy = out.pow(2).sum(1), y.pow(2).sum(1)\n        product = torch.mm(out, y.t())\n"
            "        far = xx.unsqueeze(1).expand_as(product) + yy - 2 * product\n        return far.mean()",
            OFF + "            product = torch.mm(out.float(), y.t().float())\n",
        ),
        (
            "        far = out.pow(2).sum(1, keepdim=True) + y.pow(2).sum(1)\n"
            "        far.addmm_(out, y.t(), beta=1, alpha=-2)\n        return far.mean()",
            OFF + "            far.addmm_(out.to(far.dtype), y.t().to(far.dtype), beta=1, alpha=-2)\n",
        ),
        (
            "        right = out.view(2, 4)\n        right = right.permute(1, 0)\n"
            "        energy = torch.mm(out, right)\n        energy = energy.max(1, keepdim=True)[0] - energy\n"
            "        return energy.softmax(1).mean()",
            OFF + "            energy = torch.mm(out.float(), right.float())\n",
        ),
        (
            "        turn = out.view(-1, 2, 2)\n        points = torch.bmm(turn[:, :, :2], y.view(-1, 2, 2))\n"
            "        points += turn[:, :, 2].unsqueeze(2)\n        return points.mean()",
            OFF + "            points = torch.bmm(turn[:, :, :2].float(), y.view(-1, 2, 2).float())\n",
        ),
        (
            "        discount = 0.99 * torch.ones_like(out)\n        return (torch.cumprod(discount, 0) * out).mean()",
            "        discount = 0.99 * torch.ones_like(out.float())\n",
        ),
        (
            "        full = out.view(2, 4, 1) * self.mask\n        full[:, self.rows, self.rows] = self.layer(x)\n"
            "        return full.mean()",
            "        full[:, self.rows, self.rows] = self.layer(x).to(full.dtype)\n",
        ),
        (
            "        far = -2 * torch.mm(out, y.t())\n        far += out.pow(2).sum(1, keepdim=True)\n"
            "        far += torch.sum(y**2, -1)\n        return far.mean()",
            OFF + "            far = -2 * torch.mm(out.float(), y.t().float())\n",
        ),
        (
            "        alike = torch.eye(2, device=x.device) + out.matmul(out.t())\n        return torch.logdet(alike)",
            OFF + "            alike = torch.eye(2, device=x.device) + out.float().matmul(out.t().float())\n",
        ),
        (
            "        prob = torch.sigmoid(out)\n        return -(y * torch.log(1 - prob)).mean()",
            "        prob = torch.sigmoid(out.float())\n",
        ),
        (
            "        logits = torch.distributions.utils.probs_to_logits(out.softmax(1).to(x.dtype))\n"
            "        return logits.mean()",
            "probs_to_logits(out.softmax(1).to(x.dtype).float())\n",
        ),
    ],
    ids=[
        "distances",
        "in place",
        "energies",
        "points",
        "discounts",
        "several indices",
        "added to a product",
        "determinant",
        "logarithm of a sigmoid",
        "epsilon of a dtype",
    ],
)
def test_few_digits_are_computed_in_float32(tmp_path: Path, body: str, becomes: str) -> None:
    """The result is as it was in float32, and nothing of it is left to look at."""
    conversion, after = _converted(tmp_path, body)
    assert becomes in after
    assert not any("models.py" in remark.text for remark in conversion.left)


@pytest.mark.parametrize(
    ("divisor", "cures"), [("out.size(0)", True), ("len(out)", True), ("out.size(0) ** 0.5", False), ("2", False)]
)
def test_sums_that_are_divided_by_their_number_can_overflow(tmp_path: Path, divisor: str, *, cures: bool) -> None:
    """Attention is divided by a root, which bounds nothing, and is another rule's matter."""
    body = f"        gram = torch.mm(out.t(), y)\n        return (gram / ({divisor})).sum()"
    _, after = _converted(tmp_path, body, "float16")
    assert ("gram = torch.mm(out.t().float(), y.float())" in after) is cures


@pytest.mark.parametrize(
    "body",
    [
        "    return ((y - x @ w) ** 2).mean()",
        "    scores = x @ w\n    return scores - scores.max()",
        "    out = []\n    for t in range(3):\n        x = x + 0.5 * x\n    return x",
        "    return 0.9 * torch.ones_like(x)",
    ],
    ids=["squared difference", "scores", "forwards", "labels"],
)
def test_what_keeps_its_digits_is_not_named(body: str) -> None:
    source = Source("", f"import torch\n\n\ndef compute(x, y, w):\n{body}\n", "")
    assert list(hazards.of(source.chunks[-1], "bfloat16", sparse=False)) == []


def test_returns_that_are_summed_backwards_are_named() -> None:
    """Each step rounds the sum again; the discount is a part of it."""
    body = "    for t in reversed(range(3)):\n        last = rewards[t] + gamma * last\n    return last"
    source = Source("", f"def compute(rewards, last, gamma):\n{body}\n", "")
    ((_, why, cures),) = hazards.of(source.chunks[-1], "float16", sparse=False)
    assert "backwards" in why
    assert cures == ()
    value = torch.tensor(0.0, dtype=torch.bfloat16)
    for _ in range(1000):
        value = 1 + torch.tensor(0.99, dtype=torch.bfloat16) * value
    assert value < 70


def test_what_is_compared_with_a_bound_near_1_is_computed_in_float32(tmp_path: Path) -> None:
    body = "        alike = torch.mm(out, out.t())\n        return alike[alike < 1 - 1e-5].mean()"
    _, after = _converted(tmp_path, body)
    assert OFF + "            alike = torch.mm(out.float(), out.t().float())\n" in after


@pytest.mark.parametrize(
    ("hook", "is_told"), [("def hook(g):\n        x.kept = g", True), ("def hook(g):\n        return 2 * g", False)]
)
def test_hooks_that_keep_scaled_gradients_are_named(hook: str, *, is_told: bool) -> None:
    source = Source("", f"def watch(x):\n    {hook}\n    return x.register_hook(hook)\n", "")
    found = [why for _, why, _ in hazards.of(source.chunks[-1], "float16", sparse=False)]
    assert any("keeps gradients" in why for why in found) is is_told
    assert list(hazards.of(source.chunks[-1], "bfloat16", sparse=False)) == []
