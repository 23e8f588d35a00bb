"""The advice for an input that half weights refuse: it holds for whichever dtype they get."""

from __future__ import annotations

import pytest
import torch

from amplint.engine.registry import load_registry
from amplint.regex import regex
from tests.linting import findings_of

RULES = (load_registry().rules["AMP502"],)
ADVISED = regex(r"\.to\((.+)\)\.$")
PROGRAM = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, half=True):
        super().__init__()
        dtype = torch.bfloat16 if half else torch.float32
        self.head = {layer}.to(dtype)

    def forward(self, x):
        return self.head(x)


def main():
    net = Net()
    return net(torch.rand(3, 4))
"""


@pytest.mark.parametrize("layer", ["nn.Linear(4, 4)", "nn.Sequential(nn.ReLU(), nn.Linear(4, 4))"])
def test_the_advice_is_the_dtype_of_the_weights(layer: str) -> None:
    program = PROGRAM.format(layer=layer)
    (finding,) = findings_of(program, RULES)
    advised = ADVISED.search(finding.advice or "")
    assert advised is not None
    repaired = program.replace("self.head(x)", f"self.head(x.to({advised[1]}))")
    assert findings_of(repaired, RULES) == []
    for text, half in ((repaired, True), (repaired, False), (program, False)):
        names: dict[str, object] = {}
        exec(compile(text.replace("half=True", f"half={half}"), "program.py", "exec"), names)
        main = names["main"]
        assert callable(main)
        assert main().dtype is (torch.bfloat16 if half else torch.float32)
