"""The dtypes that the linter claims are those that PyTorch computes, in random programs.

`AMPLINT_DTYPE_PROGRAMS` is how many are tried for each device type and `AMPLINT_SEED` which ones.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.dtypes.emulation import cuda_policy
from tests.dtypes.programs import programs
from tests.dtypes.verdict import compare, described

PROGRAMS = int(os.environ.get("AMPLINT_DTYPE_PROGRAMS", "150"))
SHARE = 0.7
"""The share of all values whose dtype has to be claimed."""

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_claims_agree_with_pytorch(device: str) -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=PROGRAMS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @seed(int(os.environ.get("AMPLINT_SEED", "0")))
    @given(programs(device))
    def check(source: str) -> None:
        found = compare(source, device)
        seen.update(values=found.values, claimed=found.claimed)
        assert not found.wrong, f"the linter and PyTorch disagree:\n\n{described(source, found)}"

    with cuda_policy() if device == "cuda" else contextlib.nullcontext():
        check()
    print(f"{device}: {seen['claimed']} of {seen['values']} values are claimed")
    assert seen["claimed"] >= SHARE * seen["values"]
