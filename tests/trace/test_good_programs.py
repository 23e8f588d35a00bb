"""Programs in which nothing is wrong run without findings: the good ones of every rule."""

from __future__ import annotations

import pytest
from proof.client import ProofServer
from proof.programs import Program, programs

from amplint.trace.findings import findings
from amplint.trace.record import Record
from tests.trace.versions import SHARDS_ON_CPUS

GOOD = [program for program in programs() if not program.is_bad]
TRUE = {
    "AMP408-loss-in-half/good_output_of_region.py": ["AMP802"],  # a loss that is only looked at
    "AMP706-trainer-with-half-model/good_half_without_scaler.py": ["AMP807"],
}
"""Programs that are good for their rule, and of which a run shows something else."""


@pytest.mark.parametrize("program", GOOD, ids=lambda program: program.name)
def test_nothing_is_found_in_a_good_program(program: Program, server: ProofServer) -> None:
    if "fully_shard(" in program.text and not SHARDS_ON_CPUS:
        pytest.skip("this PyTorch has no fully_shard on CPUs")
    text = server.trace(program.text, str(program.path), cuda=program.cuda, framework=program.framework)
    found = [finding.code for finding in findings(Record.from_json(text))]
    assert found == TRUE.get(program.name, [])
