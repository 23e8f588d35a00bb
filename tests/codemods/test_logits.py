"""Binary cross-entropy of what a model's sigmoid gives becomes that of logits, and the rest keeps its probabilities."""

from __future__ import annotations

import contextlib
import io

import pytest

from amplint.codemods import Wish, convert, from_logits
from amplint.findings import Applicability
from amplint.fixes.apply import apply_round

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
"""
LOOP = """
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
criterion = nn.BCELoss()
result = []
for _ in range(4):
    x = torch.randn(16, 4)
    y = (x.sum(1) > 0).float()
    optimizer.zero_grad()
    out = model(x).squeeze(1)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    hits = (out > 0.5).eq(y > 0.5).sum()
    result += [loss.item(), out.mean().item(), hits.item() / 100]
model.eval()
with torch.no_grad():
    result.append(model(torch.ones(2, 4)).sum().item())
"""
LAST = HEAD + LOOP.format(model="nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())")
NET = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 8)
        self.out = nn.Linear(8, 1)
        {module}

    def forward(self, x):
        x = self.hidden(x)
        x = self.out(F.relu(x))
        {end}
"""
RETURNED = HEAD + NET.format(module="self.name = 'net'", end="return torch.sigmoid(x)") + LOOP.format(model="Net()")
MODULE = (
    HEAD
    + NET.format(module="self.squash = nn.Sigmoid()", end="x = self.squash(x)\n        return x")
    + LOOP.format(model="Net()")
)
INNER = (
    HEAD
    + NET.replace("self.out = nn.Linear(8, 1)", "self.out = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())").format(
        module="self.name = 'net'", end="return x.view(-1, 1)"
    )
    + LOOP.format(model="nn.DataParallel(Net())")
)
TUPLE = (
    HEAD
    + """

class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(4, 2), nn.Linear(2, 4)

    def decode(self, z):
        return torch.sigmoid(self.dec(z))

    def forward(self, x):
        z = self.enc(x)
        return self.decode(z), z


def loss_function(recon, x, z):
    return F.binary_cross_entropy(recon, x, reduction="sum") + z.pow(2).sum()


def main():
    model = Auto()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    result = []
    for _ in range(4):
        x = torch.rand(8, 4)
        optimizer.zero_grad()
        recon, z = model(x)
        loss = loss_function(recon, x, z)
        loss.backward()
        optimizer.step()
        result += [loss.item(), recon.view(2, 16).max().item()]
    with torch.no_grad():
        sample = model.decode(torch.ones(1, 2))
        result.append(sample.sum().item())
    return result


if __name__ == "__main__":
    result = main()
"""
)


def run(text: str) -> list[float]:
    """What a program leaves in `result`."""
    names: dict[str, object] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(text, names)
    result = names["result"]
    assert isinstance(result, list)
    return result


EXPECTED = ("nothing here moves to CUDA", "with several GPUs this computes in float16")


@pytest.mark.parametrize(
    "text", [LAST, RETURNED, MODULE, INNER, TUPLE], ids=["last", "returned", "module", "inner", "tuple"]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_model_returns_logits(text: str, dtype: str) -> None:
    conversion = convert(text, Wish(to="amp", dtype=dtype))
    assert conversion.refused == ()
    assert [remark.text for remark in conversion.left if not remark.text.startswith(EXPECTED)] == []
    assert "Sigmoid(" not in conversion.text
    assert "BCELoss" not in conversion.text
    assert convert(conversion.text, Wish(to="amp", dtype=dtype)).text == conversion.text
    compile(conversion.text, "program", "exec")
    on_cpu = conversion.text.replace('"cuda"', '"cpu"').replace(
        'GradScaler("cpu")', 'GradScaler("cpu", init_scale=8.0)'
    )
    tolerance = 0.02 if dtype == "float16" else 0.1
    assert run(on_cpu) == pytest.approx(run(text), rel=tolerance, abs=tolerance)


def test_everything_else_gets_probabilities() -> None:
    text = convert(LAST, Wish(to="amp")).text
    assert "criterion(out, y)" in text
    assert "(torch.sigmoid(out.float()) > 0.5).eq(y > 0.5)" in text
    assert (
        "torch.sigmoid(out.float()).data" in convert(LAST.replace("out > 0.5", "out.data > 0.5"), Wish(to="amp")).text
    )
    assert "torch.sigmoid(out.float()).mean().item()" in text
    assert "torch.sigmoid(model(torch.ones(2, 4)).float()).sum()" in text


def test_another_class_may_have_an_attribute_of_that_name() -> None:
    other = """

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        return self.out(x)

"""
    conversion = convert(INNER.replace("\nmodel = ", f"{other}\nmodel = "), Wish(to="amp"))
    assert conversion.refused == ()
    assert "BCEWithLogitsLoss" in conversion.text


def test_a_loss_that_nothing_calls_stays() -> None:
    text = LAST.replace("model.eval()", "unused = nn.BCELoss()\nmodel.eval()")
    assert "unused = nn.BCELoss()\n" in convert(text, Wish(to="amp")).text


def test_others_are_thought_of() -> None:
    text = TUPLE.replace('if __name__ == "__main__":\n    result = main()\n', "")
    conversion = convert(text, Wish(to="amp"))
    left = "{}() returns logits now; what other files do with them has to apply torch.sigmoid()"
    told = {remark.text for remark in conversion.left if not remark.text.startswith(EXPECTED)}
    assert told == {left.format("Auto.decode"), left.format("Auto.forward")}


@pytest.mark.parametrize(
    "text",
    [
        INNER.replace("model.eval()", "print(model.module.out(x))\nmodel.eval()"),
        RETURNED.replace("model.eval()", "print(model.forward(x))\nmodel.eval()"),
        LAST.replace("hits = ", "out.retain_grad()\n    hits = "),
        LAST.replace("model.eval()", "from somewhere import evaluate\nevaluate(model)\nmodel.eval()"),
        LAST.replace("model.eval()", "models = [model]\nmodel.eval()"),
        LAST.replace("loss = criterion(out, y)", "loss = criterion(out, y) + criterion(x.abs().clamp(max=1)[:, 0], y)"),
        LAST.replace("hits = ", "out.clamp_(0.1, 0.9)\n    hits = "),
        RETURNED.replace("model.eval()", "class Other(Net):\n    pass\n\n\nmodel.eval()"),
        RETURNED.replace(
            "return torch.sigmoid(x)", "if x.sum() > 1e9:\n            return x\n        return torch.sigmoid(x)"
        ),
        LAST.replace("nn.Sigmoid()", "nn.Softplus()").replace(
            "out = model(x).squeeze(1)", "out = model(x).squeeze(1).clamp(0, 1)"
        ),
    ],
    ids=[
        "attribute",
        "forward",
        "hook",
        "out of sight",
        "list",
        "another loss",
        "in place",
        "subclass",
        "not always",
        "no sigmoid",
    ],
)
def test_where_logits_are_not_certain_the_loss_is_computed_in_float32(text: str) -> None:
    conversion = convert(text, Wish(to="amp"))
    assert conversion.refused == ()
    assert "binary_cross_entropy_with_logits" not in conversion.text
    assert "BCEWithLogitsLoss" not in conversion.text
    float32 = ".float()" * ("Softplus" not in text)
    assert f"        out = model(x){float32}.squeeze(1)" in conversion.text
    assert "\n    loss = criterion(out, y)" in conversion.text
    assert convert(conversion.text, Wish(to="amp")).text == conversion.text


# The same as the repair of a finding

IN_REGION = "    with torch.autocast('cuda', enabled=torch.cuda.is_available()):\n        loss = criterion(out, y)\n"
"""Off without a GPU, so that probabilities can be compared."""


def in_region(text: str) -> str:
    """The program with its loss in an autocast region."""
    return text.replace("    loss = criterion(out, y)\n", IN_REGION).replace(
        "        loss = loss_function(recon, x, z)\n",
        "        with torch.autocast('cuda', enabled=torch.cuda.is_available()):\n"
        "            loss = loss_function(recon, x, z)\n",
    )


@pytest.mark.parametrize(
    "text", [LAST, RETURNED, MODULE, INNER, TUPLE], ids=["last", "returned", "module", "inner", "tuple"]
)
def test_a_script_is_repaired_safely_and_trains_as_before(text: str) -> None:
    mixed = in_region(text)
    assert mixed != text
    fix = from_logits(mixed)
    assert fix is not None
    assert fix.applicability is Applicability.SAFE
    repaired, _ = apply_round(mixed, [fix])
    assert from_logits(repaired) is None
    assert run(repaired) == pytest.approx(run(mixed), rel=1e-4, abs=1e-5)


def test_a_module_that_others_import_is_repaired_unsafely() -> None:
    text = in_region(TUPLE).replace('if __name__ == "__main__":\n    result = main()\n', "")
    fix = from_logits(text)
    assert fix is not None
    assert fix.applicability is Applicability.UNSAFE


def test_what_goes_out_of_sight_is_not_repaired() -> None:
    assert from_logits(in_region(LAST).replace("hits = ", "out.retain_grad()\n    hits = ")) is None
