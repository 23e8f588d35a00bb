"""Values that converted programs compute: whole numbers, arrays, neighbours, and what CPUs do not lift."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told

TRAIN = """import torch
from torch import nn
from torch.distributions import Bernoulli, Categorical, OneHotCategorical


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)
        {made}

    def forward(self, x):
        {body}


torch.manual_seed(0)
table = torch.arange(4.0).numpy()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.L1Loss()
for step in range(3):
    x = torch.randn(16, 8) * 3
    optimizer.zero_grad()
    {loss}
    loss.backward()
    optimizer.step()
    assert loss.isfinite()
"""


def _script(body: str, loss: str = "loss = criterion(model(x), torch.zeros(16, 1))", made: str = "pass") -> str:
    return TRAIN.format(body=body.replace("\n", "\n        "), loss=loss.replace("\n", "\n    "), made=made)


def _converted(text: str, dtype: str = "bfloat16", path: str = "", device: str = "cpu") -> Conversion:
    conversion = convert(text, Wish(to="amp", dtype=dtype, device=device), path)
    assert conversion.refused == ()
    assert "torch.autocast" in conversion.text
    return conversion


def _run(text: str) -> None:
    exec(compile(text, "converted", "exec"), {"__name__": "converted"})


LOOKS_UP = """dist, _ = model(x)
action = dist.{taken}
reward = torch.from_numpy(table[action.numpy()])
loss = -(dist.log_prob(action) * reward).mean()"""


@pytest.mark.parametrize("taken", ["sample()", "mode"])
@pytest.mark.parametrize("body", ["return {}, x", "dist = {}\nreturn dist, x"])
def test_classes_that_a_returned_distribution_draws_stay_whole(taken: str, body: str) -> None:
    text = _script(body.format("Categorical(torch.softmax(self.layer(x), dim=1))"), LOOKS_UP.format(taken=taken))
    conversion = _converted(text)
    assert "table[action.numpy()]" in conversion.text
    assert not any("NumPy" in one.text or "numpy" in one.text for one in told(conversion))
    _run(conversion.text)


@pytest.mark.parametrize("kind", ["Bernoulli", "OneHotCategorical"])
def test_floats_that_a_returned_distribution_draws_are_float32_for_numpy(kind: str) -> None:
    loss = LOOKS_UP.format(taken="sample()").replace("table[action.numpy()]", "action.numpy().mean(1)")
    body = f"return {kind}(torch.softmax(self.layer(x), dim=1)), x"
    loss = loss.replace("(dist.log_prob(action) * reward)", "(dist.log_prob(action).view(16, -1).sum(1) * reward)")
    conversion = _converted(_script(body, loss))
    assert "dist, _ = to_float32(model(x))" in conversion.text
    assert "action.numpy().mean(1)" in conversion.text
    _run(conversion.text)


BRAIN = """import torch
from torch import nn
from policy import Net


class Brain:
    def __init__(self, device):
        self.policy = Net().to(device)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-3)

    def act(self, x):
        with torch.no_grad():
            dist, value = self.policy(x)
            action = dist.sample()
        return action.cpu().numpy(), value.cpu().numpy()

    def train(self, loader):
        for x, action, target in loader:
            dist, value = self.policy(x)
            loss = nn.functional.mse_loss(value, target) - dist.log_prob(action).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def test_classes_that_a_policy_of_another_file_draws_stay_whole(tmp_path: Path) -> None:
    policy = _script("return Categorical(torch.softmax(self.layer(x), dim=1)), self.layer(x)")
    (tmp_path / "policy.py").write_text(policy.partition("\n\n\ntorch.manual_seed")[0] + "\n", encoding="utf-8")
    text = _converted(BRAIN, path=str(tmp_path / "brain.py")).text
    assert "dist, value = to_float32(self.policy(x))" in text
    assert "value.__dict__.update(to_float32(value.__dict__))" in text


FILLED = {
    "list": ("self.blocks = []", "self.blocks.append(block)", "for i in range(len(self.blocks)):", "self.blocks[i]"),
    "modules": (
        "self.blocks = nn.ModuleList()",
        "self.blocks.append(block)",
        "for i in range(len(self.blocks)):",
        "self.blocks[i]",
    ),
    "dictionary": (
        "self.blocks = nn.ModuleDict()",
        "self.blocks[str(i)] = block",
        "for i in range(2):",
        "self.blocks[str(i)]",
    ),
    "loop": ("self.blocks = []", "self.blocks.append(block)", "for block in self.blocks:", "block"),
}


@pytest.mark.parametrize("kind", FILLED)
def test_what_a_layer_of_a_container_gives_is_cast_for_numpy(kind: str) -> None:
    empty, fills, loop, layer = FILLED[kind]
    made = (
        f"{empty}\n        for i in range(2):\n            block = Block()\n            {fills}\n"
        "            self.add_module(f'block{i}', block)"
    )
    body = (
        f"self.kept = []\n{loop}\n    y = {layer}(x)\n    self.kept.append(y.detach().numpy())\n    x = x - y\nreturn x"
    )
    loss = "loss = criterion(model(x), torch.zeros(16, 8))"
    conversion = _converted(_script(body, loss, made))
    assert "y.detach().float().numpy()" in conversion.text
    _run(conversion.text)


NEIGHBOURS = """w = self.layer(x)
{}
return w[near].sum(1).mean(1, keepdim=True)"""
SCALED = """cos = torch.matmul(w, w.T)
cos = cos / torch.matmul(w.norm(dim=-1).view(-1, 1), w.norm(dim=-1).view(1, -1))
near = torch.topk(cos, 2, dim=-1)[1]"""
PLAIN = "near = torch.topk(torch.mm(w, w.transpose(0, 1)), 2)[1]"
METHOD = "cos = w @ w.t()\nnear = cos.topk(2).indices"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("choice", "number"), [(SCALED, 4), (PLAIN, 2), (METHOD, 2)], ids=["scaled", "plain", "method"]
)
def test_neighbours_by_products_of_vectors_with_each_other_are_found_in_float32(
    choice: str, number: int, dtype: str
) -> None:
    conversion = _converted(_script(NEIGHBOURS.format(choice)), dtype)
    assert "enabled=False" in conversion.text
    assert conversion.text.count(".float()") == number
    _run(conversion.text)


@pytest.mark.parametrize(
    "choice",
    [
        "near = torch.topk(torch.mm(w, self.layer(x).t()), 2)[1]",
        "cos = torch.mm(w, w.t())\ncos = torch.softmax(w, 1)\nnear = torch.topk(cos, 2)[1]",
        "cos = torch.mm(w, w.t())\nnear = torch.topk(w, 2)[1]",
    ],
    ids=["of others", "bound again", "another choice"],
)
def test_other_choices_are_left_alone(choice: str) -> None:
    conversion = _converted(_script(NEIGHBOURS.format(choice)))
    assert "enabled=False" not in conversion.text
    assert not any("nearest" in one.text for one in conversion.left)


PRIOR = """s = torch.sigmoid(self.layer(x)[:, :1] * 5) + 1e-5
s = {}
s = s.view(-1, 1)
return 1.0 / (2 * s)"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("power", "cast"),
    [
        ("torch.pow(3, s) - 1", "torch.pow(3, s.float()) - 1"),
        ("torch.exp(s) - 1.0", "torch.exp(s.float()) - 1.0"),
        ("3**s - 1", "3**s.float() - 1"),
    ],
)
def test_divisors_that_are_left_of_a_power_are_float32_on_cpus(power: str, cast: str, dtype: str) -> None:
    conversion = _converted(_script(PRIOR.format(power)), dtype)
    assert f"s = {cast}\n" in conversion.text
    _run(conversion.text)
    assert cast not in _converted(_script(PRIOR.format(power)), dtype, device="cuda").text


def test_a_power_that_nothing_is_divided_by_is_left_alone() -> None:
    assert ".float()" not in _converted(_script(PRIOR.format("torch.pow(3, s) - 1").replace("1.0 /", "1.0 *"))).text


@pytest.mark.parametrize(
    ("made", "dtype", "device", "named"),
    [
        ("nn.LSTM(8, 4)", "float16", "cpu", True),
        ("nn.LSTM(8, 4)", "bfloat16", "cpu", False),
        ("nn.LSTM(8, 4)", "float16", "cuda", False),
        ("nn.LSTM(8, 4, proj_size=2)", "float16", "cpu", False),
        ("nn.GRU(8, 4)", "float16", "cpu", False),
    ],
)
def test_recurrent_layers_without_kernels_for_cpus_are_named(made: str, dtype: str, device: str, named: bool) -> None:
    body = "return self.cells(x)[0].mean(1, keepdim=True)"
    conversion = _converted(_script(body, made=f"self.cells = {made}"), dtype, device=device)
    assert [one.row for one in conversion.left if "LSTM" in one.text] == [19] * named
