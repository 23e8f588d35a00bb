"""The linter and real PyTorch agree about random programs over the GradScaler protocol.

`AMPLINT_PROGRAMS` is how many are tried and `AMPLINT_SEED` which ones. Programs about which they once disagreed are
kept in differential/found.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, reject, seed, settings

from tests.differential.oracle import TooLarge
from tests.differential.programs import programs
from tests.differential.verdict import disagreement

FOUND = sorted((Path(__file__).parent / "differential" / "found").iterdir())
PROGRAMS = int(os.environ.get("AMPLINT_PROGRAMS", "250"))


@settings(
    max_examples=PROGRAMS,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
)
@seed(int(os.environ.get("AMPLINT_SEED", "0")))
@given(programs())
def test_linter_agrees_with_pytorch(source: str) -> None:
    try:
        said = disagreement(source)
    except TooLarge:
        reject()
    assert not said, f"the linter and PyTorch disagree:\n\n{said}"


@pytest.mark.parametrize("program", FOUND, ids=lambda program: program.stem)
def test_found_programs(program: Path) -> None:
    said = disagreement(program.read_text(encoding="utf-8"))
    assert not said, f"the linter and PyTorch disagree:\n\n{said}"
