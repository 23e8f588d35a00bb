"""A short run of the attacks, always the same; hypothesis makes what it finds small."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tests.chance import drawn
from tests.fuzz.checks import JOBS, failure_of
from tests.fuzz.smaller import smaller

EXAMPLES = 12


@pytest.mark.parametrize("name", JOBS)
@seed(22)
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_nothing_breaks(name: str, data: st.DataObject) -> None:
    job = JOBS[name]
    raw = job.make(drawn(data.draw))
    failure = failure_of(job.check, raw)
    assert failure is None, f"{failure}\n{raw!r}"


def test_a_failing_case_is_made_small() -> None:
    raw = b"import a\nx = b(1, evil, 2)\n" * 20
    assert smaller(raw, lambda each: b"evil" in each, 10) == b"evil"


LOOP = """\
import torch
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
i = 0
for {target} in enumerate(loader):
    i += 1
    with torch.autocast("cuda", dtype=torch.float16):
        loss = {loss} / 4
    scaler.scale(loss).backward()
    if (i + 1) % 4 == 0:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
MASKED = (
    "import torch\ndef f(x, m):\n    x = x.masked_fill(m, 0x0)\n    return x.masked_fill(m, -torch.inf).softmax(-1)\n"
)


@pytest.mark.parametrize(
    ("job", "text"),
    [
        ("lint lines", "\"\"b''\n"),
        ("fix trees", "import torch\nwith torch.autocast('cuda'):\n    torch.autocast('cuda').backward()\n"),
        ("lint pieces", LOOP.format(target="()", loss="model(x).sum()")),
        ("lint pieces", MASKED),
        ("fix encodings", f"# coding: unicode_escape\n{LOOP.format(target='x', loss='model(x).sum()')}"),
    ],
)
def test_what_once_failed(job: str, text: str) -> None:
    assert failure_of(JOBS[job].check, text.encode()) is None
