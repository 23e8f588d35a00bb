"""In every round of a converted loop the forward pass, the loss and the backward pass run exactly once."""

from __future__ import annotations

import contextlib
import io
import runpy
import textwrap
from pathlib import Path
from unittest import mock

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from amplint.codemods import Wish, convert

HEAD = """import contextlib

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = [(torch.randn(8, 4), torch.randint(3, (8,))) for _ in range(10)]
for x, y in data:
"""
ROUNDS = 10
CLEARS = {
    "between": "out = net(x)\noptimizer.zero_grad()\nloss = criterion(out, y)",
    "in a context": """with contextlib.nullcontext():
    out = net(x)
    net.zero_grad()
    loss = criterion(out, y)""",
    "parameters": """out = net(x)
for p in net.parameters():
    if p.grad is not None:
        p.grad.detach_()
        p.grad.zero_()
loss = criterion(out, y)""",
    "to None": "out = net(x)\nfor p in net.parameters():\n    p.grad = None\nloss = criterion(out, y)",
    "with more": """for p in net.parameters():
    p.grad = None
    x = x + 0 * p.sum()
out = net(x)
loss = criterion(out, y)""",
    "behind": "out = net(x)\nloss = criterion(out, y)\noptimizer.zero_grad()",
    "before": "optimizer.zero_grad()\nout = net(x)\nloss = criterion(out, y)",
}
WISHES = [
    Wish(to=to, device="cpu", dtype=dtype, accumulate=accumulate)
    for to, dtype, accumulate in (
        (None, "float16", 4),
        ("amp", "float16", 4),
        ("amp", "float16", None),
        ("amp", "bfloat16", 4),
        ("amp", "bfloat16", None),
    )
]


def _passes(text: str, folder: Path) -> tuple[list[str], int]:
    """What runs, in turn, of a program: forward passes, losses and backward passes, and how often it steps."""
    ran: list[str] = []
    backward, linear, entropy = torch.Tensor.backward, nn.Linear.forward, nn.CrossEntropyLoss.forward
    steps: list[object] = []

    def note(what: str, run: object) -> object:
        def noted(*given: object, **named: object) -> object:
            ran.append(what)
            return run(*given, **named)  # type: ignore[operator]

        return noted

    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    handle = register_optimizer_step_post_hook(lambda *_: steps.append(None))
    with (
        mock.patch.object(torch.Tensor, "backward", note("backward", backward)),
        mock.patch.object(nn.Linear, "forward", note("forward", linear)),
        mock.patch.object(nn.CrossEntropyLoss, "forward", note("loss", entropy)),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        runpy.run_path(str(path), run_name="__main__")
    handle.remove()
    return ran, len(steps)


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish.to}-{wish.dtype}-{wish.accumulate}")
@pytest.mark.parametrize("name", CLEARS)
def test_each_round_runs_everything_once(name: str, wish: Wish, tmp_path: Path) -> None:
    body = textwrap.indent(f"{CLEARS[name]}\nloss.backward()\noptimizer.step()\n", "    ")
    conversion = convert(HEAD + body, wish)
    assert conversion.refused == ()
    ran, steps = _passes(conversion.text, tmp_path)
    assert ran == ["forward", "loss", "backward"] * ROUNDS
    assert steps <= (3 if wish.accumulate else ROUNDS)
    if wish.dtype == "bfloat16":
        assert steps == (3 if wish.accumulate else ROUNDS)
    assert convert(conversion.text, wish).text == conversion.text


def test_what_shares_a_line_with_clearing_is_refused() -> None:
    text = HEAD + "    optimizer.zero_grad(); out = net(x)\n    loss = criterion(out, y)\n"
    conversion = convert(text + "    loss.backward()\n    optimizer.step()\n", Wish(accumulate=4))
    assert [(remark.row, remark.text) for remark in conversion.refused] == [
        (12, "the statement shares its line with others")
    ]
