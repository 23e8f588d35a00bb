"""What stands in other files: work on gradients, and what runs inside of regions."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told

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


REGION = """import torch
from models import Net

net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
for x in [torch.ones(2, 4)] * 5:
    optimizer.zero_grad()
    loss = net(x.cuda()).mean()
    loss.backward()
    optimizer.step()
"""
MODEL = """import torch
from torch import nn
from losses import Loss


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.loss = Loss()

    def forward(self, x):
        return self.loss(torch.sigmoid(self.layer(x)))
"""
LOSS = """import torch
from torch import nn


def helper(x):
    {helps}


class Loss(nn.Module):
    def forward(self, x):
        {runs}
"""
SPARSE = "a sparse tensor; not every product of these has a kernel for half"
BOUND = "so nothing keeps this tensor from 1; bound it in float32"
COMPLEMENT = "1 - p runs in half where its input is, and what is close to 1 becomes 1 (AMP408)"
NEAREST = "the nearest is chosen by distances in half, which are too coarse; compute them in float32"


@pytest.mark.parametrize(
    ("runs", "helps", "float16", "bfloat16"),
    [
        (
            "return x / (x.std() + 1e-8)",
            "pass",
            ["losses.py:11: 1e-08 is 0 in float16 and guards nothing (AMP402)"],
            [],
        ),
        (
            "return helper(x)",
            "return torch.log(1 - torch.clamp(x, 1e-4, 1.0 - 1e-4))",
            [
                "losses.py:6: 0.9999 is 1 in float16 and lets 1 through (AMP402)",
                f"losses.py:6: 0.9999 is 1 in float16, {BOUND}",
                f"losses.py:6: {COMPLEMENT}",
            ],
            [f"losses.py:6: 0.9999 is 1 in bfloat16, {BOUND}", f"losses.py:6: {COMPLEMENT}"],
        ),
        ("return x.clamp(max=0.999)", "pass", [], [f"losses.py:11: 0.999 is 1 in bfloat16, {BOUND}"]),
        ("return x.float().clamp(max=0.9999)", "pass", [], []),
        (
            "return x * float(helper(x.detach().cpu().numpy()))",
            "return x.sum()",
            [],
            ["losses.py:11: numpy() raises if this tensor is bfloat16 (AMP501)"],
        ),
        ("return torch.spmm(self.adjacency, x)", "pass", [f"losses.py:11: {SPARSE}"], [f"losses.py:11: {SPARSE}"]),
        (
            "far = self.codes - 2 * x @ self.codes.t(); return self.codes[far.argmin(1)]",
            "pass",
            [f"losses.py:11: {NEAREST}"],
            [f"losses.py:11: {NEAREST}"],
        ),
        ("return x.pow(2).mean()", "return x.numpy()", [], []),
    ],
    ids=["epsilon", "bound", "bfloat16 bound", "float32", "numpy", "sparse", "nearest", "nothing"],
)
def test_what_runs_in_a_region_in_another_file_is_named(
    tmp_path: Path, runs: str, helps: str, float16: list[str], bfloat16: list[str]
) -> None:
    files = {"models": MODEL, "losses": LOSS.format(runs=runs, helps=helps)}
    for dtype, expected in (("float16", float16), ("bfloat16", bfloat16)):
        conversion = _converted(tmp_path, Wish(to="amp", dtype=dtype), REGION, **files)
        assert conversion.refused == ()
        assert sorted(remark.text for remark in told(conversion)) == expected
        rows = {remark.row for remark in told(conversion)}
        lines = conversion.text.splitlines()
        assert all("autocast(" in lines[row - 1] or "net(" in lines[row - 1] for row in rows)


def test_a_loader_of_another_file_is_not_looked_into(tmp_path: Path) -> None:
    item = "self.images[index].numpy() / (self.std + 1e-9)"
    data = f"class Data:\n    def __getitem__(self, index):\n        return {item}\n"
    files = {"models": MODEL, "losses": LOSS.format(runs="return x", helps="pass"), "data": data}
    text = REGION.replace("from models", "from data import Data\nfrom models").replace(
        "[torch.ones(2, 4)] * 5", "Data()"
    )
    for dtype in ("float16", "bfloat16"):
        assert _converted(tmp_path, Wish(to="amp", dtype=dtype), text, **files).left == ()


ACTING = """import torch
from torch import nn
from torch.distributions import MultivariateNormal

policy = nn.Linear(4, 2).cuda()
optimizer = torch.optim.Adam(policy.parameters())


def select(state):
    with torch.no_grad():
        mean = policy(state)
        action = MultivariateNormal(mean, torch.eye(2)).sample()
    return action.cpu().numpy()


for _ in range(3):
    loss = policy(torch.tensor(select(torch.ones(2, 4).cuda())).cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_numpy_can_be_given_in_half_becomes_float32_for_bfloat16_alone() -> None:
    conversion = convert(ACTING, Wish(to="amp", dtype="bfloat16"))
    assert conversion.left == ()
    assert "    return action.cpu().float().numpy()\n" in conversion.text
    plain = convert(ACTING, Wish(to="amp"))
    assert plain.left == ()
    assert "            mean = policy(state).float()\n" in plain.text
    assert "    return action.cpu().numpy()\n" in plain.text


UNUSED = """import torch
from torch import nn
from losses import close, penalty

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
measure = {loss}
for x in [torch.ones(2, 4).cuda()]:
    loss = measure(net(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
LOSSES = """import torch


def close(out, x):
    return (out - x).abs().mean()


def penalty(out, x):
    return torch.acos(torch.clamp(out, -1 + 1e-7, 1 - 1e-7)).mean()


class Data:
    def __getitem__(self, index):
        return penalty(torch.ones(4), index)
"""


@pytest.mark.parametrize("loss", ["close", "penalty", "penalty if net.bias is None else close"])
def test_losses_of_another_file_get_float32_and_stay(tmp_path: Path, loss: str) -> None:
    (tmp_path / "losses.py").write_text(LOSSES, encoding="utf-8")
    conversion = convert(UNUSED.format(loss=loss), Wish(to="amp"), str(tmp_path / "train.py"))
    assert "        output = net(x).float()\n    loss = measure(output, x)\n" in conversion.text
    assert (conversion.others, conversion.left) == ((), ())


def test_data_of_a_loop_leads_to_no_functions(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(LOSSES, encoding="utf-8")
    text = (
        UNUSED.format(loss="close").replace("close, penalty", "Data, close").replace("[torch.ones(2, 4)", "[Data()[0]")
    )
    assert convert(text, Wish(to="amp"), str(tmp_path / "train.py")).left == ()


REPLICATED = """import torch
from nets import build

net = build().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in [torch.ones(2, 4).cuda()]:
    loss = (net(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.save({saved}, "net.pt")
"""


@pytest.mark.parametrize(
    ("nets", "saved", "row"),
    [
        ("def build():\n    return nn.DataParallel(nn.Linear(4, 4))\n", "net", 7),
        ("def build():\n    return nn.Linear(4, 4)\n", "net", None),
        ("def build():\n    return nn.Linear(4, 4)\n", "net.module.state_dict()", 12),
        ("def build():\n    return nn.parallel.DistributedDataParallel(nn.Linear(4, 4))\n", "net.module", None),
    ],
    ids=["made elsewhere", "none", "unwrapped", "distributed"],
)
def test_replicas_in_threads_are_named_where_another_file_makes_them(
    tmp_path: Path, nets: str, saved: str, row: int | None
) -> None:
    (tmp_path / "nets.py").write_text(f"from torch import nn\n\n\n{nets}", encoding="utf-8")
    wish = Wish(to="amp", dtype="bfloat16")
    left = convert(REPLICATED.format(saved=saved), wish, str(tmp_path / "train.py")).left
    assert [remark.row for remark in left if "computes in float16" in remark.text] == ([row] if row else [])


INVERSE = """import torch


def spread(out, y):
    return torch.linalg.inv(out.t() @ out).trace() + y.mean()
"""


@pytest.mark.parametrize(("device", "spelled"), [("cuda", '"cuda"'), ("auto", "device.type")])
def test_a_loss_of_another_file_that_raises_in_half_is_computed_in_float32(
    tmp_path: Path, device: str, spelled: str
) -> None:
    text = UNUSED.format(loss="1").replace("from losses import close, penalty\n", "from losses import spread\n")
    text = text.replace("    loss = measure(net(x), x)\n", "    out = net(x)\n    loss = spread(out, x)\n")
    text = text.replace("net = ", 'device = torch.device("cuda")\nnet = ', 1)
    conversion = _converted(tmp_path, Wish(to="amp", device=device, dtype="bfloat16"), text, losses=INVERSE)
    region = f"    with torch.autocast(device_type={spelled}, dtype=torch.bfloat16):\n        out = net(x).float()\n"
    assert f"{region}    loss = spread(out, x)\n" in conversion.text
    assert not any("inv raises" in remark.text for remark in conversion.left)


def test_a_network_of_another_file_that_raises_in_half_is_cured_there(tmp_path: Path) -> None:
    judge = INVERSE.replace("def spread(out, y)", "class Judge(torch.nn.Module):\n    def forward(self, out, y)")
    judge = judge.replace("    return torch", "        return torch")
    text = UNUSED.format(loss="1").replace("from losses import close, penalty\n", "from losses import Judge\n")
    text = text.replace("    loss = measure(net(x), x)\n", "    out = net(x)\n    loss = judge(out, x)\n")
    text = text.replace("net = ", "judge = Judge()\nnet = ", 1)
    conversion = _converted(tmp_path, Wish(to="amp"), text, losses=judge)
    assert "enabled=False" not in conversion.text
    assert any("inv raises" in remark.text for remark in told(conversion))
    (cured,) = conversion.others
    island = b"""        with torch.autocast("cuda", enabled=False):
            return torch.linalg.inv(out.t().float() @ out.float()).trace() + y.mean()
"""
    assert island in cured.after
