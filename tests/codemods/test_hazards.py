"""What goes wrong in half is refused, computed in float32, or told by its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.hazards import HAZARDS, PLACES, fate, program

SILENT = {
    "sum of scalars": PLACES,
    "new parameter": PLACES,
    "mask of a tensor": PLACES,
    "units by a class": ("module", "forward"),
    "units of the data": ("forward",),
    "area of boxes": ("forward",),
    "exponential kept": ("forward",),
    "allclose": ("forward",),
    "baddbmm_": ("evaluation",),
}
"""What no conversion sees yet, and where."""


def _cells(name: str) -> list[tuple[str, str, bool]]:
    """Two of the places of a hazard, one in float16 and one in bfloat16; all of them together take minutes."""
    turn = list(HAZARDS).index(name)
    there = [
        (place, hidden)
        for place in PLACES
        for hidden in (False, True)
        if program(HAZARDS[name], place, hidden=hidden) is not None and place not in SILENT.get(name, ())
    ]
    dtypes = ("float16", "bfloat16")
    return [(*there[(turn + 5 * each) % len(there)], dtype) for each, dtype in enumerate(dtypes)] if there else []


CELLS = [(name, place, dtype, hidden) for name in HAZARDS for place, hidden, dtype in _cells(name)]


@pytest.mark.parametrize(("name", "place", "dtype", "hidden"), CELLS)
def test_nothing_goes_wrong_in_silence(name: str, place: str, dtype: str, hidden: bool) -> None:
    become = fate(HAZARDS[name], place, dtype, hidden=hidden)
    assert become in (("right",) if HAZARDS[name].safe else ("right", "told", "refused"))


LOOP = """import torch
import zoo

model = zoo.create("net").cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.ones(2, 4).cuda())]:
    optimizer.zero_grad()
    {forward}
    loss = {loss}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("forward", "loss", "becomes"),
    [
        ("out = model(x)", "torch.log(1 - torch.sigmoid(out)).mean()", "out = model(x).float()\n"),
        (
            "out, code = model(x)",
            "torch.log1p(-out.sigmoid()).mean() + code.mean()",
            "out, code = (output.float() for output in model(x))\n",
        ),
        ("out, code = model(x)", "torch.log(1 - out[:, 0].sigmoid()).mean()", "out, code = to_float32(model(x))\n"),
        ("out = model(x)", "torch.log(1 - torch.sigmoid(out['p'])).mean()", "out = to_float32(model(x))\n"),
        ("out = model(x)", "((out - y) ** 2).mean()", "out = model(x).float()\n"),
        ("out = model(x)", "torch.nn.functional.mse_loss(out, y)", "out = model(x)\n"),
    ],
    ids=["one", "two", "one of two", "no tensor", "a loss of one's own", "a loss of PyTorch"],
)
def test_outputs_become_float32_for_all_but_losses_of_pytorch(forward: str, loss: str, becomes: str) -> None:
    for dtype in ("float16", "bfloat16"):
        conversion = convert(LOOP.format(forward=forward, loss=loss), Wish(to="amp", dtype=dtype))
        assert conversion.refused == ()
        assert f"        {becomes}" in conversion.text
        assert ("def to_float32" in conversion.text) is ("to_float32" in becomes)


TWO = """from torch import nn


class Net(nn.Module):
    def __init__(self, classifies):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.classifies = classifies

    def forward(self, x):
        out = self.layer(x)
        code = self.layer(x) {condition}
        return out, code
"""


@pytest.mark.parametrize("condition", ["if self.classifies else None", "* 2"], ids=["perhaps None", "a tensor"])
def test_an_output_that_can_be_none_is_cast_where_it_is_a_tensor(tmp_path: Path, condition: str) -> None:
    (tmp_path / "nets.py").write_text(TWO.format(condition=condition), encoding="utf-8")
    lines = "torch.log1p(-out.sigmoid()).mean()\n    if code is not None:\n        print(code.sigmoid())"
    text = LOOP.format(forward="out, code = model(x)", loss=lines).replace(
        "import zoo", "import zoo\nfrom nets import Net"
    )
    path = tmp_path / "train.py"
    conversion = convert(text.replace('zoo.create("net")', "zoo.wrap(Net(True))"), Wish(to="amp"), str(path))
    assert conversion.refused == ()
    assert "        out, code = to_float32(model(x))\n" in conversion.text


COUNTS = """from torch import nn


class Net(nn.Module):
    def forward(self, x):
        losses, shares = list(), list()
        for part in x:
            losses.append(part.mean())
            shares.append((part > 0).float().mean().item())
        return sum(losses), {shares}
"""


@pytest.mark.parametrize("shares", ["shares", "torch.tensor(shares)"])
def test_a_list_in_a_tuple_of_a_model_is_no_tensor(tmp_path: Path, shares: str) -> None:
    (tmp_path / "nets.py").write_text("import torch\n" + COUNTS.format(shares=shares), encoding="utf-8")
    text = LOOP.format(forward="loss, shares = model(x)", loss="loss\n    total = np.array(shares)")
    text = text.replace("import zoo", "import numpy as np\nimport zoo\nfrom nets import Net")
    text = text.replace('zoo.create("net")', "zoo.wrap(Net())")
    conversion = convert(text, Wish(to="amp"), str(tmp_path / "train.py"))
    assert conversion.refused == ()
    assert "        loss, shares = to_float32(model(x))\n" in conversion.text
    assert "    total = np.array(shares)\n" in conversion.text
