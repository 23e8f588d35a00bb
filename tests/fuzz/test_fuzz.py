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
