"""The repairs of several clips of the same gradients call `unscale_` once, and reads are told to divide."""

from __future__ import annotations

from amplint.engine.registry import load_registry
from amplint.findings import Finding
from tests.linting import findings_of

RULES = (load_registry().rules["AMP205"],)
PROGRAM = """
import torch
from torch.nn.utils import clip_grad_norm_

def train(first, second, batches, steps):
    one = torch.optim.SGD({parameters}, lr=0.1)
    two = torch.optim.SGD(second.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for i, x in enumerate(batches):
        one.zero_grad()
        two.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = second(first(x)).mean()
        scaler.scale(loss).backward()
        {work}
        scaler.step(one)
        {last}
        scaler.update()
"""
CLIPS = "clip_grad_norm_(first.parameters(), 1.0)\n        clip_grad_norm_(second.parameters(), 1.0)"
BOTH = "[*first.parameters(), *second.parameters()]"


def found(work: str, parameters: str = BOTH, last: str = "pass") -> tuple[Finding, ...]:
    program = PROGRAM.format(work=work, parameters=parameters, last=last)
    if last == "pass":
        program = program.replace("    two = torch.optim.SGD(second.parameters(), lr=0.1)\n", "")
        program = program.replace("        two.zero_grad()\n", "")
    return tuple(findings_of(program, RULES))


def test_the_first_of_two_clips_is_repaired() -> None:
    assert [one.fix is not None for one in found(CLIPS)] == [True, False]


def test_clips_for_two_optimizers_are_both_repaired() -> None:
    told = found(CLIPS, "first.parameters()", "scaler.step(two)")
    assert [one.fix is not None for one in told] == [True, True]


def test_a_clip_of_one_branch_repairs_only_that() -> None:
    clip = "clip_grad_norm_(first.parameters(), 1.0)"
    told = found(f"if steps:\n            {clip}\n        else:\n            {clip}")
    assert [one.fix is not None for one in told] == [True, True]


READ = "norm = torch.stack([p.grad.norm() for p in first.parameters()]).norm()"


def test_what_is_read_can_be_divided_on_every_micro_batch() -> None:
    (told,) = found(READ)
    assert "scaler.get_scale()" in told.advice
    assert all("get_scale" not in one.advice for one in found(CLIPS))
