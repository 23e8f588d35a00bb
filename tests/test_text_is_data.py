"""Names and texts that come from outside are shown as they are and do nothing, also where no finding is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amplint.findings import Finding, Position, Severity, Span
from amplint.reports.context import Context
from amplint.reports.diff import CI_SYSTEMS, unified
from amplint.reports.github import github
from amplint.reports.page.document import page
from amplint.reports.trace import summary
from amplint.trace.findings import findings
from amplint.trace.record import Record, UnreadableRecord
from tests.conftest import Command
from tests.test_cli import BAD
from tests.trace import records

EVIL = "\x1b]0;title\x07\n::error::x\r##[error]\u202ey"
MODULE = [sys.executable, "-m", "amplint"]
HARMLESS = re.compile("[^\n -\u007e\u00a0-\u200a\u2010-\u2027\u2030-\ud7ff]")


def assert_harmless(text: str) -> None:
    """There is nothing in `text` that a terminal or a CI system would act upon."""
    assert not HARMLESS.search(text), repr(text)
    assert not re.search(r"^\s*::|##\[", text, re.MULTILINE), repr(text)


@pytest.mark.parametrize(
    "arguments",
    [(f"{EVIL}.py",), ("--show-settings", EVIL), ("convert", "--to", "amp", EVIL), ("clean", "--cache-dir", EVIL)],
)
def test_names_on_the_command_line(amplint: Command, project: Path, arguments: tuple[str, ...]) -> None:
    ran = amplint(*arguments)
    assert_harmless(ran.out)
    assert_harmless(ran.err)


def test_the_name_of_a_configuration(amplint: Command, project: Path) -> None:
    folder = project / EVIL.replace("/", "")
    folder.mkdir()
    (folder / "amplint.toml").write_text("wrong = 1", encoding="utf-8")
    (folder / "a.py").write_text(BAD, encoding="utf-8")
    assert_harmless(amplint(".").err)
    (folder / "amplint.toml").write_text("", encoding="utf-8")
    assert_harmless(amplint("--show-settings", str(folder)).out)
    assert_harmless(amplint("--output-format", "concise").out)


def test_github_names_a_file_as_it_is() -> None:
    place = Span(Position(1, 1), Position(1, 2))
    finding = Finding("AMP201", "first-rule", Severity.ERROR, "bad", "a\r\n%,:b\x1b.py", place)
    (command,) = github([finding], Context({})).splitlines()
    assert "file=a%0D%0A%25%2C%3Ab\\x1b.py," in command


@pytest.mark.parametrize("system", CI_SYSTEMS)
@pytest.mark.parametrize("line", ["::stop-commands::tok", "##vso[task.complete]", "  ::error::x", "##teamcity[x]"])
def test_diffs_in_ci_hold_no_commands(monkeypatch: pytest.MonkeyPatch, system: str, line: str) -> None:
    for name in CI_SYSTEMS:
        monkeypatch.delenv(name, raising=False)
    before, after = (f"'''\n{line}\n'''\nx\t= {number}\n".encode() for number in (1, 2))
    assert f" {line}\n" in unified("a.py", before, after, escape=False)
    monkeypatch.setenv(system, "1")
    shown = unified("a.py", before, after, escape=False)
    assert not re.search(r"(?<!\S)::|##\w*\[", shown)
    assert "+x\t= 2\n" in shown


def test_what_a_record_says_is_shown_harmless(tmp_path: Path) -> None:
    data = json.loads(records.record(tmp_path).to_json())

    def spoilt(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: spoilt(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [spoilt(inner, key) for inner in value]
        kept = key in ("phase", "kind", "what", "operand", "numerics", "schema", "filename") or not isinstance(
            value, str
        )
        return value if kept else f"{value}{EVIL}"

    record = Record.from_json(json.dumps(spoilt(data)))
    assert_harmless(summary(record, findings(record)))
    written = page(record, findings(record))
    assert not HARMLESS.search(written)
    assert "::error::" in written


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("steps",), "3"),
        (("steps",), -1),
        (("steps",), 10**400),
        (("operations", 0, "row"), None),
        (("operations", 0, "inputs"), "float16"),
        (("operations", 0, "count"), 0),
        (("operations", 0, "phase"), "sideways"),
        (("histograms", 0, "exponents"), {"x": 1}),
        (("histograms", 0, "exponents"), {"9" * 9: 1}),
        (("scaler_steps", 0, "scale"), "65536"),
        (("held", 0, "state"), [["exp_avg", "float32"]]),
        (("comparison", "lines", 0, "error"), float("nan")),
        (("sources",), {"a.py": 1}),
        (("more",), 1),
    ],
)
def test_records_with_wrong_types(tmp_path: Path, place: tuple[str | int, ...], value: object) -> None:
    data = json.loads(records.record(tmp_path).to_json())
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(UnreadableRecord, match=r"^not a trace that amplint has written"):
        Record.from_json(json.dumps(data))


def test_a_record_of_nested_lists() -> None:
    with pytest.raises(UnreadableRecord):
        Record.from_json("[" * 100_000)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
@pytest.mark.parametrize(
    ("shell", "says"),
    [
        ('"$@" >/dev/full', "No space left on device"),
        ('"$@" - <&-', "standard input is closed"),
        ('"$@" >&-', ""),
        ('mkdir gone && cd gone && rmdir ../gone && "$@"', "No such file or directory"),
    ],
)
def test_what_the_system_refuses_is_no_defect(project: Path, shell: str, says: str) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    command = ["sh", "-c", shell, "sh", *MODULE, *([] if "<&-" in shell else ["check", "--no-cache"])]
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    ran = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 2, ran.stderr
    assert says in ran.stderr
    assert "report it" not in ran.stderr
    assert "Traceback" not in ran.stderr
