"""Projects of several files: what a conversion refuses, leaves outside of regions, casts once, or names."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert

TRAINER = """import torch
from base import Base


class Trainer(Base):
    def __init__(self, net, batches):
        self.net = net
        self.batches = batches
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for x, y in self.batches:
            loss = torch.nn.functional.mse_loss(self.net(x.cuda()), y.cuda())
            self.optimize(self.optimizer, loss)

    @staticmethod
    def optimize(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
BASE = """class Base:
    def pretrain(self, batches, criterion):
        for x, y in batches:
            self.optimize(self.optimizer, criterion(self.net(x), y))
"""
LOOP = """import torch
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
{imports}
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.tail = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())

    def forward(self, x, y):
        out = self.layer(x)
{body}
"""
SET_UP = """import torch
from torch import nn


class Trainer:
    def __init__(self, batches):
        self.batches = batches
        self.net = nn.Linear(4, 4).cuda()

    def begin(self):
        self.scale = self.net(torch.ones(1, 4).cuda()).detach().mean()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self):
        for _ in range(2):
            self.begin()
            self.run()

    def run(self):
        for x, y in self.batches:
            self.optimizer.zero_grad()
            loss = (self.net(x.cuda()) - y.cuda()).pow(2).mean() * self.scale
            loss.backward()
            self.optimizer.step()
"""
SUMS = """import torch
from models import Net

net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    losses = net(x, y)
    print("forward")
    print("loss")
    print("backward")
    total = 0
    for name, loss in losses.items():
        total += loss.mean(dim=0)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""


def _write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        place = folder / (name.replace("__", "/") + ".py")
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")


def _converted(folder: Path, text: str, dtype: str = "float16", name: str = "train.py") -> Conversion:
    (folder / name).write_text(text, encoding="utf-8")
    return convert(text, Wish(to="amp", dtype=dtype), str(folder / name))


def _remarks(conversion: Conversion) -> str:
    return "\n".join(one.text for one in conversion.left)


def test_a_method_that_a_base_class_calls_is_given_no_scaler(tmp_path: Path) -> None:
    """The base in the other file would call it without one."""
    _write(tmp_path, base=BASE)
    (refused,) = _converted(tmp_path, TRAINER).refused
    assert refused.text == "base.py:4 calls optimize() for a base class, which has no scaler to pass"
    assert _converted(tmp_path, TRAINER, "bfloat16").refused == ()
    _write(tmp_path, base=BASE.replace("self.optimize(", "self.descend("))
    assert "self.optimize(self.optimizer, self.scaler, loss)" in _converted(tmp_path, TRAINER).text


def test_gradients_that_an_adjoint_solver_integrates_get_no_scale(tmp_path: Path) -> None:
    """Its tolerance is absolute, and the gradients are as large as the scale."""
    imports = "from torchdiffeq import odeint_adjoint as odeint"
    body = "        return odeint(self.layer, out, torch.tensor([0.0, 1.0]))[-1].mean()"
    _write(tmp_path, models=MODELS.format(imports=imports, body=body))
    (refused,) = _converted(tmp_path, LOOP).refused
    assert "the adjoint method integrates gradients that carry the scale to a tolerance" in refused.text
    assert _converted(tmp_path, LOOP, "bfloat16").refused == ()


def test_a_helper_for_numpy_keeps_whole_numbers(tmp_path: Path) -> None:
    """It may be given labels as well, which a cast would make floats."""
    helper = "def to_numpy(tensor):\n    return tensor.cpu().numpy()\n"
    body = "        print(to_numpy(out.argmax(1)))\n        return out.mean()"
    _write(tmp_path, helper=helper, models=MODELS.format(imports="from helper import to_numpy", body=body))
    conversion = _converted(tmp_path, LOOP, "bfloat16")
    assert not any(one.path.endswith("helper.py") for one in conversion.others)


def test_a_file_of_numpy_is_no_code_of_a_region(tmp_path: Path) -> None:
    poses = "import numpy as np\n\n\ndef joined(a, b):\n    return a[..., :3, :3] @ b[..., :3, :3]\n"
    body = "        joined(x.numpy(), y.numpy())\n        return out.mean()"
    _write(tmp_path, poses=poses, models=MODELS.format(imports="from poses import joined", body=body))
    conversion = _converted(tmp_path, LOOP)
    assert not any(one.path.endswith("poses.py") for one in conversion.others)
    _write(tmp_path, poses=poses.replace("numpy as np", "torch"))
    assert any(one.path.endswith("poses.py") for one in _converted(tmp_path, LOOP).others)


def test_a_sum_of_losses_gets_no_region_of_its_own(tmp_path: Path) -> None:
    _write(tmp_path, models=MODELS.format(imports="", body='        return {"mean": (out - y).pow(2)}'))
    assert _converted(tmp_path, SUMS, "bfloat16").text.count("torch.autocast(") == 1


def test_what_makes_an_optimizer_is_no_part_of_a_region(tmp_path: Path) -> None:
    text = _converted(tmp_path, SET_UP, "bfloat16").text
    assert "            self.begin()\n            self.run()\n" in text
    assert text.count("torch.autocast(") == 1


@pytest.mark.parametrize("name", ["is_recurrent", "has_memory"])
def test_a_question_about_a_model_is_no_forward_pass(tmp_path: Path, name: str) -> None:
    asked = f"            recurrent = self.net.{name}()\n            self.run(recurrent)\n"
    text = SET_UP.replace("            self.begin()\n            self.run()\n", asked)
    text = text.replace("def run(self):", "def run(self, recurrent):").replace("* self.scale", "* (1 + recurrent)")
    text = text.replace("nn.Linear(4, 4).cuda()", "nn.Linear(4, 4).cuda()\n        self.begin()")
    assert asked in _converted(tmp_path, text, "bfloat16").text


def test_a_derived_class_that_steps_itself_needs_no_scaler(tmp_path: Path) -> None:
    derived = """from train import Trainer


class Other(Trainer):
    def run(self):
        for x, y in self.batches:
            (self.net(x) - y).pow(2).mean().backward()
            self.optimizer.step()
"""
    _write(tmp_path, other=derived)
    assert _converted(tmp_path, SET_UP).refused == ()
    _write(tmp_path, other=derived.replace("            self.optimizer.step()\n", ""))
    (refused,) = _converted(tmp_path, SET_UP).refused
    assert "other.py:7 makes gradients of this step" in refused.text


@pytest.mark.parametrize(("given", "named"), [("net, device_ids=[0]", False), ("net, device_ids=[0, 1]", True)])
def test_a_model_on_one_gpu_has_no_replicas(tmp_path: Path, given: str, *, named: bool) -> None:
    _write(tmp_path, models=MODELS.format(imports="", body="        return (out - y).pow(2).mean()"))
    text = LOOP.replace("optimizer =", f"net = torch.nn.DataParallel({given})\noptimizer =", 1)
    assert ("DistributedDataParallel" in _remarks(_converted(tmp_path, text, "bfloat16"))) is named


GIVEN_MODEL = """import torch
from train import Trainer

net = {net}
Trainer(net).run([])
"""


@pytest.mark.parametrize(
    ("net", "named"), [("torch.nn.DataParallel(build())", True), ("build()", False)], ids=["replicated", "alone"]
)
def test_replicas_that_a_file_makes_which_imports_this_one_are_named(tmp_path: Path, net: str, *, named: bool) -> None:
    _write(tmp_path, main=GIVEN_MODEL.format(net=net))
    text = SET_UP.replace("import torch\n", "import torch\nfrom torch import nn\n", 1)
    remarks = _remarks(_converted(tmp_path, text, "bfloat16"))
    assert ("main.py:4: with several GPUs" in remarks) is named


def test_an_option_of_that_name_replicates_nothing(tmp_path: Path) -> None:
    _write(tmp_path, models=MODELS.format(imports="", body="        return (out - y).pow(2).mean()"))
    text = LOOP.replace("optimizer =", "data_parallel = False\nif data_parallel:\n    print(net)\noptimizer =", 1)
    assert "DistributedDataParallel" not in _remarks(_converted(tmp_path, text, "bfloat16"))


def test_kernels_of_libraries_that_take_no_half_are_named(tmp_path: Path) -> None:
    body = "        return knn_points(out[None], out[None]).dists.mean()"
    _write(tmp_path, models=MODELS.format(imports="from pytorch3d.ops import knn_points", body=body))
    named = _remarks(_converted(tmp_path, LOOP))
    assert "models.py:14: kernels of pytorch3d take float32 alone; cast what they are given" in named


def test_indices_that_a_model_returns_stay_whole_numbers(tmp_path: Path) -> None:
    body = "        return out, out.argmax(1)"
    _write(tmp_path, models=MODELS.format(imports="", body=body))
    text = LOOP.replace("    loss = net(x, y)\n", "    out, indices = net(x, y)\n    loss = (out - y).pow(2).mean()\n")
    text += "    print(out.detach().cpu().numpy(), indices.cpu().numpy())\n"
    assert "indices.float()" not in _converted(tmp_path, text, "bfloat16").text.replace("cpu().float()", "")


def test_a_model_that_ends_in_a_sigmoid_computes_it_in_float32(tmp_path: Path) -> None:
    """Its loss of probabilities is computed in float32 in the other file, too."""
    losses = "import torch\n\n\ndef entropy(p, y):\n    return torch.nn.functional.binary_cross_entropy(p, y)\n"
    computes = "    p = net(x, y)\n    loss = entropy(p, y)\n"
    text = LOOP.replace("    loss = net(x, y)\n", computes).replace(
        "import Net", "import Net\nfrom losses import entropy"
    )
    _write(tmp_path, losses=losses, models=MODELS.format(imports="", body="        return self.tail(out)"))
    after = {Path(one.path).name: one.after.decode() for one in _converted(tmp_path, text).others}
    assert "            return self.tail(out.float())\n" in after["models.py"]


def test_what_is_float32_is_cast_once(tmp_path: Path) -> None:
    body = (
        "        turn = out.t() @ y\n        u, s, v = torch.svd(turn)\n        back = v @ u.t()\n"
        "        return torch.det(back)"
    )
    _write(tmp_path, models=MODELS.format(imports="", body=body))
    ((_, _, after, _),) = _converted(tmp_path, LOOP).others
    assert "turn = out.t().float() @ y.float()" in after.decode()
    assert "torch.svd(turn)" in after.decode()
    assert "back = v @ u.t()" in after.decode()


def test_files_of_other_folders_tell_of_the_model_that_a_trainer_is_given(tmp_path: Path) -> None:
    """They import the trainer by its package; the model comes from a function that makes one of several."""
    trainer = """import torch


class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def run(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(x, y), y)
            loss.backward()
            self.optimizer.step()
"""
    body = "        return nn.functional.grid_sample(x[None, None], out[None, :, None, :2])"
    chosen = "from engine.models import Net\n\n\ndef get_model():\n    return Net()\n"
    runs = (
        "from engine.chosen import get_model\nfrom engine.trainers import get_trainer\n\n"
        "trainer = get_trainer()(get_model(), None)\n"
    )
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").touch()
    _write(
        tmp_path,
        setup="",
        engine__models=MODELS.format(imports="", body=body),
        engine__chosen=chosen,
        engine__trainers="from engine.trainer import Trainer\n\n\ndef get_trainer():\n    return Trainer\n",
        run__main=runs,
    )
    named = _remarks(_converted(tmp_path / "engine", trainer, name="trainer.py"))
    assert "positions that this samples at" in named
