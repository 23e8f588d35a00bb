"""How functions get at the scaler: parameters, attributes and names of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Remark, Wish, convert

PROGRAM = """from typing import Optional

import torch
from torch import nn


def step({parameters}):
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()


def main(count: int = 3):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(count):
        step({arguments})
"""


@pytest.mark.parametrize(
    ("parameters", "arguments", "declared", "passed"),
    [
        (
            "model, optimizer, x",
            "model, optimizer, torch.ones(2, 4)",
            "model, optimizer, scaler, x",
            "model, optimizer, scaler, torch.ones(2, 4)",
        ),
        (
            "model, x, *, optimizer",
            "model, torch.ones(2, 4), optimizer=optimizer",
            None,
            None,
        ),
        (
            "model, x, optimizer=None",
            "model, torch.ones(2, 4), optimizer=optimizer",
            "model, x, optimizer=None, scaler=None",
            "model, torch.ones(2, 4), optimizer=optimizer, scaler=scaler",
        ),
        (
            "model: nn.Module, x, optimizer: Optional[torch.optim.Optimizer] = None",
            "model, torch.ones(2, 4), optimizer",
            "model: nn.Module, x, optimizer: Optional[torch.optim.Optimizer] = None,"
            " scaler: Optional[torch.amp.GradScaler] = None",
            "model, torch.ones(2, 4), optimizer, scaler",
        ),
        (
            "\n    model,\n    optimizer: torch.optim.Optimizer,  # any\n    x,\n",
            "\n            model,\n            optimizer,\n            torch.ones(2, 4),\n        ",
            "\n    model,\n    optimizer: torch.optim.Optimizer,\n    scaler: torch.amp.GradScaler,  # any\n    x,\n",
            "\n            model,\n            optimizer,\n            scaler,"
            "\n            torch.ones(2, 4),\n        ",
        ),
        ("model, optimizer, x", "*(model, optimizer, torch.ones(2, 4))", None, None),
        ("model, optimizer, x", "model, x=torch.ones(2, 4), **{'optimizer': optimizer}", None, None),
    ],
    ids=["positional", "keyword only", "default", "annotated", "rows", "star", "double star"],
)
def test_a_function_takes_the_scaler(parameters: str, arguments: str, declared: str | None, passed: str | None) -> None:
    text = PROGRAM.format(parameters=parameters, arguments=arguments)
    conversion = convert(text, Wish(to="amp"))
    if declared is None:
        assert conversion.refused
        return
    assert conversion.refused == ()
    assert f"def step({declared}):" in conversion.text
    assert f"        step({passed})\n" in conversion.text
    assert '    scaler = torch.amp.GradScaler("cuda")\n    for' in conversion.text


EPOCH = """from typing import Optional

import torch
import torch.nn.functional as F


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batches: list{parameter}) -> None:
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("parameter", "kind"),
    [
        (", writer: Optional[object] = None", "Optional[torch.amp.GradScaler]"),
        (", writer: object | None = None", "torch.amp.GradScaler | None"),
        (", writer: object = None", "torch.amp.GradScaler | None"),
        ("", "torch.amp.GradScaler | None"),
    ],
    ids=["Optional", "union", "default", "required"],
)
def test_a_function_of_one_epoch_may_be_given_the_scaler(parameter: str, kind: str) -> None:
    conversion = convert(EPOCH.format(parameter=parameter), Wish(to="amp"))
    assert conversion.refused == ()
    assert f"batches: list{parameter}, scaler: {kind} = None) -> None:" in conversion.text


def test_other_libraries_are_given_float32() -> None:
    text = """import pytorch_msssim
import torch
from torch import nn

model = nn.Conv2d(1, 1, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(1, 1, 32, 32).cuda(), torch.ones(1, 1, 30, 30).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = 1 - pytorch_msssim.ssim(out, y)
    loss.backward()
    optimizer.step()
"""
    conversion = convert(text, Wish(to="amp"))
    assert conversion.left == ()
    assert "        out = model(x).float()\n    loss = 1 - pytorch_msssim.ssim(out, y)\n" in conversion.text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_plots_get_float32_and_files_are_no_tensors(dtype: str) -> None:
    text = """import torch
from PIL import Image
from tensorboardX import SummaryWriter
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
writer = SummaryWriter()
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 2).cuda())]:
    optimizer.zero_grad()
    out = model(x)
    loss = (out - y).abs().mean()
    loss.backward()
    optimizer.step()
    writer.add_scalar("mean", out.mean())
    image = Image.open(f"{out}.png")
"""
    conversion = convert(text, Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    assert conversion.left == ()
    assert "        out = model(x).float()\n    loss = " in conversion.text


def test_one_scaler_serves_all_optimizers() -> None:
    text = """import torch
from torch import nn


class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Linear(4, 1), nn.Linear(4, 1)
        self.actor_opt = torch.optim.Adam(self.actor.parameters())
        self.critic_opt = torch.optim.Adam(self.critic.parameters())

    def update_critic(self, x):
        loss = self.critic(x).pow(2).mean()
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()

    def update_actor(self, x):
        loss = self.actor(x).pow(2).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()


agent = Agent()
for x in [torch.ones(2, 4)]:
    agent.update_critic(x)
    agent.update_actor(x)
"""
    conversion = convert(text, Wish(to="amp"))
    assert conversion.refused == ()
    assert conversion.text.count("torch.amp.GradScaler(") == 1
    assert conversion.text.index("self.critic_opt = ") < conversion.text.index("self.scaler = ")


def test_a_region_holds_what_would_be_one_of_its_own() -> None:
    text = """import torch
from torch import nn

model = nn.Linear(4, 1)
critic = nn.Linear(1, 1)
optimizer = torch.optim.SGD([*model.parameters(), *critic.parameters()], lr=0.1)
for x in torch.ones(3, 2, 4):
    optimizer.zero_grad()
    loss = critic(model(x)).mean()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        first = model(x)
        with torch.no_grad():
            second = critic(first)
        third = model(x)
"""
    conversion = convert(text, Wish(to="amp"))
    assert conversion.refused == ()
    assert conversion.text.count("autocast") == 2


SCHEDULED = """import torch
from models import Net
from schedule import Scheduled

model = Net().cuda()
optimizer = Scheduled(torch.optim.SGD(model.parameters(), lr=0.1))
for x in [torch.randn(8, 4).cuda()]:
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.advance()
"""
SCHEDULE = """class Scheduled:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def zero_grad(self):
        self.optimizer.zero_grad()

    def advance(self):
        self.optimizer.step()
"""


def test_bfloat16_does_not_ask_who_steps(tmp_path: Path) -> None:
    (tmp_path / "schedule.py").write_text(SCHEDULE, encoding="utf-8")
    path = str(tmp_path / "train.py")
    half = convert(SCHEDULED, Wish(to="amp"), path)
    assert half.refused == (Remark(11, "an optimizer steps in another file"),)
    conversion = convert(SCHEDULED, Wish(to="amp", dtype="bfloat16"), path)
    assert conversion.refused == ()
    assert "dtype=torch.bfloat16):\n        loss = model(x).float().mean()\n    loss.backward()" in conversion.text


def test_bfloat16_leaves_gradients_of_anything_alone() -> None:
    text = PROGRAM.format(parameters="model, optimizer, x", arguments="model, optimizer, torch.ones(2, 4)")
    text = text.replace("    optimizer.step()\n", "    optimizer.step()\n    return x.grad.sign()\n")
    assert convert(text, Wish(to="amp")).refused
    assert convert(text, Wish(to="amp", dtype="bfloat16")).refused == ()


def test_a_use_of_gradients_may_stand_in_the_row_of_its_condition() -> None:
    text = PROGRAM.format(parameters="model, optimizer, x", arguments="model, optimizer, torch.ones(2, 4)")
    clips = "    if x is not None: nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    conversion = convert(text.replace("    optimizer.step()\n", f"{clips}    optimizer.step()\n"), Wish(to="amp"))
    assert conversion.refused == ()
    assert f"    scaler.unscale_(optimizer)\n{clips}    scaler.step(optimizer)\n" in conversion.text
