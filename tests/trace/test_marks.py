"""`amplint check --trace`: what a run showed of the findings is right, for every fixture and in special cases."""

from __future__ import annotations

import functools
import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from proof.client import ProofServer
from proof.programs import FIXTURES, Program, programs

import amplint.trace
from amplint.claims import Mark, Verdict
from amplint.cli.main import cli
from amplint.engine.cache import Cache
from amplint.engine.config import Settings
from amplint.engine.discover import Target
from amplint.engine.projects import Projects
from amplint.engine.registry import load_registry
from amplint.engine.run import Linter
from amplint.findings import Finding
from amplint.trace.data import HalfLoss, NonFinite
from amplint.trace.marks import Marks
from amplint.trace.record import Record

FAMILIES = ("AMP1", "AMP4", "AMP5", "AMP201", "AMP203", "AMP204", "AMP217", "AMP221")
BAD = [program for program in programs() if program.is_bad and program.code.startswith(FAMILIES)]
IN_REGIONS = ("AMP101", "AMP102", "AMP104", "AMP110", "AMP404", "AMP413", "AMP502", "AMP504")
"""Rules whose findings all rest on a region that is on."""

BY_CONVERSION = (
    "AMP504-hard-coded-float32-buffer/bad_choice_of_numbers.py",
    "AMP504-hard-coded-float32-buffer/bad_positions_by_map.py",
    "AMP502-dtype-mismatch-after-autocast/bad_recurrent_state.py",
    "AMP502-dtype-mismatch-after-autocast/bad_choice_of_numbers.py",
    "AMP502-dtype-mismatch-after-autocast/bad_chosen_dtype.py",
    "AMP502-dtype-mismatch-after-autocast/bad_float32_mask.py",
    "AMP502-dtype-mismatch-after-autocast/bad_lifted_input_of_own_weights.py",
    "AMP502-dtype-mismatch-after-autocast/bad_half_written_out.py",
)
"""Programs of these rules that convert the model instead."""

OTHERS: dict[str, list[Verdict | None]] = {
    "AMP106-autocast-has-no-effect/bad_bare_statement.py": [None],  # what nothing enters does nothing to be seen
    "AMP106-autocast-has-no-effect/bad_device_of_the_caller.py": [None],  # one run sees one device
    "AMP106-autocast-has-no-effect/bad_device_of_a_section.py": [None],
    "AMP106-autocast-has-no-effect/bad_dtype_asked_for_cuda.py": [None],
    "AMP106-autocast-has-no-effect/bad_float32_elsewhere.py": [None],
    "AMP106-autocast-has-no-effect/bad_joined_by_and.py": [None],
    "AMP106-autocast-has-no-effect/bad_scaler_for_cuda.py": [None],
    "AMP106-autocast-has-no-effect/bad_switched_off_for_cuda.py": [None],  # the caller's region is out of sight
    "AMP107-autocast-arguments/bad_device_by_its_default.py": [Verdict.CONFIRMED, None],  # the first one raises
    "AMP107-autocast-arguments/bad_custom_fwd_by_position.py": [Verdict.CONFIRMED, Verdict.NOT_EXERCISED],
    "AMP107-autocast-arguments/bad_custom_fwd_without_device.py": [Verdict.CONFIRMED, Verdict.NOT_EXERCISED],
    "AMP107-autocast-arguments/bad_device_for_the_scale.py": [Verdict.UNDECIDED],  # Python raises, not PyTorch
    "AMP111-evaluation-dtype-differs/bad_in_another_half.py": [None],  # dtypes of two forward passes are not compared
    "AMP104-disabled-region-keeps-half/bad_layer.py": [Verdict.UNDECIDED],  # it raises before its region is recorded
    "AMP108-forward-outside-autocast/bad_scaled_unseen_model.py": [Verdict.UNDECIDED],  # no region anywhere
    "AMP108-forward-outside-autocast/bad_scaled_without_region.py": [Verdict.UNDECIDED],
    "AMP109": [None],  # other threads are not watched
    "AMP112": [None],  # weights are not looked at
    "AMP113": [None],  # the compiled backward pass is not watched
    "AMP404-bce-in-autocast/bad_one_of_several.py": [Verdict.CONFIRMED, Verdict.NOT_EXERCISED],  # the first one raises
    "AMP407-accumulation-in-half/bad_weights_of_copy.py": [None, None],  # nor is what has become of parameters
    "AMP408-loss-in-half/bad_loaded_as_half.py": [None],  # what a model out of sight returns is not marked
    "AMP408-loss-in-half/bad_output_of_engine.py": [None],
    "AMP408-loss-in-half/bad_output_of_region.py": [None],
    "AMP408-loss-in-half/bad_output_of_sharded.py": [None],  # the run has no processes to shard over
    "AMP412-bfloat16-addend-lost/bad_decay.py": [Verdict.NOT_EXERCISED],  # a constant runs no operation
    "AMP203-missing-update/bad_overflow_left_out.py": [None],  # nothing raises
    "AMP203-missing-update/bad_overflow_of_one_gradient.py": [None],
    "AMP221-step-without-gradients/bad_unscaled_another.py": [Verdict.UNDECIDED],  # nothing raises
    "AMP221-step-without-gradients/bad_optimizer_of_no_name.py": [Verdict.UNDECIDED],  # Python raises, not PyTorch
    "AMP414": [None],  # how often a random number falls on a value is not counted
    "AMP506": [None],  # what nothing is done with is not looked at
    "AMP505": [None],  # no operation of PyTorch's
    "AMP403": [Verdict.UNDECIDED],  # values are not looked at
    "AMP401-constant-overflows-half/bad_mask_converted.py": [Verdict.UNDECIDED],
    "AMP402-constant-vanishes-in-half/bad_floor_tensor.py": [Verdict.UNDECIDED],
    "AMP405-square-overflows-half/bad_variance.py": [Verdict.CONFIRMED, Verdict.CONFIRMED, None],
    "AMP405-square-overflows-half/bad_length_written_out.py": [Verdict.CONFIRMED, None, None],
    "AMP405-square-overflows-half/bad_rms_norm_half_model.py": [Verdict.CONFIRMED, None],
    "AMP405-square-overflows-half/bad_weights_by_their_sum.py": [None],  # quotients are not looked at
    "AMP405-square-overflows-half/bad_kernel_by_its_sum.py": [None],
    "AMP106-autocast-has-no-effect/bad_listed_devices.py": [None],  # a region for another device does nothing here
    "AMP406-integers-in-half/bad_dtype_of_buffer.py": [Verdict.CONFIRMED, None],
    "AMP406-integers-in-half/bad_frequencies_in_half.py": [None],  # digits that are gone are not counted
    "AMP406-integers-in-half/bad_frequencies_like_input.py": [None],
    "AMP406-integers-in-half/bad_rounded_frequencies.py": [None],
    "AMP407-accumulation-in-half/bad_average_of_detached_weights.py": [None],
    "AMP407-accumulation-in-half/bad_average_of_given_weights.py": [None],  # updates that are lost are not counted
    "AMP407-accumulation-in-half/bad_kernel_adds_up.py": [None],
    "AMP407-accumulation-in-half/bad_weights_by_name.py": [None],
    "AMP502-dtype-mismatch-after-autocast/bad_half_written_out.py": [None],  # what the other operand is, is supposed
    "AMP502-dtype-mismatch-after-autocast/bad_places_of_mask.py": [Verdict.CONFIRMED, Verdict.NOT_EXERCISED],
    "AMP502-dtype-mismatch-after-autocast/bad_mask.py": [
        Verdict.CONFIRMED,
        Verdict.NOT_EXERCISED,
        Verdict.NOT_EXERCISED,  # the first one raises
    ],
    "AMP502-dtype-mismatch-after-autocast/bad_flash_attention.py": [Verdict.UNDECIDED],  # no operation of PyTorch's
    "AMP501-bfloat16-to-numpy/bad_cast_output.py": [Verdict.CONFIRMED, Verdict.NOT_EXERCISED],  # the first one raises
}
"""Programs, or all those of a rule, whose findings are not all confirmed, with the verdicts of each."""


@functools.cache
def linter(select: tuple[str, ...] | None, asked: tuple[str, ...]) -> tuple[Linter, Settings]:
    """A linter with the default rules, or with those of `select`, and with those that are `asked` for."""
    settings = Settings(select=select, extend_select=asked)
    return Linter(Projects(load_registry().rules, fixed=settings), Cache(None)), settings


def found(path: Path, select: tuple[str, ...] | None = None, asked: tuple[str, ...] = ()) -> list[Finding]:
    """What is found in a file."""
    checker, settings = linter(select, asked)
    return checker.check(Target(str(path), str(path), settings), path.read_bytes())


def marked(
    path: Path, record: Record, select: tuple[str, ...] | None = None, asked: tuple[str, ...] = ()
) -> list[Finding]:
    """The findings of the families in a file, with their marks."""
    marks = Marks(record, lambda name: Path(name).read_bytes())
    return [marks.marked(finding) for finding in found(path, select, asked) if finding.code.startswith(FAMILIES)]


def verdict(finding: Finding) -> Verdict | None:
    """The verdict of the run, None without a mark."""
    return finding.mark.verdict if finding.mark else None


def traced(
    server: ProofServer, program: Program, select: tuple[str, ...] | None = None, *, float32: bool = False
) -> list[Finding]:
    """The marked findings of a fixture that ran, with `float32` with all its regions and scalers off."""
    where = {"cuda": program.cuda, "framework": program.framework}
    record = Record.from_json(server.trace(program.text, str(program.path), float32=float32, **where))
    return marked(program.path, record, select, (program.code,) if program.asked else ())


@pytest.mark.parametrize("program", BAD, ids=lambda program: program.name)
def test_what_a_fixture_shows_confirms_its_findings(program: Program, server: ProofServer) -> None:
    findings = traced(server, program)
    expected = OTHERS.get(program.name) or OTHERS.get(program.code) or [Verdict.CONFIRMED] * len(findings)
    assert Counter(map(verdict, findings)) == Counter(expected)


@pytest.mark.parametrize(
    "program",
    [
        one
        for one in BAD
        if one.code in IN_REGIONS and one.name not in BY_CONVERSION and OTHERS.get(one.name) != [Verdict.UNDECIDED]
    ],
    ids=lambda program: program.name,
)
def test_a_run_without_regions_contradicts_what_rests_on_them(program: Program, server: ProofServer) -> None:
    findings = [finding for finding in traced(server, program, float32=True) if finding.code in IN_REGIONS]
    assert set(map(verdict, findings)) == {Verdict.CONTRADICTED}


FLOAT32 = ["AMP404-bce-in-autocast/good_amp_only_in_the_forward.py"]
"""Good programs of which it can only be supposed that their tensors are half."""


@pytest.mark.parametrize("name", FLOAT32)
def test_what_was_supposed_to_be_half_and_is_not_contradicts(name: str, server: ProofServer) -> None:
    findings = traced(server, Program(FIXTURES / name), ("AMP4", "AMP5"))
    assert {verdict(finding) for finding in findings} == {Verdict.CONTRADICTED}


SCRIPT = """\
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate(x):
    with torch.autocast("cpu", dtype=torch.float16):
        return model(x).masked_fill(x > 0, -1e9)


for step in range(2):
    x = torch.ones(2, 4)
    with torch.autocast("cpu", dtype=torch.float16, enabled={amp}):
        out = model(x)
        loss = (
            out
            / (out.amax() + 1e-8)
        ).sum()
        loss.backward()
    optimizer.step()
    if {test}:
        with torch.autocast("cpu", dtype=torch.float16):
            try:
                evaluate(x)
            except RuntimeError:
                pass
"""


def ran(folder: Path, *, amp: str = "True", test: str = "step > 3") -> tuple[Path, Record]:
    """A script that ran under watch, and what was seen of it."""
    return watched(folder, SCRIPT.format(amp=amp, test=test))


def watched(folder: Path, text: str) -> tuple[Path, Record]:
    """A file with `text` that ran under watch, and what was seen of it."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    with amplint.trace.watch() as record:
        exec(compile(text, str(path), "exec"), {"__name__": "__main__"})
    return path, record


def marks_of(path: Path, record: Record) -> dict[str, Mark | None]:
    """Code -> mark; the script has each code once."""
    return {finding.code: finding.mark for finding in marked(path, record)}


def test_what_was_measured_is_told(tmp_path: Path) -> None:
    assert marks_of(*ran(tmp_path)) == {
        "AMP101": Mark(Verdict.CONFIRMED, "autocast was on (float16)"),
        "AMP401": Mark(Verdict.NOT_EXERCISED, "nothing of it ran in the recorded steps"),
        "AMP402": Mark(Verdict.CONFIRMED, "add took float16, gave float16 (2 times)"),
    }


def test_what_became_of_the_numbers_is_told(tmp_path: Path) -> None:
    path, record = ran(tmp_path)
    row = next(row for row, line in enumerate(SCRIPT.splitlines(), 1) if "1e-8" in line)
    place = ("div", "", str(path), row - 1, "")
    record.nonfinite = [NonFinite(0, "forward", *place, "nan", "float16"), NonFinite(0, "backward", *place, "inf", "x")]
    record.losses = [HalfLoss("forward", place[0], *place[2:], "float16", 100, 3, 0)]
    mark = marks_of(path, record)["AMP402"]
    told = "add took float16, gave float16 (2 times); div made nan; div made 3 of 100 numbers 0"
    assert mark == Mark(Verdict.CONFIRMED, told)


def test_a_flag_that_is_off_contradicts(tmp_path: Path) -> None:
    marks = marks_of(*ran(tmp_path, amp="step > 3"))
    assert marks["AMP101"] == Mark(Verdict.CONTRADICTED, "autocast was off on cpu")
    assert marks["AMP402"] == Mark(Verdict.CONTRADICTED, "add took float32, gave float32 (2 times) on cpu")


def test_an_exception_that_the_script_catches_confirms(tmp_path: Path) -> None:
    mark = marks_of(*ran(tmp_path, test="step < 3"))["AMP401"]
    assert mark is not None
    assert mark.verdict is Verdict.CONFIRMED
    assert "without overflow" in mark.text


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    path, record = ran(tmp_path)
    before = marks_of(path, record)
    elsewhere = tmp_path / "other" / "train.py"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(path.read_bytes())
    assert marks_of(elsewhere, Record.from_json(record.to_json())) == before
    path.write_text("\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    marks = Marks(record, lambda name: Path(name).read_bytes())
    assert {marks.marked(finding).mark for finding in found(path)} == {None}
    assert marks.changed == {str(path)}


LIBRARY = """\
def update(loss, optimizer):
    loss.backward()
    optimizer.step()
"""


def test_what_happens_in_another_file_is_marked_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lib.py").write_text(LIBRARY, encoding="utf-8")
    path = tmp_path / "train.py"
    lines = SCRIPT.format(amp="True", test="False").replace(
        "        loss.backward()\n", "        update(loss, optimizer)\n"
    )
    path.write_text(f"from lib import update\n{lines}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with amplint.trace.watch() as record:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "__main__"})
    marks = {finding.code: finding.mark for finding in marked(path, record) if finding.elsewhere is not None}
    assert marks == dict.fromkeys(("AMP101",), Mark(Verdict.CONFIRMED, "autocast was on (float16)"))
    (tmp_path / "lib.py").write_text(f"# new\n{LIBRARY}", encoding="utf-8")
    assert {finding.mark for finding in marked(path, record) if finding.elsewhere is not None} == {None}


def test_what_a_backward_pass_of_ones_own_runs_is_seen(tmp_path: Path) -> None:
    path, record = watched(tmp_path, BACKWARD)
    findings = [finding for finding in marked(path, record) if finding.code == "AMP402"]
    assert [finding.mark for finding in findings] == [Mark(Verdict.CONFIRMED, "add took float16, gave float16 (once)")]


MODES = """\
import torch


def single(x):
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).sum().backward()
    optimizer.step()


def half(x):
    model = torch.nn.Linear(4, 4).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x.half()).sum().backward()
    optimizer.step()


{mode}(torch.ones(2, 4))
"""


@pytest.mark.parametrize(("mode", "shown"), [("half", Verdict.CONFIRMED), ("single", Verdict.NOT_EXERCISED)])
def test_the_optimizer_that_is_meant_counts(tmp_path: Path, mode: str, shown: Verdict) -> None:
    path, record = watched(tmp_path, MODES.format(mode=mode))
    findings = [finding for finding in marked(path, record) if finding.code == "AMP410"]
    assert [verdict(finding) for finding in findings] == [shown]


BACKWARD = """\
import torch


class Ratio(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (x.half().abs() + 1e-8)


x = torch.ones(2, requires_grad=True)
Ratio.apply(x).sum().backward()
"""


def test_a_file_that_did_not_run(tmp_path: Path) -> None:
    _, record = ran(tmp_path)
    other = tmp_path / "other.py"
    other.write_text(SCRIPT.format(amp="False", test="True"), encoding="utf-8")
    assert {mark.verdict for mark in marks_of(other, record).values() if mark} == {Verdict.NOT_EXERCISED}


def check(*arguments: str) -> Result:
    """`amplint check train.py` with `arguments`."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(cli, ["check", *arguments, "train.py"])


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path, record = ran(tmp_path)
    (tmp_path / "trace.json").write_text(record.to_json(), encoding="utf-8")
    plain = check("--output-format", "json")
    seen = check("--trace", "trace.json", "--output-format", "json")
    assert (plain.exit_code, seen.exit_code) == (1, 1)
    without, with_marks = json.loads(plain.stdout), json.loads(seen.stdout)
    assert {one["trace"] for one in without} == {None}
    assert [{**one, "trace": None} for one in with_marks] == without
    verdicts = {one["code"]: one["trace"]["verdict"] for one in with_marks if one["trace"]}
    assert verdicts == {"AMP101": "confirmed", "AMP401": "not exercised", "AMP402": "confirmed"}
    assert "By the trace: 2 confirmed, 1 not exercised." in seen.stderr
    told = check("--trace", "trace.json", "-q").stdout
    assert "  Trace: confirmed; autocast was on (float16)\n" in told
    told = check("--trace", "trace.json", "-q", "--output-format", "concise").stdout
    assert "guards nothing [trace: confirmed; add took float16, gave float16 (2 times)]\n" in told
    told = check("--trace", "trace.json", "-q", "--output-format", "github").stdout
    assert "%0ATrace: not exercised; nothing of it ran in the recorded steps%0A" in told
    told = check("--trace", "trace.json", "-q", "--statistics").stdout
    assert "1  AMP101  backward-in-autocast       warning  1 fixable, 1 confirmed\n" in told
    original = path.read_bytes()
    check("--fix")
    fixed = path.read_bytes()
    path.write_bytes(original)
    repaired = check("--fix", "--trace", "trace.json")
    assert (path.read_bytes(), fixed != original) == (fixed, True)
    assert "train.py has changed since it was traced: its findings are not marked" in repaired.stderr


@pytest.mark.parametrize("text", [None, "{}"])
def test_a_trace_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n", encoding="utf-8")
    if text is not None:
        (tmp_path / "trace.json").write_text(text, encoding="utf-8")
    seen = check("--trace", "trace.json")
    assert seen.exit_code == 2
    assert seen.stderr.startswith("Error: trace.json: ")
