"""Which statements go into autocast regions."""

from __future__ import annotations

import textwrap

import pytest

from amplint.codemods import Wish, convert
from tests.codemods.running import converted


def test_a_forward_pass_without_a_loss_follows_what_it_takes() -> None:
    text = """import torch
from torch import nn

generator, critic = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam(generator.parameters())
for z in [torch.ones(2, 4).cuda()]:
    optimizer.zero_grad()
    images = generator(z)
    loss = critic(images).mean()
    loss.backward()
    optimizer.step()
    print("stepped")
    score = critic(images.detach())
    print(score.mean().item())
"""
    conversion = convert(text, Wish(to="amp"))
    assert (conversion.refused, conversion.left) == ((), ())
    assert (
        '    with torch.autocast(device_type="cuda", dtype=torch.float16):\n        score = critic(' in conversion.text
    )


CONSTRUCTION = """import torch
from torch import nn

checkpoint = None


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def fine_tune(self, on=True):
        for p in self.layer.parameters():
            p.requires_grad = on

    def scores(self, x):
        return self.layer(x)

    forward = scores


if checkpoint is None:
    decoder = Decoder()
    decoder.fine_tune(True)
    optimizer = torch.optim.Adam(decoder.parameters())
else:
    checkpoint = torch.load(checkpoint)
    decoder = checkpoint["decoder"]
    optimizer = checkpoint["optimizer"]
decoder = decoder.to("cpu")
for x in [torch.ones(2, 4)]:
    optimizer.zero_grad()
    loss = decoder.scores(x).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_method_is_a_forward_pass_only_if_it_computes(dtype: str) -> None:
    text = converted(CONSTRUCTION, Wish(to="amp", device="cpu", dtype=dtype))
    assert text.count("autocast(") == 1
    assert f"dtype=torch.{dtype}):\n        loss = decoder.scores(x).float().mean()\n" in text
    exec(text, {})


def test_the_method_of_a_model_of_another_file_is_one_if_its_result_is_used() -> None:
    text = CONSTRUCTION.replace(CONSTRUCTION[CONSTRUCTION.index("class") : CONSTRUCTION.index("if checkpoint")], "")
    text = text.replace("from torch import nn\n", "from models import Decoder\n")
    assert converted(text, Wish(to="amp")).count("autocast(") == 1


HEADED = """import torch
import nets

net, head = nets.build().cuda(), nets.head().cuda()
scale = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
other = torch.optim.SGD([scale], lr=0.1)


def step(control, x, y):
{body}    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{after}

for x in [torch.ones(2, 4).cuda()]:
    step(nets.control(), x, x)
"""


def _of(body: str, after: str = "") -> tuple[str, int]:
    text = convert(HEADED.format(body=body, after=after), Wish(to="amp", dtype="bfloat16")).text
    inside = "".join(line for line in text.splitlines(True) if line.startswith(" " * 8))
    return textwrap.dedent(inside), text.count("autocast(")


def test_the_forward_pass_of_an_object_out_of_sight_is_in_the_region() -> None:
    inside, count = _of(
        "    outs = []\n    for t in range(3):\n        outs.append(control.forward(x, t=t))\n"
        "    out = head(torch.stack(outs))\n    loss = ((out - y) ** 2).mean()\n"
    )
    assert count == 2
    assert "outs.append(to_float32(control.forward(x, t=t)))\n" in inside
    assert inside.index("autocast(") < inside.index("outs.append(")


def test_numbers_of_a_region_need_no_region() -> None:
    inside, count = _of(
        "    out = net(x)\n    loss = ((out - y) ** 2).mean()\n",
        "    other.zero_grad()\n    rest = -(scale.exp() * (out + 1).detach()).mean()\n"
        "    rest.backward()\n    other.step()\n",
    )
    assert count == 1
    assert "rest" not in inside


WEIGHTED = """import torch
from torch import nn
from kept import Average

net = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion, other_criterion = nn.CrossEntropyLoss(reduction="none"), nn.CrossEntropyLoss()
average = Average()
for x, y, index in loader:
    out = net(x.cuda())
    each = criterion(out, y.cuda()).cpu().detach()
    print(each.mean().item())
    print(each.max().item())
    print(each.min().item())
    average.update(each, index)
    kept = average.values[index].clone().detach()
    for c in range(3):
        kept[y == c] /= average.most(c)
    weight = kept / (kept.sum() + 1e-8)
    loss = (other_criterion(out, y.cuda()) * weight.cuda()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_computed_of_losses_needs_no_region() -> None:
    conversion = convert(WEIGHTED, Wish(to="amp"))
    regions = conversion.text.split("with torch.autocast")[1:]
    assert conversion.refused == ()
    assert [region.splitlines()[1].strip() for region in regions] == ["out = net(x.cuda()).float()"]
    assert "    loss = (other_criterion(out, y.cuda()) * weight.cuda()).mean()\n" in conversion.text
    assert "    weight = kept / (kept.sum() + 1e-8)\n" in conversion.text
