"""A loop that treats one element otherwise, by its name, has others."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP215"],)
PROGRAM = """
import torch

def train(optimizers, batches, model, args, chosen):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        for {target} in {source}:
            optimizers[name].wait()
            if {test}:
                scaler.step(optimizers[name])
        scaler.update()
"""
LOOPS = [("name", "optimizers"), ("name", "optimizers.keys()"), ("name, one", "optimizers.items()")]
CASES = [
    ("name != 'critic'", False),
    ("not name == 'critic'", False),
    ("'critic' != name", False),
    ("name == 'critic'", True),
    ("name != chosen", True),
    ("chosen != 'critic'", True),
    ("args.train", True),
]


@pytest.mark.parametrize(("target", "source"), LOOPS)
@pytest.mark.parametrize(("test", "expected"), CASES)
def test_the_loop_does_not_end_after_the_one_alone(target: str, source: str, test: str, expected: bool) -> None:
    program = PROGRAM.format(target=target, source=source, test=test).encode()
    assert bool(findings_of(program, RULES)) is expected
