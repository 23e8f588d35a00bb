"""What a reviewer would otherwise edit: needless casts and remarks, regions in the wrong place, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.running import told

EPOCHS = """import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net.cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def run(self, loader, model, optimizer):
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    def train(self, loader, held):
        self.run(loader, self.net, self.optimizer)
        with torch.no_grad():
            self.run(held, self.net, None)
"""


def _converted(text: str, dtype: str = "float16", path: str = "") -> Conversion:
    conversion = convert(text, Wish(to="amp", dtype=dtype), path)
    assert conversion.refused == ()
    assert convert(conversion.text, Wish(to="amp", dtype=dtype), path).text == conversion.text
    return conversion


def test_where_no_optimizer_is_passed_there_is_no_scaler() -> None:
    text = _converted(EPOCHS).text
    assert "self.run(loader, self.net, self.optimizer, self.scaler)" in text
    assert "self.run(held, self.net, None, None)" in text


LOOP = """import torch
from torch import nn
{imports}
{above}
model, head = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
{body}
    loss.backward()
{between}    optimizer.step()
{after}"""


def _loop(
    body: str = "loss = nn.functional.mse_loss(head(model(x)), y)",
    imports: str = "",
    above: str = "",
    between: str = "",
    after: str = "",
) -> str:
    return LOOP.format(body=f"    {body}", imports=imports, above=above, between=between, after=after)


def test_gradients_of_what_a_model_holds_are_unscaled() -> None:
    clips = "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    head.scale.grad *= 0.1\n"
    lines = _converted(_loop(between=clips)).text.splitlines()
    assert [line.strip() for line in lines if "unscale_" in line or "scale.grad" in line] == [
        "scaler.unscale_(optimizer)",
        "head.scale.grad *= 0.1",
    ]


EVALUATED = """import torch
from torch import nn


def train(model, optimizer, loader):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()


def test(model, loader):
    for x, y in loader:
        print(nn.functional.mse_loss(model(x), y))


def show(path, loader):
    model = nn.Linear(4, 4).cuda()
    model.load_state_dict(torch.load(path))
    model.eval()
    test(model, loader)


def main(loader):
    model = nn.Linear(4, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train(model, optimizer, loader)
    test(model, loader)
"""


def test_evaluation_that_no_region_of_training_covers_has_its_own() -> None:
    text = _converted(EVALUATED).text
    region = 'with torch.autocast(device_type="cuda", dtype=torch.float16):\n'
    assert f"        {region}            print(nn.functional.mse_loss(model(x), y))" in text
    assert f"    {region}        test(model, loader)" not in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_loss_behind_a_block_without_gradients_shares_its_region(dtype: str) -> None:
    after = """with torch.no_grad():
    model.eval()
    out = model(x)
print(nn.functional.mse_loss(out, y))
"""
    lines = _converted(_loop(after=after), dtype).text.splitlines()
    row = lines.index("    with torch.no_grad():")
    assert lines[row - 1].startswith("with torch.autocast(")
    assert lines[row + 3] == "    print(nn.functional.mse_loss(out, y))"


TRAINER = """class Trainer:
    def __init__(self, model, criterion, optimizer):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer

    def run(self, x, y):
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
"""
SCRIPT = """import torch
from torch import nn
from trainer import Trainer
import losses

model = nn.Linear(4, 4).cuda()
criterion = {loss}
Trainer(model, criterion, torch.optim.SGD(model.parameters(), lr=0.1)).run(torch.ones(2, 4).cuda(), torch.ones(2, 4))
"""


@pytest.mark.parametrize("loss", ["nn.MSELoss()", "losses.OwnLoss()"])
def test_a_loss_that_an_importer_gives_gets_float32(tmp_path: Path, loss: str) -> None:
    (tmp_path / "main.py").write_text(SCRIPT.format(loss=loss), encoding="utf-8")
    (tmp_path / "losses.py").write_text("class OwnLoss:\n    pass\n", encoding="utf-8")
    (tmp_path / "trainer.py").write_text(TRAINER, encoding="utf-8")
    conversion = _converted(TRAINER, path=str(tmp_path / "trainer.py"))
    assert (
        "            output = to_float32(self.model(x))\n        loss = self.criterion(output, y)\n" in conversion.text
    )
    assert conversion.left == ()


MODELS = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.loss = nn.BCELoss()

    def forward(self, x):
        return torch.sigmoid(self.layer(x))


class Other(Net):
    pass
"""
CHOSEN = """import sys
import torch
from models import Net, Other

if len(sys.argv) > 1:
    model = Net()
else:
    model = Other()
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    pred = model.forward(x)
    loss = model.loss(pred, y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_binary_cross_entropy_that_a_model_holds_is_float32(tmp_path: Path, dtype: str) -> None:
    (tmp_path / "models.py").write_text(MODELS, encoding="utf-8")
    conversion = _converted(CHOSEN, dtype, str(tmp_path / "train.py"))
    assert "        pred = model.forward(x).float()\n    loss = model.loss(pred, y)\n" in conversion.text
    assert "torch.sigmoid(self.layer(x).float())" in conversion.others[0].after.decode()
    assert conversion.left == ()


COUNTED = """import numpy as np


def read(path):
    return path


def counted(out, y):
    return (out.argmax(1) == y).sum().item()


def interval(values):
    return np.mean(np.array(values))
"""


def test_arrays_and_what_other_files_read_are_not_half(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(COUNTED, encoding="utf-8")
    text = _loop(
        "data = tools.read(x)\n    rows = np.array(data['rows'])\n    loss = nn.functional.mse_loss(head(model(x)), y)",
        imports="import numpy as np\nimport tools",
        after="""record = np.zeros((1, 2))
with torch.no_grad():
    out = model(x)
record[0, 1] = tools.counted(out, y)
print(tools.interval(record[:, 1]))
""",
    )
    assert _converted(text, "bfloat16", str(tmp_path / "train.py")).left == ()


BATCHES = """import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid())

    def forward(self, x):
        return self.layer(x)

    def run_on_batch(self, x, y):
        pred = self(x)
        return pred, {"loss": F.binary_cross_entropy(pred, y)}
"""
RESUMED = """import sys
import torch
from models import Net

if len(sys.argv) > 1:
    model = torch.load(sys.argv[1])
else:
    model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    pred, losses = model.run_on_batch(x, y)
    loss = sum(losses.values())
    loss.backward()
    optimizer.step()
"""


def test_methods_of_a_model_that_may_be_another_are_judged(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text(BATCHES, encoding="utf-8")
    remarks = told(_converted(RESUMED, path=str(tmp_path / "train.py")))
    assert any(remark.text.startswith("models.py:16: binary cross-entropy") for remark in remarks)


SEVERAL_OUTPUTS = """import torch
from torch import nn


class Loss(nn.CrossEntropyLoss):
    def forward(self, *inputs):
        predictions, target = tuple(inputs)
        inputs = tuple(list(predictions) + [target])
        first, second, target = tuple(inputs)
        return super(Loss, self).forward(first, target) + super(Loss, self).forward(second, target)


class Trainer:
    def __init__(self, net):
        self.net = net.cuda()
        self.criterion = Loss().cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def train(self, loader):
        for x, y in loader:
            outputs = self.net(x.cuda())
            loss = self.criterion(outputs, y.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


def test_outputs_that_are_joined_to_a_list_are_no_tensor() -> None:
    assert "outputs = to_float32(self.net(x.cuda()))\n" in _converted(SEVERAL_OUTPUTS, "bfloat16").text
