"""The calls of a gradient scaler, as repairs and conversions write them."""

from __future__ import annotations

import pytest

from amplint.codemods import Wish, convert
from amplint.edits import protocol
from amplint.source import syntax as cst
from amplint.source.rewrite import Rewriter
from amplint.source.source import Source
from amplint.source.tree import every

TWO_USES = """\
import argparse

import torch
from apex import amp


def total(parameters):
    return sum(parameter.grad.norm() for parameter in parameters)


parser = argparse.ArgumentParser()
parser.add_argument("--clip", type=float, default=0.0)
args = parser.parse_args()
model = torch.nn.Linear(4, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
for x, y in [(torch.zeros(2, 4).cuda(), torch.zeros(2, 1).cuda())]:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
    if args.clip:
        grad_norm = torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
    else:
        grad_norm = total(amp.master_params(optimizer))
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "scaled"),
    [
        ("loss", "scaler.scale(loss)"),
        ("(a + b)", "scaler.scale(a + b)"),
        ("((a + b))", "scaler.scale(((a + b)))"),
        ("(a, b)", "scaler.scale((a, b))"),
        ("[a, b]", "scaler.scale([a, b])"),
    ],
)
def test_parentheses_of_a_loss_become_those_of_scale(loss: str, scaled: str) -> None:
    rewrite = Rewriter(Source("t.py", f"x = {loss}\n"))
    (assign,) = (node for chunk in rewrite.source.chunks for node in every(chunk.module, cst.Assign))
    assert protocol.scaled(assign.value, "scaler", rewrite) == scaled


def test_an_object_is_spelled_as_in_the_function_around() -> None:
    rewrite = Rewriter(Source("t.py", "a.x = 1\n\n\ndef run(b):\n    b.x = 2\n    print()\n"))
    owners = [node.value for chunk in rewrite.source.chunks for node in every(chunk.module, cst.Attribute)]
    (call,) = (node for chunk in rewrite.source.chunks for node in every(chunk.module, cst.Call))
    assert protocol.spelling(owners, call, rewrite) == "b"
    assert protocol.spelling(owners[:1], call, rewrite) is None


def test_gradients_that_several_branches_use_are_unscaled_once() -> None:
    converted = convert(TWO_USES, Wish(source="apex"))
    assert not converted.refused
    lines = [line.strip() for line in converted.text.splitlines()]
    place = lines.index("scaler.unscale_(optimizer)")
    assert lines[place - 1 : place + 2 : 2] == ["scaler.scale(loss).backward()", "if args.clip:"]
    assert converted.text.count("unscale_") == 1
