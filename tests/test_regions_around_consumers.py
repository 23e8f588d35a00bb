"""The repair of AMP111 puts into the region what the training does there with the outputs."""

from __future__ import annotations

import pytest
import torch

from amplint import Settings, fix

PROGRAM = """
import torch
import torch.nn.functional as F


def run(net, head, batches, table):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy({trained}, y)
        loss.backward()
        optimizer.step()
    net.eval()
    scores = []
    for x, y in batches:
        with torch.no_grad():
            out = net(x)
{evaluated}
        scores.append(answer)
    return scores
"""
HEADER = 'with torch.autocast("cpu", dtype=torch.bfloat16):\n'
REGION = f"            {HEADER}                out = net(x)\n"
OUTER = f"        {HEADER}            with torch.no_grad():\n                out = net(x)\n"
INSIDE, DEEPER, OUTSIDE = " " * 12, " " * 16, " " * 8


@pytest.mark.parametrize(
    ("trained", "evaluated", "expected"),
    [
        (
            "torch.mm(net(x), table)",
            f"{INSIDE}answer = torch.mm(out, table)",
            f"{REGION}{DEEPER}answer = torch.mm(out, table)\n",
        ),
        (
            "torch.mm(net(x), table)",
            f"{INSIDE}kept = out * 2\n{INSIDE}answer = torch.mm(kept, table)",
            f"{REGION}{DEEPER}kept = out * 2\n{DEEPER}answer = torch.mm(kept, table)\n",
        ),
        ("net(x) @ table", f"{INSIDE}answer = out @ table", f"{REGION}{DEEPER}answer = out @ table\n"),
        ("head(net(x))", f"{INSIDE}answer = head(out)", f"{REGION}{DEEPER}answer = head(out)\n"),
        (
            "torch.mm(net(x), table)",
            f"{OUTSIDE}answer = torch.mm(out, table)",
            f"{OUTER}{OUTSIDE}    answer = torch.mm(out, table)\n",
        ),
        (
            "torch.mm(net(x), table)",
            f"{INSIDE}answer = torch.mm(out, table).argmax(1)\n{INSIDE}print(y)",
            f"{REGION}{DEEPER}answer = torch.mm(out, table).argmax(1)\n{INSIDE}print(y)\n",
        ),
        ("net(x)", f"{INSIDE}answer = out.argmax(1)", f"{REGION}{INSIDE}answer = out.argmax(1)\n"),
        (
            "torch.mm(net(x), table)",
            f"{INSIDE}answer = torch.mm(x, table)",
            f"{REGION}{INSIDE}answer = torch.mm(x, table)\n",
        ),
    ],
)
def test_the_region_is_as_wide_as_that_of_the_training(trained: str, evaluated: str, expected: str) -> None:
    program = PROGRAM.format(trained=trained, evaluated=evaluated)
    repaired = fix(program, Settings(select=("AMP111",), unsafe_fixes=True)).after.decode()
    assert expected in repaired
    names: dict[str, object] = {}
    exec(compile(repaired, "repaired.py", "exec"), names)
    run = names["run"]
    assert callable(run)
    net, batches = torch.nn.Linear(4, 4), [(torch.randn(3, 4), torch.tensor([0, 1, 2]))]
    (answer,) = run(net, torch.nn.Linear(4, 4), batches, torch.randn(4, 4))
    assert isinstance(answer, torch.Tensor)
