"""Standard input, folders, options that mean nothing together, and a limit of time."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplint import api
from amplint.cli import terminal
from amplint.codemods import Wish, convert
from amplint.codemods.files import _ConversionBatch
from amplint.engine.config import ConfigError
from amplint.training import surroundings
from tests.codemods.running import LOOP
from tests.codemods.test_command import NEW, OLD, REFUSED
from tests.conftest import Command

ROOT = Path(__file__).parents[2]
FROM = ("--from", "cuda-amp")


def test_standard_input_goes_to_standard_output(amplint: Command) -> None:
    ran = amplint("convert", *FROM, "-", stdin=OLD.encode("utf-8"))
    assert (ran.status, ran.out) == (0, NEW)
    assert ran.err == "<stdin>: Use torch.amp.GradScaler, Use torch.amp.autocast\n1 file converted.\n"
    ran = amplint("convert", *FROM, "--diff", "--stdin-filename", "here/train.py", "-", stdin=OLD.encode("utf-8"))
    assert ran.status == 0
    assert ran.out.startswith("--- here/train.py\n+++ here/train.py\n")
    ran = amplint("convert", *FROM, "-q", "-", stdin=REFUSED.encode("utf-8"))
    assert (ran.status, ran.out) == (1, REFUSED)
    assert ran.err.startswith("<stdin>:3: refused: ")
    ran = amplint("convert", *FROM, "-", stdin=b"\0torch.cuda.amp")
    assert (ran.status, ran.out) == (1, "\0torch.cuda.amp")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--from", "apex", "--to", "amp"], "--from apex decides what the code becomes: leave --to amp out."),
        (
            ["--from", "apex", "--dtype", "bfloat16"],
            "--dtype says what --to amp computes in, and means nothing without it.",
        ),
        (
            ["--from", "cuda-amp", "--device", "cpu"],
            "--device says what --to amp is for, and means nothing without it.",
        ),
        (["--from", "apex", "--device", "auto"], "--from apex asks no torch.device: --device is cuda or cpu."),
        (
            ["--from", "mmcv", "--add-flag"],
            "--add-flag adds options for --to amp and --accumulate, and means nothing without them.",
        ),
        (["--to", "amp", "--write", "-"], "standard input is no file to be written."),
        (["--to", "amp", "-"], "- (standard input) cannot be combined with other paths."),
    ],
)
def test_what_means_nothing_together_is_refused(amplint: Command, arguments: list[str], why: str) -> None:
    paths = ["train.py"] if arguments[-1] == "-" and "--write" not in arguments else []
    paths = paths or ([] if "-" in arguments else ["train.py"])
    ran = amplint("convert", *arguments, *paths)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith(f"Error: {why}\n")


def test_the_programming_interface_refuses_the_same() -> None:
    with pytest.raises(ConfigError, match="source_api 'apex' decides what the code becomes: leave to amp out"):
        api.convert("import torch\n", to="amp", source_api="apex")


HELPER = """import torch
from torch import nn


@torch.no_grad()
def evaluate(model, batches):
    total = 0.0
    for x, y in batches:
        out = model(x)
        total += nn.functional.cross_entropy(out, y).item()
    return total
"""
TRAINING = """import torch
from torch import nn
from helper import evaluate

model = nn.Linear(4, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in [(torch.ones(2, 4).cuda(), torch.tensor([0, 1]).cuda())]:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(evaluate(model, []))
"""
REGION = 'with torch.autocast(device_type="cuda", dtype=torch.float16):\n'


def test_a_region_of_an_evaluation_elsewhere_leaves_a_loop_to_be_converted(amplint: Command, project: Path) -> None:
    (project / "helper.py").write_text(HELPER.replace("        out = ", f"        {REGION}            out = "))
    (project / "train.py").write_text(TRAINING)
    ran = amplint("convert", "--to", "amp", "--write", ".")
    assert ran.status == 0
    assert REGION in (project / "train.py").read_text()


def test_files_know_what_those_they_import_have_become(project: Path) -> None:
    paths = [str(project / name) for name in ("aloud.py", "weights.py")]
    Path(paths[1]).write_text(OLD, encoding="utf-8")
    Path(paths[0]).write_text("from weights import train\n" + OLD.replace("def train", "def other"), encoding="utf-8")
    together = _ConversionBatch({path: path for path in paths}, Wish(source="cuda-amp"), write=False)
    assert together.converted(paths[0]).done
    assert together.raw(paths[1]) == NEW.encode("utf-8")
    assert Path(paths[1]).read_text(encoding="utf-8") == OLD


def test_two_files_that_import_each_other_come_to_an_end(amplint: Command, project: Path) -> None:
    (project / "a.py").write_text("import b\n" + LOOP)
    (project / "b.py").write_text("import a\n" + LOOP)
    ran = amplint("convert", "--to", "amp", "--write", ".")
    assert (ran.status, ran.err.splitlines()[-1].startswith("2 files converted")) == (0, True)


def test_a_conversion_ends_after_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "SECONDS", -1.0)
    conversion = convert(LOOP, Wish(to="amp"))
    assert conversion.text == LOOP
    assert [one.text for one in conversion.refused] == ["the conversion takes more than 60 seconds of processor time"]


def test_folders_show_their_progress_on_a_terminal(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(terminal.Progress, "__call__", lambda self, done: counted.append(done))
    for name in ("a", "b"):
        (project / f"{name}.py").write_text(OLD, encoding="utf-8")
    assert amplint("convert", *FROM, ".").status == 1
    assert counted == [1, 1]


def test_the_example_trains_as_before(
    amplint: Command, project: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    text = (ROOT / "examples" / "regression.py").read_text(encoding="utf-8")
    ran = amplint("convert", "-q", "--to", "amp", "--dtype", "bfloat16", "--device", "auto", "-", stdin=text.encode())
    assert (ran.status, ran.err) == (0, "")
    assert "torch.autocast(device_type=device.type, dtype=torch.bfloat16)" in ran.out
    shown = []
    for script in (text, ran.out):
        exec(compile(script, "regression.py", "exec"), {})
        shown.append([float(line.rpartition(b" ")[2]) for line in capsysbinary.readouterr().out.splitlines()])
    before, after = shown
    assert before != after
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 0.02
