"""Several ranks: a record of each, and what they did differently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from amplint.trace.data import HalfLoss, Histogram, NonFinite, Operation, ScalerStep
from amplint.trace.findings import findings, findings_of_ranks
from amplint.trace.merge import Unmergeable, merged
from amplint.trace.ranks import file_of, rank_and_ranks
from amplint.trace.record import Record
from amplint.trace.schema import schema
from tests.conftest import Command

SCRIPT = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=rank == 0):
        loss = model(torch.ones(2 + rank, 4)).sum()
    if step == DIES and rank == 1:
        os._exit(9)
    loss.backward()
    optimizer.step()
"""


def ran(op: str, row: int, *, dtype: str = "bfloat16", phase: str = "forward", api: str = "") -> Operation:
    """An operation of one dtype at a line of t.py."""
    return Operation(phase, op, api, "t.py", row, "model", (dtype,), (dtype,), "bfloat16", "cpu")


def of_rank(rank: int, *operations: Operation, **fields: object) -> Record:
    """The record of one of two ranks, which exchange gradients."""
    counts = Counter([*operations, ran("allreduce_", 0, dtype="float32", phase="backward")])
    return Record("2.13", "cpu", 3, rank, 2, operations=counts, **fields)  # type: ignore[arg-type]


def told(*records: Record) -> list[tuple[str, str]]:
    """The codes and messages of what is found in the records of several ranks."""
    return [(found.code, found.message) for found in findings_of_ranks(records, merged(records))]


def steps(pattern: str) -> list[ScalerStep]:
    """A scaler's history: `s` is a step, `x` a skipped one."""
    return [
        ScalerStep(number, "t.py", 9, "scaler 1", "SGD", "READY", 1024.0, letter == "x")
        for number, letter in enumerate(pattern)
    ]


def origin(phase: str, step: int = 2) -> list[NonFinite]:
    """One operation that made an inf."""
    return [NonFinite(step, phase, "exp", "torch.exp", "t.py", 4, "model", "inf", "float16")]


def test_other_dtypes_are_told_once_at_the_first_line() -> None:
    half, single = (
        [ran(op, row, dtype=dtype) for op, row in (("add", 3), ("add", 4))] for dtype in ("float16", "float32")
    )
    assert told(of_rank(1, *single), of_rank(0, *half)) == [
        ("AMP809", "add ran in float16 on rank 0 and in float32 on rank 1 (model), and 1 more line differs")
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([ran("add", 3)], [ran("add", 3)]),
        ([ran("add", 3), ran("add", 3, dtype="float32")], [ran("add", 3)]),
        ([ran("add", 3), ran("sum", 8)], [ran("add", 3), ran("sum", 9, dtype="float32")]),
        ([ran("add", 3)] * 2, [ran("add", 3)]),
    ],
    ids=["same", "validates alone", "logs alone", "longer sequences"],
)
def test_what_ranks_may_do_differently(first: list[Operation], second: list[Operation]) -> None:
    assert told(of_rank(0, *first), of_rank(1, *second)) == []


def test_ranks_that_exchange_nothing_are_runs_of_their_own() -> None:
    records = [of_rank(0, ran("add", 3)), of_rank(1, ran("add", 3, dtype="float32"))]
    for record in records:
        record.operations = Counter({op: 1 for op in record.operations if op.op == "add"})
    assert told(*records) == []


def test_unequal_counts_are_kept_and_unequal_backward_passes_are_told() -> None:
    loss = ran("ones_like", 5, api="torch.Tensor.backward")
    whole = merged([of_rank(0, loss, loss, ran("add", 3)), of_rank(1, loss, ran("add", 3), ran("add", 3))])
    assert [(it.kind, it.row, it.did) for it in whole.divergences] == [
        ("backward", 5, ((0, "2"), (1, "1"))),
        ("count", 5, ((0, "2"), (1, "1"))),
        ("count", 3, ((0, "1"), (1, "2"))),
    ]
    assert [found.message for found in findings(whole)] == [
        "gradients were computed 2 times on rank 0 and once on rank 1"
    ]
    assert told(of_rank(0, loss, loss), of_rank(1, loss, cut=True)) == []


def test_the_rank_whose_forward_pass_made_the_first_inf_is_blamed() -> None:
    made, arrived = of_rank(1, nonfinite=origin("forward")), of_rank(0, nonfinite=origin("backward"))
    (difference,) = merged([arrived, made]).divergences
    assert (difference.kind, difference.did) == ("nonfinite", ((0, "finite"), (1, "inf")))
    assert ("AMP809", "the first inf on rank 1 alone: exp in step 3 (model)") in told(arrived, made)
    assert merged([made, of_rank(0, nonfinite=origin("forward"))]).divergences == []
    assert merged([arrived, of_rank(1)]).divergences == []
    settling = origin("backward", step=0)
    late = merged([of_rank(0, nonfinite=settling), of_rank(1, nonfinite=[*settling, *origin("forward")])])
    assert [(difference.kind, difference.step) for difference in late.divergences] == [("nonfinite", 2)]


def test_a_step_that_one_scaler_skips_alone() -> None:
    records = of_rank(0, scaler_steps=steps("sss")), of_rank(1, scaler_steps=steps("sxs"))
    message = "the scaler stepped on rank 0 and skipped on rank 1 in step 2"
    assert told(*records) == [("AMP809", message)]
    assert {step.scaler for step in merged(records).scaler_steps} == {"scaler 1", "scaler 1 of rank 1"}
    assert told(of_rank(0, scaler_steps=steps("xss")), of_rank(1, scaler_steps=steps("xss"))) == []


def test_findings_name_the_ranks_that_have_them() -> None:
    slow = ran("mm", 7, dtype="float32")
    assert told(of_rank(0, slow), of_rank(1, slow)) == [
        ("AMP801", "mm ran in float32, once, in a region of bfloat16 (model)")
    ]
    assert told(of_rank(0), of_rank(1, slow))[0][1].endswith("(model), on rank 1")


def test_a_merged_record_reads_like_one_of_a_rank() -> None:
    loss = HalfLoss("backward", "add", "t.py", 3, "model", "float16", 10, 1, 0, -27, -3)
    large = Histogram("gradient", "model.weight", "float32", 1.0, {3: 2}, 1, 0)
    first = of_rank(0, ran("add", 3), losses=[loss], histograms=[large], scaler_steps=steps("ss"), memory=2**20)
    second = of_rank(1, ran("add", 3), ran("add", 3), losses=[loss], histograms=[large], scaler_steps=steps("ss"))
    whole = merged([second, first])
    assert (whole.rank, whole.ranks, whole.steps, whole.operations) == (None, 2, 3, second.operations)
    assert whole.memory == 2**20
    assert (whole.losses[0].elements, whole.losses[0].smallest) == (20, -27)
    assert (whole.histograms[0].exponents, whole.histograms[0].zeros) == ({3: 4}, 2)
    assert whole.scaler_steps == first.scaler_steps
    assert Record.from_json(whole.to_json()) == whole
    assert not list(Draft202012Validator(schema()).iter_errors(json.loads(whole.to_json())))


@pytest.mark.parametrize(
    "records", [[of_rank(0), of_rank(0)], [of_rank(0), Record(rank=1, ranks=3)], [Record(rank=None)]]
)
def test_records_that_are_not_of_one_run(records: list[Record]) -> None:
    with pytest.raises(Unmergeable):
        merged(records)


def test_files_of_ranks_are_merged(amplint: Command, project: Path) -> None:
    for rank, dtype in enumerate(("float16", "float32")):
        (project / f"trace.rank{rank}.json").write_text(of_rank(rank, ran("add", 3, dtype=dtype)).to_json())
    done = amplint(
        "trace", "merge", "trace.rank1.json", "trace.rank0.json", "--output", "all.json", "--fail-on", "error"
    )
    assert (done.status, done.err) == (1, "")
    assert "3 steps on cpu, torch 2.13, 2 ranks" in done.out
    assert "t.py:3:1: AMP809 ranks-differ [error]" in done.out
    assert "AMP809" in amplint("trace", "report", "-q", "all.json").out
    assert amplint("trace", "merge", "-q", "trace.rank0.json").err == "Warning: 1 of 2 ranks are missing: 1\n"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("trace.json", "missing.json"), "missing.json: No such file"),
        (("trace.json", "broken.json"), "broken.json: not a trace"),
        (("trace.json", "trace.json"), "two of these records are of rank 0"),
        ((), "Missing argument"),
    ],
)
def test_files_that_cannot_be_merged(amplint: Command, project: Path, arguments: tuple[str, ...], why: str) -> None:
    (project / "trace.json").write_text(of_rank(0).to_json())
    (project / "broken.json").write_text("{}")
    done = amplint("trace", "merge", *arguments)
    assert done.status == 2
    assert why in done.err


def test_the_file_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert rank_and_ranks() == (1, 2)
    assert file_of(Path("a/trace.json"), of_rank(1)) == Path("a/trace.rank1.json")
    assert file_of(Path("a/trace.json"), Record()) == Path("a/trace.json")
    monkeypatch.setenv("WORLD_SIZE", "x")
    assert rank_and_ranks() == (0, 1)


def torchrun(folder: Path, *, dies: int | None) -> subprocess.CompletedProcess[str]:
    """Watch two ranks that differ in their dtypes; rank 1 may die in the step `dies`."""
    (folder / "train.py").write_text(SCRIPT.replace("DIES", str(dies)))
    environment = {**os.environ, "COLUMNS": "100", "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    watch = ["-m", "amplint", "trace", "--skip", "0", "--output", "trace.json", "train.py"]
    return subprocess.run(
        [*launch, *watch], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.slow
def test_torchrun_reports_all_ranks_once(tmp_path: Path) -> None:
    done = torchrun(tmp_path, dies=None)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("3 steps on cpu") == done.stderr.count("AMP809 ranks-differ") == 1
    assert "addmm ran in bfloat16 on rank 0 and in float32 on rank 1 (model.module)" in done.stderr
    records = [Record.from_json((tmp_path / f"trace.rank{rank}.json").read_text()) for rank in (0, 1)]
    assert [(record.rank, record.ranks, record.steps, record.cut) for record in records] == [
        (0, 2, 3, False),
        (1, 2, 3, False),
    ]


@pytest.mark.slow
def test_nothing_hangs_when_a_rank_dies(tmp_path: Path) -> None:
    done = torchrun(tmp_path, dies=1)
    assert done.returncode == 1
    assert "1 of 2 ranks left no record" in done.stderr, done.stderr
    record = Record.from_json((tmp_path / "trace.rank0.json").read_text())
    assert (record.rank, record.steps, record.cut) == (0, 1, True)
    assert not (tmp_path / "trace.rank1.json").exists()
