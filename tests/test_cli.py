"""The command line: options, exit statuses, and what goes to which stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amplint import __version__
from amplint.cli.main import main
from amplint.engine.run import Linter
from tests.conftest import Command, Plugin

BAD = """import torch


def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for batch, target in batches:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.mse_loss(model(batch), target)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
GOOD = BAD.replace("        torch.nn.utils", "        scaler.unscale_(optimizer)\n        torch.nn.utils")
PLACE = "train.py:11:9: AMP205"


@pytest.fixture
def script(project: Path) -> Path:
    """A script with one finding, which has a safe fix."""
    path = project / "train.py"
    path.write_text(BAD, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "arguments",
    [[], ["."], ["train.py"], ["check"], ["check", "train.py"], ["--select", "AMP2", "train.py"], ["--no-cache"]],
)
def test_checking_is_the_default(amplint: Command, script: Path, arguments: list[str]) -> None:
    ran = amplint(*arguments)
    assert ran.status == 1
    assert ran.out.startswith(PLACE)
    assert ran.err == "1 finding (1 error) in 1 of 1 file.\n1 fixable with --fix.\n"


def test_nothing_found(amplint: Command, script: Path) -> None:
    script.write_text(GOOD, encoding="utf-8")
    ran = amplint()
    assert (ran.status, ran.out, ran.err) == (0, "", "Nothing found in 1 file.\n")


def test_no_files(amplint: Command, project: Path) -> None:
    ran = amplint()
    assert (ran.status, ran.out, ran.err) == (0, "", "No Python files found.\n")


def test_a_missing_path_does_not_stop_the_others(amplint: Command, script: Path) -> None:
    ran = amplint("gone.py", "train.py")
    assert ran.status == 2
    assert PLACE in ran.out
    assert "Error: gone.py: no such file or folder\n" in ran.err


@pytest.mark.parametrize("arguments", [["--frobnicate"], ["--min-severity", "bad"], ["-", "train.py"], ["rule"]])
def test_wrong_usage(amplint: Command, script: Path, arguments: list[str]) -> None:
    ran = amplint(*arguments)
    assert ran.status == 2
    assert ran.out == ""
    assert "Error: " in ran.err


def test_fix_and_diff_exclude_each_other(amplint: Command, script: Path) -> None:
    assert amplint("--fix", "--diff").status == 2
    assert script.read_text(encoding="utf-8") == BAD


def test_exit_zero(amplint: Command, script: Path) -> None:
    ran = amplint("--exit-zero")
    assert ran.status == 0
    assert PLACE in ran.out
    assert amplint("--exit-zero", "gone.py").status == 2


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--select", "AMP205"], True),
        (["--select", "clip-without-unscale"], True),
        (["--select", "AMP20,AMP0"], True),
        (["--select", "ALL"], True),
        (["--select", "AMP201"], False),
        (["--ignore", "AMP2"], False),
        (["--ignore", "AMP2", "--extend-select", "AMP205"], True),
        (["--select", "AMP205", "--ignore", "ALL"], True),
        (["--select", "AMP2", "--ignore", "AMP205"], False),
        (["--select", "AMP205", "--ignore", "AMP205"], False),
        (["--min-severity", "error"], True),
    ],
)
def test_selection(amplint: Command, script: Path, arguments: list[str], found: bool) -> None:
    assert amplint(*arguments).status == int(found)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tests/part.py", False), ("test_part.py", False), ("part_test.py", False), ("conftest.py", False),
        ("part.py", True), ("contest/part.py", True),
    ],
)  # fmt: skip
def test_nothing_is_assumed_of_tests(amplint: Command, project: Path, name: str, found: bool) -> None:
    path = project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("import torch\n\n\ndef shown(x: torch.Tensor):\n    return x.detach().numpy()\n")
    assert amplint("--select", "AMP501", name).status == int(found)


def test_an_unknown_selector_has_a_hint(amplint: Command, script: Path) -> None:
    ran = amplint("--select", "clip-without-unscaling")
    assert ran.status == 2
    assert ran.err == (
        'Error: --select: no rule has the code, prefix or name "clip-without-unscaling" '
        '(did you mean "clip-without-unscale"?)\n'
    )


def test_min_severity(amplint: Command, script: Path, plugin: Plugin) -> None:
    plugin(
        """
        from amplint.findings import Severity
        from amplint.rule import Rule

        class Made(Rule):
            code = "TST001"
            name = "scaler-made"
            severity = Severity.WARNING
            screen = ()

            def on_scaler_created(self, event):
                yield self.report(event, "made")
        """
    )
    assert "TST001" in amplint("--select", "TST").out
    assert amplint("--select", "TST", "--min-severity", "error").status == 0


def test_output_file(amplint: Command, script: Path, project: Path) -> None:
    ran = amplint("--output-format", "json", "--output-file", "found.json")
    assert (ran.status, ran.out) == (1, "")
    assert json.loads((project / "found.json").read_text(encoding="utf-8"))[0]["code"] == "AMP205"


def test_an_output_file_that_cannot_be_written(amplint: Command, script: Path) -> None:
    ran = amplint("--output-file", "no/such/folder/found.json")
    assert ran.status == 2
    assert ran.err.startswith("Error: no/such/folder/found.json cannot be written")


def test_statistics(amplint: Command, script: Path) -> None:
    assert amplint("--statistics").out == "1  AMP205  clip-without-unscale  error  1 fixable\n"
    rows = json.loads(amplint("--statistics", "--output-format", "json").out)
    assert rows == [{"count": 1, "code": "AMP205", "name": "clip-without-unscale", "severity": "error", "fixable": 1}]


def test_quiet(amplint: Command, script: Path) -> None:
    assert amplint("--quiet").err == ""


def test_fix(amplint: Command, script: Path) -> None:
    ran = amplint("--fix", "train.py")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == "Fixed 1 finding.\nNothing left in 1 file.\n"
    assert script.read_text(encoding="utf-8") == GOOD
    assert amplint("--fix").err == "Nothing found in 1 file.\n"


def test_diff_writes_nothing(amplint: Command, script: Path) -> None:
    ran = amplint("--diff")
    assert ran.status == 1
    assert ran.out.startswith("--- train.py\n+++ train.py\n@@ ")
    assert "\n+        scaler.unscale_(optimizer)\n" in ran.out
    assert ran.err == "1 finding would be fixed.\n"
    assert script.read_text(encoding="utf-8") == BAD
    script.write_text(GOOD, encoding="utf-8")
    ran = amplint("--diff")
    assert (ran.status, ran.out, ran.err) == (0, "", "Nothing would be fixed.\n")


def test_standard_input(amplint: Command, project: Path) -> None:
    ran = amplint("-", stdin=BAD.encode())
    assert ran.status == 1
    assert ran.out.startswith("<stdin>:11:9: AMP205")
    assert "torch.nn.utils.clip_grad_norm_" in ran.out
    ran = amplint("--stdin-filename", "here/train.py", "-", stdin=BAD.encode())
    assert ran.out.startswith("here/train.py:11:9: AMP205")
    assert amplint("--stdin-filename", "train.py", stdin=GOOD.encode()).status == 0


def test_standard_input_is_fixed_on_standard_output(amplint: Command, project: Path) -> None:
    ran = amplint("--fix", "-", stdin=BAD.encode())
    assert (ran.status, ran.out) == (0, GOOD)
    assert amplint("--fix", "-", stdin=GOOD.encode()).out == GOOD
    ran = amplint("--fix", "--output-format", "concise", "-", stdin=b"def f(:\n")
    assert (ran.status, ran.out) == (1, "def f(:\n")
    assert ran.err.startswith("<stdin>:1:")
    assert "+        scaler.unscale_(optimizer)\n" in amplint("--diff", "-", stdin=BAD.encode()).out


def test_show_settings(amplint: Command, script: Path, project: Path) -> None:
    (project / "amplint.toml").write_text('ignore = ["AMP2"]\n[per-file-ignores]\n"a/*" = ["AMP0"]\n', encoding="utf-8")
    ran = amplint("--show-settings", "--extend-select", "AMP205", "train.py")
    assert ran.status == 0
    assert str(project / "amplint.toml") in ran.out
    assert "AMP205" in ran.out
    assert "AMP201" not in ran.out
    assert '"a/*" = ["AMP0"]' in ran.out


@pytest.mark.parametrize("wanted", ["AMP205", "amp205", "clip-without-unscale"])
def test_rule_page(amplint: Command, wanted: str) -> None:
    ran = amplint("rule", wanted)
    assert ran.status == 0
    assert ran.out.startswith("# AMP205 clip-without-unscale\n\nSeverity: error. Fix: safe.\n\n")
    assert "## Use instead" in ran.out


def test_all_rule_pages(amplint: Command) -> None:
    records = json.loads(amplint("rule", "--all", "--output-format", "json").out)
    assert {"AMP001", "AMP004", "AMP205"} <= {record["code"] for record in records}
    assert all(record["summary"] and record["url"].endswith(record["code"]) for record in records)
    assert json.loads(amplint("rule", "AMP205", "--output-format", "json").out)["fix"] == "safe"


def test_unknown_rule(amplint: Command) -> None:
    ran = amplint("rule", "AMP2055")
    assert ran.status == 2
    assert ran.err == 'Error: no rule has the code or name "AMP2055" (did you mean "AMP205"?)\n'


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(amplint: Command, option: str) -> None:
    ran = amplint(option)
    assert ran.status == 0
    assert "check" in ran.out
    assert "rule" in ran.out
    assert "Exit status: 0 nothing found" in " ".join(amplint("check", option).out.split())


def test_version(amplint: Command) -> None:
    assert amplint("--version").out == f"amplint {__version__}\n"


def test_interrupt_is_quiet(amplint: Command, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Linter, "check_all", interrupt)
    ran = amplint()
    assert (ran.status, ran.out, ran.err) == (130, "", "")


def test_a_failure_of_amplint_itself(amplint: Command, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise LookupError("lost")

    monkeypatch.setattr(Linter, "check_all", fail)
    ran = amplint()
    assert ran.status == 2
    assert ran.err.startswith("Warning: amplint failed, please report it: LookupError: lost")
    monkeypatch.setenv("AMPLINT_TRACEBACK", "1")
    with pytest.raises(LookupError):
        main([])


def test_names_that_are_no_text(amplint: Command, project: Path) -> None:
    name = os.fsdecode(b"tr\xffin.py")
    (project / name).write_text(BAD, encoding="utf-8")
    for form in ("full", "concise", "github"):
        assert "tr\\udcffin.py" in amplint("--output-format", form).out
    assert json.loads(amplint("--output-format", "json").out)[0]["filename"] == name
    assert amplint("--output-format", "json", "--output-file", "out").status == 1
    assert amplint("--diff", name).status == 1
    assert amplint("--fix", name).status == 0


def test_colours(amplint: Command, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in amplint().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[31m" in amplint().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in amplint().out


def command(*arguments: str) -> list[str]:
    """The command as a process of its own."""
    return [sys.executable, "-m", "amplint", *arguments]


def test_a_reader_that_stops_reading(project: Path) -> None:
    for number in range(60):
        (project / f"train{number}.py").write_text(BAD, encoding="utf-8")
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen(
        command("--no-cache"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=project
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaints = process.stderr.read()
    assert complaints == b""
    assert process.returncode == 2


def test_screened_out_files_cost_no_heavy_import(project: Path) -> None:
    (project / "plain.py").write_text("import os\n", encoding="utf-8")
    program = (
        "import sys\nfrom amplint.cli.main import main\n"
        "try: main([])\nexcept SystemExit as ended: assert ended.code == 0\n"
        "print(*sorted(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=project, check=True
    )
    heavy = {"libcst._nodes", "rich", "torch", "concurrent.futures.process"}
    assert not heavy.intersection(done.stdout.split())


@pytest.mark.parametrize("module", ["metadata", "matchers", "helpers", "_nodes.expression"])
def test_rules_may_import_libcst_in_any_way(module: str) -> None:
    program = (
        "from amplint.engine.registry import load_registry; load_registry()\n"
        f"import libcst.{module}, libcst.helpers, libcst as cst\n"
        "from libcst.helpers import get_full_name_for_node as name\n"
        "assert name is libcst.helpers.get_full_name_for_node\n"
        "assert name(cst.parse_expression('a.b')) == 'a.b'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])
