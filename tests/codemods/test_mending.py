"""What a conversion brings to fail in half in imported files is computed in float32 there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from amplint.codemods.files import convert_files
from amplint.codemods.mending import in_float32
from amplint.engine.discover import Target, discover
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.fixes.apply import apply_verified
from amplint.source import syntax as cst
from amplint.source.tree import every
from amplint.training.bindings import called_name
from amplint.training.operands import operands
from amplint.training.script import parsed
from tests.codemods.running import told

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
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, y):
        return self.loss(self.layer(x), y)

    def loss(self, out, y):
{body}
{more}"""
OFF = '        with torch.autocast("cuda", enabled=False):\n'
EPSILON = "        return (out / (out.std() + 1e-8)).mean()"


def _converted(folder: Path, body: str, more: str = "", dtype: str = "float16") -> tuple[Conversion, str]:
    """A script with a model in another file, and what becomes of that."""
    models = MODELS.format(body=body, more=more)
    (folder / "models.py").write_text(models, encoding="utf-8")
    conversion = convert(TRAIN, Wish(to="amp", dtype=dtype), str(folder / "train.py"))
    assert conversion.refused == ()
    return conversion, conversion.others[0].after.decode() if conversion.others else models


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (
            "        far = out.pow(2).sum(1) - 2 * torch.mm(out, y.t())\n        return y[far.argmin(1)].mean()",
            OFF + "            far = out.float().pow(2).sum(1) - 2 * torch.mm(out.float(), y.t().float())\n",
        ),
        (
            "        mean = F.conv1d(out, y)\n        square = mean.pow(2)\n"
            "        return (F.conv1d(out * out, y) - square).mean()",
            OFF
            + "            mean = F.conv1d(out.float(), y.float())\n        square = mean.pow(2)\n"
            + OFF
            + "            return "
            "(F.conv1d(out.float() * out.float(), y.float()) - square).mean()",
        ),
        (
            "        turn = y[:3, :3]\n        out = turn @ out\n        out = turn @ out\n        return out.mean()",
            OFF + "            out = turn.float() @ out.float()\n            out = turn.float() @ out\n",
        ),
        ("        return out.mul(0.5).exp_().mean()", "        return out.mul(0.5).float().exp_().mean()"),
        (
            "        low = -9e15 * torch.ones_like(out)\n        return torch.where(y > 0, out, low).softmax(1).mean()",
            "        low = torch.finfo(out.dtype).min * torch.ones_like(out)\n",
        ),
        (
            "        return F.binary_cross_entropy(out, y)",
            OFF + "            return F.binary_cross_entropy(out.float(), y.float())",
        ),
        (
            "        x = out.sigmoid()\n        return torch.log(1 - x + self.eps).mean()",
            "        x = out.float().sigmoid()\n",
        ),
    ],
    ids=["nearest", "variance", "rotation", "exponential", "mask", "entropy", "complement"],
)
def test_the_operations_are_computed_in_float32(tmp_path: Path, body: str, becomes: str) -> None:
    conversion, after = _converted(tmp_path, body)
    assert becomes in after
    assert conversion.cured
    assert not any("models.py" in remark.text and "sigmoid" not in remark.text for remark in conversion.left)


@pytest.mark.parametrize(
    ("operand", "cast"),
    [
        ("1 - p", "1 - p.float()"),
        ("1 - p + 1e-4", "1 - p.float() + 1e-4"),
        ("p - q", "(p - q).float()"),
        ("1 - p * q", None),
    ],
)
def test_a_number_is_combined_with_float32(operand: str, cast: str | None) -> None:
    """`(1 - p).float()` comes too late: what is close to 1 is 1 already."""
    text = f"import torch\n\n\ndef entropy(p, q):\n    return torch.log({operand})\n"
    source = parsed(text, "models.py").source
    (call,) = (call for chunk in source.chunks for call in every(chunk.module, cst.Call))
    fix = in_float32(source, [call], None)
    assert (fix is None) == (cast is None)
    if fix is not None:
        assert apply_verified(text, [fix])[0] == text.replace(operand, str(cast))


def test_an_operation_in_place_is_named_and_stays(tmp_path: Path) -> None:
    conversion, after = _converted(tmp_path, "        out.div_(0.1).exp_()\n        return out.mean()")
    assert "        out.div_(0.1).exp_()\n" in after
    assert any("lifts no exp_()" in remark.text for remark in conversion.left)


WARP = """
    def points(self, depth, camera):
        return camera @ depth

"""


def test_the_products_that_lead_to_sampled_positions_are_computed_in_float32(tmp_path: Path) -> None:
    body = "        grid = self.points(out, y)\n        return F.grid_sample(y, grid).mean()"
    _, after = _converted(tmp_path, body, WARP)
    assert OFF + "            return camera.float() @ depth.float()\n" in after
    assert "F.grid_sample(y, grid.float())" in after


PENALTY = """import torch

critic, maker = torch.nn.Linear(4, 1).cuda(), torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.Adam(critic.parameters())


def penalty(real, fake):
    between = (0.5 * real + 0.5 * fake).requires_grad_(True)
    scores = critic(between)
    (slope,) = torch.autograd.grad(
        outputs=scores, inputs=between, grad_outputs=torch.ones_like(scores), create_graph=True
    )
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


for x in [torch.ones(2, 4).cuda()]:
    optimizer.zero_grad()
    fake = maker(x).detach()
    loss = critic(fake).mean() - critic(x).mean() + penalty(x, fake)
    loss.backward()
    optimizer.step()
"""


def test_gradients_of_a_penalty_are_those_of_float32() -> None:
    conversion = convert(PENALTY, Wish(to="amp"))
    assert "        scores = critic(between.float())\n" in conversion.text
    assert not any("carry no scale" in remark.text for remark in conversion.left)


LISTED = """import torch

head, tail = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 4).cuda()


def train(batches, optimizers):
    first, second = optimizers
    for x in batches:
        first.zero_grad()
        second.zero_grad()
        tail(head(x)).mean().backward()
        first.step()
        second.step()


optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (head, tail)]
for epoch in range(3):
    train([torch.ones(2, 4).cuda()], optimizers)
"""


def test_optimizers_that_a_parameter_holds_bring_their_scaler() -> None:
    conversion = convert(LISTED, Wish(to="amp"))
    assert "def train(batches, optimizers, scaler):\n" in conversion.text
    assert "\nscaler = torch.amp.GradScaler(" in conversion.text
    assert "    train([torch.ones(2, 4).cuda()], optimizers, scaler)\n" in conversion.text


def _targets(folder: Path) -> list[Target]:
    return discover((str(folder),), Projects(load_registry().rules)).targets


def test_scripts_that_share_a_file_change_it_once(tmp_path: Path) -> None:
    for name, text in (("one", TRAIN), ("two", TRAIN), ("models", MODELS.format(body=EPSILON, more=""))):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    wish = Wish(to="amp")
    found = list(convert_files(_targets(tmp_path), wish, write=True))
    others = [other for one in found for other in one.others]
    assert [Path(other.filename).name for other in others] == ["models.py"]
    assert "(out.std().float() + 1e-8)" in (tmp_path / "models.py").read_text(encoding="utf-8")
    assert all(one.after == one.before for one in convert_files(_targets(tmp_path), wish, write=True))


def test_the_command_shows_the_changes_of_both_files_and_of_standard_input_a_remark(tmp_path: Path) -> None:
    _converted(tmp_path, EPSILON)
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    command = [sys.executable, "-m", "amplint", "convert", "--to", "amp"]
    shown = subprocess.run([*command, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "--- models.py\n" in shown.stdout
    assert "--- train.py\n" in shown.stdout
    assert "check:" not in shown.stderr
    alone = subprocess.run(
        [*command, "--stdin-filename", "train.py", "-"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        input=TRAIN,
    )
    assert "models.py:15: 1e-08 is 0 in float16" in alone.stderr


def test_remarks_of_cured_files_are_told_apart(tmp_path: Path) -> None:
    conversion, _ = _converted(tmp_path, EPSILON)
    assert conversion.left == ()
    assert [remark.text for remark in told(conversion)] == [
        "models.py:15: 1e-08 is 0 in float16 and guards nothing (AMP402)"
    ]


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("dist.addmm(1, -2, x, x.t())", ["dist", "x", "x.t()"]),
        ("dist.addmm(x, x.t(), beta=1, alpha=-2)", ["dist", "x", "x.t()"]),
        ("criterion(out, target)", []),
        ("criterion = Dice()\ncriterion(out, target)", []),
        ("self.criterion = Dice()\nself.criterion(out, target)", ["out"]),
        ("self.criterion(out, target)", ["out", "target"]),
        ("criterion = nn.NLLLoss()\ncriterion(out, target)", ["out"]),
        ("criterion = nn.BCELoss()\ncriterion(out, target)", ["out", "target"]),
    ],
)
def test_neither_numbers_nor_what_may_be_classes_are_operands(code: str, known: list[str]) -> None:
    script = parsed(code, "train.py")
    call = next(call for call in script.calls if called_name(call) in ("criterion", "addmm"))
    assert [script.text_of(one) for one in operands(script.source, call)] == known


@pytest.mark.parametrize(
    ("body", "becomes"),
    [
        (
            "        kept = torch.zeros(len(out), 4).to(out.device)\n        rows = y.argsort(1)[:, 0]\n"
            "        kept[rows] = out\n        return kept.mean()",
            "        kept[rows] = out.to(kept.dtype)\n",
        ),
        (
            "        far = out.pow(2).sum(1, keepdim=True).expand(len(out), len(out)).clone()\n"
            "        far.addmm_(out, out.t())\n        return far.mean()",
            "            far = far.float().addmm(out.float(), out.t().float())\n",
        ),
        (
            "        part = out.clone()\n        logs = out.logsumexp(1, keepdim=True).expand(len(out), 4)\n"
            "        part.masked_scatter_(y > 0, logs.masked_select(y > 0))\n        return part.mean()",
            "        part.masked_scatter_(y > 0, logs.masked_select(y > 0).to(part.dtype))\n",
        ),
        (
            "        like = torch.zeros_like(out)\n        like.scatter_(0, y.argsort(0), out)\n"
            "        return like.mean()",
            "        like.scatter_(0, y.argsort(0), out)\n",
        ),
        (
            "        kept = torch.zeros(len(out), 4)\n        for i in range(len(out)):\n            kept[i] = out[i]\n"
            "        return kept.mean()",
            "            kept[i] = out[i]\n",
        ),
    ],
)
def test_what_is_written_gets_the_dtype_of_its_tensor(tmp_path: Path, body: str, becomes: str) -> None:
    """Methods that refuse two dtypes, and elements that tensors choose; slices and numbers take any."""
    conversion, models = _converted(tmp_path, body)
    assert becomes in models
    ran = tmp_path / "run.py"
    ran.write_text(conversion.text.replace("cuda", "cpu").replace(".cpu()", ""), encoding="utf-8")
    (tmp_path / "models.py").write_text(models.replace("cuda", "cpu"), encoding="utf-8")
    subprocess.run([sys.executable, ran], cwd=tmp_path, check=True, capture_output=True, text=True)
