"""A script that only evaluates a sharded model adds no gradients up."""

from __future__ import annotations

import pytest

from amplint.engine.registry import load_registry
from tests.linting import findings_of

RULES = (load_registry().rules["AMP714"],)
PROGRAM = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
from models import Model, evaluate

def main():
    policy = MixedPrecision(param_dtype=torch.float16{buffers})
    model = FullyShardedDataParallel(Model(), mixed_precision=policy)
    {work}

{start}
"""
SUMS, BUFFERS = "gradients are added up in float16", "buffers are kept in float16"
EVALUATES = ("model.eval()", "with torch.no_grad(): evaluate(model)", "with torch.inference_mode(): evaluate(model)")
TRAINS = (
    "model.eval(); loss = evaluate(model); loss.backward()",
    "model.eval(); torch.autograd.grad(evaluate(model), list(model.parameters()))",
    "model.eval(); optimizer = evaluate(model)",
    "evaluate(model)",
)
START = 'if __name__ == "__main__":\n    main()'


def told(work: str, start: str = START, buffers: str = "") -> list[str]:
    program = PROGRAM.format(work=work, start=start, buffers=buffers).encode()
    return [one.message for one in findings_of(program, RULES)]


@pytest.mark.parametrize("work", EVALUATES)
def test_no_gradients_are_added_up(work: str) -> None:
    assert not told(work)
    assert not told(f"model.train()\n    {work}")
    assert told(work, buffers=", buffer_dtype=torch.float16") == [BUFFERS]


@pytest.mark.parametrize("work", TRAINS)
def test_where_they_may_be(work: str) -> None:
    assert told(work) == [SUMS]


@pytest.mark.parametrize("work", EVALUATES)
def test_a_module_may_be_used_by_what_trains(work: str) -> None:
    assert told(work, start="") == [SUMS]
