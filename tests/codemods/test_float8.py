"""`--to float8`: layers of known sizes multiply in float8, but the last and odd ones; what is unknown is refused."""

from __future__ import annotations

import functools

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import LOOP, losses

FLOAT8 = Wish(to="float8")
SCRIPT = """import torch
from torch import nn

WIDTH = 32


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, 2 * width))
        self.odd = nn.Linear(2 * width, 20)
        self.head = nn.Linear(20, 16)

    def forward(self, x):
        return self.head(self.odd(self.body(x)))


losses = []
model = Net(WIDTH).to("cpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(50):
    x = torch.randn(16, 16)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(x), x.flip(1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
CALL = """model = Net(WIDTH).to("cpu")
convert_to_float8_training(
    model,
    module_filter_fn=lambda layer, name: (
        name != "head" and layer.in_features % 16 == 0 and layer.out_features % 16 == 0
    ),
)
optimizer = """


def test_sizes_may_be_defaults_and_classes_be_named_as_types() -> None:
    typed = SCRIPT.replace(
        "losses = []", "def count(net: Net) -> int:\n    return len(net.state_dict())\n\n\nlosses = []"
    )
    text = typed.replace("def __init__(self, width)", "def __init__(self, width=WIDTH)").replace("Net(WIDTH)", "Net()")
    assert convert(typed, FLOAT8).done
    assert convert(text, FLOAT8).done


def test_layers_are_converted_before_the_optimizer_gets_them() -> None:
    conversion = convert(SCRIPT, FLOAT8)
    assert conversion.refused == ()
    assert CALL in conversion.text
    assert "import nn\nfrom torchao.float8 import convert_to_float8_training\n" in conversion.text
    assert [(one.row, one.text) for one in conversion.done] == [(20, "multiply in float8 (2 of 4 layers)")]
    assert "(AMP752)" in conversion.left[-1].text
    assert convert(conversion.text, FLOAT8).text == conversion.text


def test_and_before_the_model_is_wrapped() -> None:
    text = SCRIPT.replace("optimizer = ", "model = torch.compile(model)\noptimizer = ", 1)
    conversion = convert(text, FLOAT8)
    assert ")\nmodel = torch.compile(model)\noptimizer" in conversion.text
    assert not any("AMP752" in one.text for one in conversion.left)


@pytest.mark.parametrize(
    ("old", "new", "row", "why"),
    [
        ("Net(WIDTH)", "Net(ask())", 10, "a size of this layer is not known here"),
        ("WIDTH = 32", "WIDTH = 30", 19, "no layer of model but the last has sizes that are multiples of 16"),
        ("Net(WIDTH)", "build(WIDTH)", 19, "the layers of build are not in this file"),
        ("dtype=torch.bfloat16", "dtype=torch.float32", 20, "convert --to amp --dtype bfloat16 first"),
        ("self.odd = nn.Linear(2 * width, 20)", "self.odd = nn.Sequential(*layers(width))", 11, "is not written out"),
        (
            "AdamW(model.parameters()",
            "AdamW([*model.parameters(), *other.parameters()]",
            20,
            "several models are optimized",
        ),
        ("AdamW(model.parameters()", "AdamW(weights", 20, "no optimizer gets the parameters of a model"),
    ],
    ids=["size", "odd", "elsewhere", "float32", "hidden", "several", "none"],
)
def test_what_is_not_known_is_refused(old: str, new: str, row: int, why: str) -> None:
    text = SCRIPT.replace(old, new, 1)
    assert text != SCRIPT
    conversion = convert(text, FLOAT8)
    assert conversion.text == text
    assert [one.row for one in conversion.refused][:1] == [row]
    assert why in conversion.refused[0].text


@pytest.mark.parametrize(
    "text", ["import torch\n", LOOP.replace("loss.backward()", "pass"), convert(SCRIPT, FLOAT8).text]
)
def test_what_does_not_train_or_is_converted_stays(text: str) -> None:
    conversion = convert(text, FLOAT8)
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())


def test_the_result_trains_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    float8 = pytest.importorskip("torchao.float8")
    emulated = functools.partial(float8.convert_to_float8_training, config=float8.Float8LinearConfig(emulate=True))
    monkeypatch.setattr(float8, "convert_to_float8_training", emulated)
    before, after = losses(SCRIPT), losses(convert(SCRIPT, FLOAT8).text)
    assert before != after
    assert max(abs(a - b) / (1 + abs(b)) for a, b in zip(after, before, strict=True)) < 0.05
