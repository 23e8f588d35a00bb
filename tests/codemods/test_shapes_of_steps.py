"""Steps in branches, of several classes, of optimizers that may be None, and of those that hook into backward."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from amplint.engine.modules import Modules

HEAD = """import torch
from torch import distributions
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import clip_grad_norm_

"""
NET = "net = nn.Linear(4, 4).cuda()\n"


def _converted(body: str, dtype: str = "float16") -> str:
    found = convert(HEAD + textwrap.dedent(body), Wish(to="amp", dtype=dtype))
    assert found.done, found.refused
    compile(found.text, "train.py", "exec")
    return found.text


def _project(folder: Path, **files: str) -> Conversion:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    path = folder / "train.py"
    return convert(path.read_text(encoding="utf-8"), Wish(to="amp"), str(path), Modules())


def test_branches_of_which_none_steps_always_update_the_scaler_each() -> None:
    text = _converted(
        """
        class Gan:
            def __init__(self, kind):
                self.net = nn.Linear(4, 1).cuda()
                self.kind = kind

            def train_G(self, G_optimizer, x):
                self.net.zero_grad()
                out = self.net(x)
                if self.kind == "gan":
                    loss = F.softplus(-out).mean()
                    loss.backward()
                    G_optimizer.step()
                elif self.kind == "wgan":
                    loss = -out.mean()
                    loss.backward()
                    G_optimizer.step()
                else:
                    raise NotImplementedError

            def train_D(self, x, D_optimizer):
                self.net.zero_grad()
                loss = F.mse_loss(self.net(x), x[:, :1])
                loss.backward()
                D_optimizer.step()
        """
    )
    steps = re.findall(r"self\.scaler\.step\(([GD])_optimizer\)\n +self\.scaler\.update\(\)", text)
    assert steps == ["G", "G", "D"]


def test_each_class_makes_its_scaler() -> None:
    one = """
        class {}:
            def __init__(self, net, optim):
                self.net = net
                self.optim = optim

            def step(self, x, y):
                self.optim.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()
                self.optim.step()
    """
    text = _converted(textwrap.dedent(one).format("First") + textwrap.dedent(one).format("Second"))
    assert text.count("self.optim = optim\n        self.scaler = torch.amp.GradScaler(") == 2


def test_a_function_that_takes_two_optimizers_gets_one_scaler() -> None:
    text = _converted(
        f"""
        {NET}
        def fit(net, optimizer_a, optimizer_b, batches):
            for x, y in batches:
                one(net, optimizer_a, x, y)
                two(net, optimizer_b, x, y)

        def one(net, optimizer, x, y):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

        def two(net, optimizer, x, y):
            optimizer.zero_grad()
            F.mse_loss(net(x), x).backward()
            optimizer.step()

        optimizer_a = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer_b = torch.optim.SGD(net.parameters(), lr=0.1)
        fit(net, optimizer_a, optimizer_b, [])
        """
    )
    assert "def fit(net, optimizer_a, scaler, optimizer_b, batches):" in text
    assert "\nfit(net, optimizer_a, scaler, optimizer_b, [])" in text


def test_each_caller_of_a_function_with_optional_optimizers_passes_the_scaler() -> None:
    text = _converted(
        f"""
        {NET}
        def one(net, optimizer, x, y):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

        def fit(net, batches, optimizer_a=None, optimizer_b=None):
            for x, y in batches:
                if optimizer_a is not None:
                    one(net, optimizer_a, x, y)
                if optimizer_b is not None:
                    one(net, optimizer_b, x, y)

        optimizer_a = torch.optim.SGD(net.parameters(), lr=0.1)
        optimizer_b = torch.optim.SGD(net.parameters(), lr=0.1)
        fit(net, [], optimizer_a=optimizer_a)
        fit(net, [], optimizer_b=optimizer_b)
        """
    )
    assert "\nfit(net, [], optimizer_a=optimizer_a, scaler=scaler)\n" in text
    assert "\nfit(net, [], optimizer_b=optimizer_b, scaler=scaler)\n" in text


TWO = f"""
{NET}
class Trainer:
    def __init__(self, net, optimizer, other_optimizer=None):
        self.net = net
        self.optimizer = optimizer
        self.other_optimizer = other_optimizer

    def fit(self, batches):
        for x, y in batches:
            self.optimizer.zero_grad()
            if self.other_optimizer is not None:
                self.other_optimizer.zero_grad()
            loss = F.cross_entropy(self.net(x), y)
            loss.backward()
CLIP
            self.optimizer.step()
            if self.other_optimizer is not None:
                self.other_optimizer.step()
"""


def test_an_optimizer_that_may_be_none_is_unscaled_where_it_is_there() -> None:
    clip = "            clip_grad_norm_(self.net.parameters(), 1.0)"
    text = _converted(TWO.replace("CLIP", clip))
    guarded = (
        "            if self.other_optimizer is not None:\n                self.scaler.unscale_(self.other_optimizer)\n"
    )
    assert guarded in text
    assert text.index(guarded) < text.index("clip_grad_norm_(self")


def test_clipping_that_is_given_an_optimizer_unscales_that_one() -> None:
    clip = """
            clip(self.optimizer)
            if self.other_optimizer is not None:
                clip(self.other_optimizer)
    """
    function = "\n\ndef clip(optimizer):\n    clip_grad_norm_(optimizer.param_groups[0]['params'], 1.0)\n"
    text = _converted(TWO.replace("CLIP", clip.strip("\n")) + function)
    assert "self.scaler.unscale_(self.optimizer)\n            clip(self.optimizer)\n" in text
    assert "self.scaler.unscale_(self.other_optimizer)\n                clip(self.other_optimizer)\n" in text


def test_a_scaler_stands_above_a_branch_that_makes_and_steps_an_optimizer() -> None:
    text = _converted(
        f"""
        {NET}
        def main(warm, batches):
            if warm:
                optimizer = torch.optim.Adam(net.parameters())
                for x, y in batches:
                    optimizer.zero_grad()
                    F.mse_loss(net(x), y).backward()
                    optimizer.step()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
        """
    )
    assert '    scaler = torch.amp.GradScaler("cuda")\n    if warm:\n' in text
    assert text.count("GradScaler") == 1


def test_a_scaler_that_no_checkpoint_restores_is_not_passed_to_what_saves() -> None:
    text = _converted(
        f"""
        {NET}
        def made(path):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            optimizer.load_state_dict(torch.load(path)["optimizer"])
            return optimizer

        def save(optimizer, path):
            torch.save({{"optimizer": optimizer.state_dict()}}, path)

        def main(path, batches):
            optimizer = made(path)
            for x, y in batches:
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
            save(optimizer, path)
        """
    )
    assert "def save(optimizer, path):" in text
    assert "    save(optimizer, path)" in text


def test_schedulers_that_step_together_share_a_condition() -> None:
    text = _converted(
        f"""
        {NET}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        warm = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        cold = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        for x, y in []:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
            warm.step()
            cold.step()
        """
    )
    assert "    if scaler.get_scale() >= scale_before:\n        warm.step()\n        cold.step()\n" in text


def test_models_that_a_constructor_takes_in_one_assignment_are_models(tmp_path: Path) -> None:
    script = """
    import torch
    import torch.nn.functional as F

    class Gan:
        def __init__(self, G, D):
            self.G, self.D = G, D

        def train_G(self, optimizer, y):
            out = self.D(self.G(y))
            loss = F.binary_cross_entropy_with_logits(out, y)
            loss.backward()
            optimizer.step()
            return loss

        def train_D(self, x, optimizer, y):
            out = self.D(x)
            loss = F.binary_cross_entropy_with_logits(out, y)
            loss.backward()
            optimizer.step()
            return loss
    """
    found = _project(tmp_path, train=script)
    assert "            out = self.D(self.G(y))\n            loss = F.binary" in found.text
    assert "            out = self.D(x)\n            loss = F.binary" in found.text


def test_an_attribute_of_distributions_shows_no_tensor() -> None:
    text = _converted(
        """
        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.mean, self.scale = nn.Linear(4, 2), nn.Linear(4, 2)

            def forward(self, x):
                return distributions.Independent(distributions.Normal(self.mean(x), F.softplus(self.scale(x))), 1)

        class Vae:
            def __init__(self):
                self.encoder = Encoder().cuda()
                self.optimizer = torch.optim.SGD(self.encoder.parameters(), lr=0.1)

            def fit(self, x):
                posterior = self.encoder(x)
                loss = -posterior.log_prob(x[:, :2]).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()

            def encode(self, x):
                with torch.no_grad():
                    return self.encoder(x).mean
        """
    )
    assert "self.encoder(x).float()" not in text


PENALTY = """
import torch

def penalty(**given):
    fake, out = given["fake"], given["fake_out"]
    grads = torch.autograd.grad(outputs=out, inputs=fake, grad_outputs=torch.ones_like(out), create_graph=True)[0]
    return (grads.norm(2, 1) - 1).pow(2).mean()
"""
CRITIC = """
import torch
from losses import penalty
from torch import nn

critic = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for real in []:
    optimizer.zero_grad()
    real_out = critic(real)
    fake = torch.rand_like(real).requires_grad_()
    fake_out = critic(fake)
    given = {"fake": fake, "fake_out": fake_out}
    loss = penalty(**given) - real_out.mean()
    loss.backward()
    optimizer.step()
"""


def test_an_output_that_a_loss_of_another_file_differentiates_stays_float32(tmp_path: Path) -> None:
    text = _project(tmp_path, train=CRITIC, losses=PENALTY).text
    assert "        real_out = critic(real).float()\n" in text
    assert "\n    fake_out = critic(fake)\n" in text


SIGMOID = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return torch.sigmoid(self.layer(x)).view(-1)
"""
PROBABILITIES = """
import torch
from net import Net
from torch import nn

net = Net().cuda()
bce = nn.BCELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in []:
    optimizer.zero_grad()
    out = net(x)
    loss = bce(out, y)
    loss.backward()
    optimizer.step()
"""


def test_what_a_cure_has_made_float32_is_not_cast(tmp_path: Path) -> None:
    found = _project(tmp_path, train=PROBABILITIES, net=SIGMOID)
    assert "torch.sigmoid(self.layer(x).float())" in found.others[0].after.decode()
    assert "        out = net(x)\n" in found.text


CURVATURE = """
import torch

class Curved(torch.optim.Optimizer):
    def __init__(self, net):
        super().__init__(net.parameters(), {})
        net.register_full_backward_hook(self.gather)

    def gather(self, module, given, taken):
        self.gathered = taken[0].pow(2).mean()

    def step(self, closure=None):
        for group in self.param_groups:
            for one in group["params"]:
                one.data -= one.grad / self.gathered
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_an_optimizer_that_gathers_gradients_in_backward_passes_gets_no_scaler(tmp_path: Path, dtype: str) -> None:
    text = PROBABILITIES.replace("from net import Net", "from net import Net\nfrom curved import Curved")
    text = text.replace("torch.optim.SGD(net.parameters(), lr=0.1)", "Curved(net)").replace("BCELoss", "MSELoss")
    for name, content in {"net": SIGMOID, "curved": CURVATURE, "train": text}.items():
        (tmp_path / f"{name}.py").write_text(content, encoding="utf-8")
    found = convert(text, Wish(to="amp", dtype=dtype), str(tmp_path / "train.py"))
    why = "curved.py:7 gathers gradients in backward passes, which carry the scale"
    assert [one.text for one in found.refused] == ([why] if dtype == "float16" else [])
