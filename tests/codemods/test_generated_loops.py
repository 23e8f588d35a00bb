"""Training loops made at random: a conversion never crashes, always parses, and changes nothing the second time."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amplint.codemods import Wish, convert

HEAD = """import torch
from torch import nn

net = nn.Linear(4, 4)
critic = nn.Linear(4, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
other = torch.optim.Adam(critic.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
device = torch.device("cpu")
losses, total = [], 0.0
flag, every = True, 2
batches = [(torch.ones(2, 4), torch.ones(2, 4))]
"""
SIMPLE = (
    "out = net(x)",
    "out = critic(net(x.to(device)))",
    "loss = criterion(out, y)",
    "loss = criterion(net(x), y)  # é",
    "loss = loss / every",
    "loss += 0.1 * out.pow(2).mean()",
    "total += loss.item()",
    "losses.append(loss)",
    "loss.backward()",
    "loss.backward(retain_graph=True)",
    "criterion(net(x), y).backward()",
    "(loss + out.mean()).backward()",
    "optimizer.zero_grad(set_to_none=True)",
    "net.zero_grad()",
    "optimizer.step()",
    "other.step()",
    "scheduler.step()",
    "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)",
    "for p in net.parameters(): p.grad.mul_(0.5)",
    "text = '''a\n  b'''",
    "x = x + 1; y = y + 1",
    "if flag: loss.backward()",
    "continue",
    "torch.save({'optimizer': optimizer.state_dict()}, 'last.pt')",
    "optimizer.load_state_dict(torch.load('last.pt')['optimizer'])",
    "penalty = torch.autograd.grad(loss, net.parameters(), create_graph=True)",
    "pass",
)
HEADERS = ("if flag:", "if i % every == 0:", "for _ in range(2):", "with torch.no_grad():", "while flag:", "try:")
LOOPS = ("for i, (x, y) in enumerate(batches):", "for i in range(9):\n    x, y = batches[0]")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in "\n".join(lines or ["pass"]).split("\n")]


def _compound(parts: tuple[str, list[list[str]]]) -> list[str]:
    header, blocks = parts
    lines = [header, *_indented([line for block in blocks for line in block])]
    return [*lines, "finally:", "    pass"] if header == "try:" else lines


STATEMENTS = st.recursive(
    st.sampled_from(SIMPLE).map(lambda line: line.split("\n")),
    lambda inner: st.tuples(st.sampled_from(HEADERS), st.lists(inner, min_size=1, max_size=4)).map(_compound),
    max_leaves=6,
)
TYPICAL = ["optimizer.zero_grad()", "out = net(x)", "loss = criterion(out, y)", "loss.backward()", "optimizer.step()"]


@st.composite
def loops(draw: st.DrawFn) -> str:
    """A script with one training loop: typical statements in their order, with others strewn in, or any."""
    body = [[line] for line in TYPICAL] if draw(st.booleans()) else []
    for statement in draw(st.lists(STATEMENTS, min_size=0 if body else 2, max_size=8)):
        body.insert(draw(st.integers(0, len(body))), statement)
    lines = draw(st.sampled_from(LOOPS)).split("\n") + _indented([line for block in body for line in block])
    shape = draw(st.sampled_from(["script", "function", "handed on", "method"]))
    if shape == "function":
        lines = ["def train():", *_indented(["global total", *lines]), "", "train()"]
    elif shape == "handed on":
        lines = ["def train(optimizer, total=0.0):", *_indented(lines), "", "train(optimizer)"]
    elif shape == "method":
        lines = ["class Trainer:", *_indented(["def train(self, total=0.0):", *_indented(lines)]), "Trainer().train()"]
    text = HEAD + "\n".join(lines) + "\n"
    return text.replace("    ", "\t") if draw(st.booleans()) else text


@pytest.mark.parametrize(
    "wish",
    [Wish(to="amp"), Wish(to="amp", dtype="bfloat16", device="auto"), Wish(accumulate=3), Wish(to="amp", accumulate=2)],
    ids=["half", "bfloat16", "accumulate", "both"],
)
def test_conversion_is_whole(wish: Wish) -> None:
    converted = refused = 0

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(loops())
    def check(text: str) -> None:
        nonlocal converted, refused
        try:
            ast.parse(text)
        except SyntaxError:
            return
        conversion = convert(text, wish)
        assert not any("please report" in remark.text for remark in conversion.refused), conversion.refused
        ast.parse(conversion.text)
        if conversion.refused:
            refused += 1
            assert conversion.text == text
            return
        converted += conversion.text != text
        again = convert(conversion.text, wish)
        assert (again.text, again.done) == (conversion.text, ())

    check()
    assert converted > 9
    assert refused > 9
