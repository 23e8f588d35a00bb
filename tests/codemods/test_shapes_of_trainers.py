"""Shapes of trainers of strangers: what their regions reach in other files, and steps that no scaler may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from amplint.training.halves import halves_of

TRAIN = """import torch
from torch import nn
{imports}
net = {net}.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
{after}"""
SPARSE = "a sparse tensor"


def _converted(folder: Path, text: str, dtype: str = "float16", **files: str) -> Conversion:
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    conversion = convert(text, Wish(to="amp", dtype=dtype), str(folder / "train.py"))
    assert conversion.refused == ()
    return conversion


def _others(conversion: Conversion) -> str:
    return "".join(one.after.decode() for one in conversion.others)


def _script(loss: str, imports: str = "", net: str = "nn.Linear(4, 4)", after: str = "") -> str:
    return TRAIN.format(loss=loss, imports=imports, net=net, after=after)


SEARCH = """import torch
from torch import nn

net = nn.Linear(4, 4).cuda()
weights = torch.optim.SGD(net.parameters(), lr=0.1)
alphas = torch.optim.Adam(net.alphas(), lr=0.1)
for x, y in loader:
    alphas.zero_grad()
    {gradients}
    alphas.step()
    weights.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    weights.step()
"""


@pytest.mark.parametrize(
    ("gradients", "scaled"),
    [("architect.differentiate(x, y)", False), ("nn.functional.mse_loss(net(y), x).backward()", True)],
    ids=["out of sight", "here"],
)
def test_a_step_on_gradients_made_out_of_sight_is_no_step_of_a_scaler(
    tmp_path: Path, gradients: str, scaled: bool
) -> None:
    text = _converted(tmp_path, SEARCH.format(gradients=gradients)).text
    assert ("scaler.step(alphas)" in text, "alphas.step()" in text) == (scaled, not scaled)
    assert "scaler.step(weights)" in text


def test_a_loss_that_a_model_holds_casts_no_model(tmp_path: Path) -> None:
    text = _script("net.criterion(net(x), y)", net="models.Net(criterion)", imports="import models\n")
    assert "net.float()" not in _converted(tmp_path, text, models="").text


MODEL = """import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, many=False):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        {made}

    def forward(self, x, y):
        {body}
"""
CHOICE = "self.loss = nn.BCELoss() if many else nn.CrossEntropyLoss()"


def test_classes_stay_whole_numbers_where_a_loss_may_be_cross_entropy(tmp_path: Path) -> None:
    made = (
        "if many:\n            self.loss = nn.BCELoss()\n        else:\n            self.loss = nn.CrossEntropyLoss()"
    )
    made += "\n        self.act = nn.Sigmoid()"
    body = "out = self.layer(x)\n        loss = self.loss(self.act(out), y)\n        return loss"
    text = _script("net(x, y)", net="Net(many)", imports="from models import Net\n")
    after = _others(_converted(tmp_path, text, models=MODEL.format(made=made, body=body)))
    assert (
        'with torch.autocast("cuda", enabled=False):\n            loss = self.loss(self.act(out.float()), y)' in after
    )


@pytest.mark.parametrize("draw", ["chosen.sample()", "chosen.sample() if greedy else out.max(1)[1]"])
def test_drawn_classes_are_not_cast_for_numpy(tmp_path: Path, draw: str) -> None:
    after = f"""    with torch.no_grad():
        out = net(x)
        chosen = torch.distributions.Categorical(out.softmax(1))
        if greedy:
            _, ids = out.max(1)
        else:
            ids = {draw}
        taken = torch.stack([ids])
    words = [names[one] for one in taken[0].cpu().numpy()]
"""
    conversion = _converted(tmp_path, _script("net(x).mean()", after=after), "bfloat16")
    assert "taken[0].cpu().numpy()" in conversion.text
    assert not any("NumPy" in one.text for one in conversion.left)


TOOLS = """import numpy as np
import torch


def classes(scores):
    scores = scores.permute(1, 0)
    best = torch.argmax(scores, dim=-1)
    return best


def parse(results):
    centers = results["center"].detach().cpu().numpy()
    scores = results["scores"].detach().cpu().numpy()
    return centers, scores
"""


def test_what_functions_of_other_files_return_tells_whether_it_is_half(tmp_path: Path) -> None:
    after = "    with torch.no_grad():\n        out = net(x)\n    best = np.array(classes(out))\n"
    text = _script("net(x).mean()", imports="import numpy as np\nfrom tools import classes\n", after=after)
    assert not any("NumPy" in one.text for one in _converted(tmp_path, text, "bfloat16", tools=TOOLS).left)


def test_a_dictionary_of_outputs_is_float32_for_arrays_in_another_file(tmp_path: Path) -> None:
    after = "    with torch.no_grad():\n        results = net(x)\n    parse(results)\n"
    text = _script("sum(net(x).values())", net="build()", imports="from tools import build, parse\n", after=after)
    conversion = _converted(tmp_path, text, "bfloat16", tools=TOOLS)
    assert (conversion.others, conversion.left) == ((), ())
    assert "        results = to_float32(net(x))\n    parse(results)\n" in conversion.text


def test_labels_in_a_dictionary_of_results_are_not_half() -> None:
    text = 'with torch.autocast("cuda"):\n    found = net(x)\nfound["box_label"].numpy()\nfound["box"].numpy()\n'
    assert [span.start.row for span in halves_of(text, "").to_arrays()] == [4]


KERNEL = """import torch
from torch.autograd import Function
import extension


class Grouping(Function):
    @staticmethod
    def forward(ctx, features, idx):
        ctx.idx = idx
        return extension.group(features, idx)

    @staticmethod
    def backward(ctx, grad):
        return extension.group_grad(grad, ctx.idx), None


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        return Grouping.apply(self.layer(x), x.long())
"""


def test_kernels_of_a_model_that_an_option_names_get_float32(tmp_path: Path) -> None:
    imports = (
        "import argparse\nimport importlib\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("--model", default="grouping")\nargs = parser.parse_args()\n'
        "module = importlib.import_module(args.model)\n"
    )
    conversion = _converted(tmp_path, _script("net(x).mean()", imports, "module.Net()"), grouping=KERNEL)
    after = _others(conversion)
    assert '@torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)\n    def forward(ctx' in after
    assert '@torch.amp.custom_bwd(device_type="cuda")\n    def backward(ctx' in after
    assert not any("kernel" in one.text for one in conversion.left)


def test_sigmoids_of_models_that_a_name_chooses_are_computed_in_float32(tmp_path: Path) -> None:
    package = tmp_path / "models"
    package.mkdir()
    (package / "__init__.py").write_text("from .net import Net\n", encoding="utf-8")
    body = """found = []
        for one in x:
            found.append(torch.sigmoid(self.layer(one)))
        return torch.cat(found)"""
    content = MODEL.format(made="pass", body=body).replace("(self, x, y)", "(self, x)")
    (package / "net.py").write_text(content, encoding="utf-8")
    loss = "nn.BCELoss()(net(x), y)"
    conversion = _converted(
        tmp_path, _script(loss, "import sys\nimport models\nname = sys.argv[1]\n", "getattr(models, name)()")
    )
    assert "torch.sigmoid(self.layer(one).float())" in _others(conversion)
    assert not any("sigmoid" in one.text for one in conversion.left)


UNUSED = "\n\ndef dense(x):\n    return torch.sparse.FloatTensor(x)\n"


def test_sparse_tensors_of_a_function_that_nothing_calls_refuse_nothing(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, _script("net(x).mean()", after=UNUSED))
    assert not any(SPARSE in one.text for one in conversion.left)


def test_sparse_products_of_the_file_itself_are_computed_in_float32(tmp_path: Path) -> None:
    model = MODEL.format(made="pass", body="return torch.spmm(y, self.layer(x))").partition("\n\n\n")[2]
    text = _script("net(x, y.to_sparse()).mean()", imports=f"\n\n{model}\n", net="Net()")
    conversion = _converted(tmp_path, text)
    island = (
        'with torch.autocast("cuda", enabled=False):\n            return torch.spmm(y.float(), self.layer(x).float())'
    )
    assert SPARSE in str(conversion.left) or island in conversion.text


def test_a_product_that_leaves_the_loss_in_half_is_computed_in_float32(tmp_path: Path) -> None:
    losses = (
        "import torch\n\n\ndef ratio(net, x, y):\n    out = net(x)\n    return 0 - torch.einsum('ij,ij->', [out, y])\n"
    )
    text = _script("ratio(net, x, y)", imports="from losses import ratio\n")
    conversion = _converted(tmp_path, text, losses=losses)
    assert "[out.float(), y.float()]" in _others(conversion)
    assert not any("product" in one.text for one in conversion.left)


BODY = """weights = self.layer(x)
        moved = torch.matmul(y, weights).view(-1, 4, 4)
        points = torch.matmul(moved, x.unsqueeze(-1))
        return torch.matmul(points[:, :, 0], y)"""


@pytest.mark.parametrize(("first", "number"), [("x", 3), ("self.layer(x)", 1)], ids=["geometry", "a network"])
def test_all_products_of_a_geometry_are_computed_in_float32(tmp_path: Path, first: str, number: int) -> None:
    body = BODY.replace("self.layer(x)", first)
    text = _script("net(x, y).mean()", imports="from models import Net\n", net="Net()")
    after = _others(_converted(tmp_path, text, models=MODEL.format(made="pass", body=body)))
    assert (
        after.count("enabled=False") + after.count("\n            moved") + after.count("\n            points")
        >= number
    )


EXITS = """import sys
import torch
from torch import nn


def evaluate(loader, net):
    with torch.no_grad():
        return sum(net(x).sum().item() for x, _ in loader)


def main(args):
    names = None
    net = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    if args.evaluate:
        names = names or find()
        print(evaluate(load(names), net))
        sys.exit(0)
    loader = load(names)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
"""


def test_a_branch_that_ends_the_script_is_in_no_region(tmp_path: Path) -> None:
    text = _converted(tmp_path, EXITS).text
    assert "\n    if args.evaluate:\n" in text
    assert "\n    loader = load(names)\n" in text


ACTS = """import random
import torch
from torch import nn

net = nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
memory = []
for states in world:
    with torch.no_grad():
        values = net(states)
    if random.random() < 0.1:
        index = random.randint(0, 3)
    else:
        index = torch.argmax(values).item()
    state = states[index]
    reward, done = world.act(index)
    memory.append([state, reward])
    if done:
        world.reset()
    sampled = random.sample(memory, 4)
    rewards = torch.tensor([one[1] for one in sampled]).cuda()
    states = torch.stack([one[0] for one in sampled])
    out = net(states)
    loss = nn.functional.mse_loss(out, rewards)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_a_number_chooses_is_not_between_acting_and_loss(tmp_path: Path) -> None:
    text = _converted(tmp_path, ACTS).text
    assert "\n    reward, done = world.act(index)\n" in text
    assert text.count("torch.autocast") == 2


HANDS_ON = """import torch
from torch import nn


def run(train, loader, net, optimizer=None):
    for x, y in loader:
        loss = nn.functional.mse_loss(net(x), y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def train_epoch(loader, net, optimizer):
    return run(True, loader, net, optimizer)


def check_epoch(loader, net):
    return run(False, loader, net)
"""


def test_a_function_that_hands_an_optimizer_to_a_loop_takes_a_scaler(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, HANDS_ON)
    assert "def train_epoch(loader, net, optimizer, scaler=None):\n    if scaler is None:\n" in conversion.text
    assert "return run(True, loader, net, optimizer, scaler)" in conversion.text
    assert any(one.text.startswith("each call makes a scaler") for one in conversion.left)


ALONE = """import torch
from torch import nn

net = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    prior = -sum(one.log_prob for one in choices)
    prior.backward()
    optimizer.step()
"""


def test_a_loss_without_a_model_is_left_in_float32_and_named(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, ALONE)
    assert "scaler.scale(prior).backward()" in conversion.text
    why = "no forward pass of a model was found that this loss comes from; what computes it stays float32"
    assert [why] == [one.text for one in conversion.left if one.text.startswith("no forward pass")]


def test_a_model_made_of_what_its_name_stood_for_is_made_outside_of_regions(tmp_path: Path) -> None:
    text = _script("net(x).mean()", net="choose(name)").replace(
        "optimizer =", "net = net(\n    4, depth=2\n)\noptimizer ="
    )
    assert "\nnet = net(\n" in _converted(tmp_path, text).text


PENALTY = """import torch


def train(net, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = net(x)[0].mean()
        loss.backward()
        y = torch.autograd.Variable(0.5 * y + 0.5 * net(x)[0].data, requires_grad=True)
        scores, _ = net(y)
        gradients = torch.autograd.grad(outputs=scores.sum(), inputs=y, create_graph=True)[0]
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        penalty.backward()
        optimizer.step()
"""


def test_the_forward_pass_of_a_penalty_on_a_sum_is_computed_in_float32(tmp_path: Path) -> None:
    conversion = _converted(tmp_path, PENALTY)
    assert "\n        scores, _ = net(y)\n" in conversion.text
    assert "0.5 * to_float32(net(x))[0].data, requires_grad=True)" in conversion.text
    assert not any("in float32" in one.text for one in conversion.left)


def test_a_loss_in_a_variable_is_computed_in_float32(tmp_path: Path) -> None:
    body = "loss = nn.BCELoss(reduction='sum')\n        out = self.layer(x)\n        return loss(out[:, :2], y[:, :2])"
    text = _script("net(x, y)", net="Net()", imports="from models import Net\n")
    after = _others(_converted(tmp_path, text, models=MODEL.format(made="pass", body=body)))
    assert (
        'with torch.autocast("cuda", enabled=False):\n            return loss(out[:, :2].float(), y[:, :2].float())'
        in after
    )
