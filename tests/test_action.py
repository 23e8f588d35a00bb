"""The GitHub Action: its shell steps are run as they stand, with stand-ins for `gh` and for package indexes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.test_cli import BAD, GOOD

ROOT = Path(__file__).parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

PYTHON = """#!/bin/bash
printf '%s\\n' "$@" >>"$STAND_IN_LOG"
if [ "$1 $2" = "-m venv" ]; then
    mkdir -p "$3/bin"
    ln -s "$0" "$3/bin/python"
    printf '#!/bin/sh\\nexec "%s" -P -m amplint "$@"\\n' "$STAND_IN_PYTHON" >"$3/bin/amplint"
    ln -s "$0" "$3/bin/pip"
    chmod +x "$3/bin/amplint"
fi
"""
"""Makes environments whose amplint is the one that is tested, and logs what it is asked to install."""

GH = """#!/bin/bash
printf '%s\\n' "$*" >>"$STAND_IN_LOG"
case "$*" in
    *--paginate*) jq -r "${@: -1}" "$STAND_IN_COMMENTS" ;;
    *) exit "$STAND_IN_STATUS" ;;
esac
"""
"""The same for `gh`: answers with comments that are there already."""


@dataclass
class Runner:
    """What GitHub's runner is for the steps: `outputs` are those of the step lint."""

    workspace: Path
    folder: Path
    inputs: dict[str, str]
    outputs: dict[str, str] = field(default_factory=dict)
    pull_request: str = "7"
    comments: list[dict[str, Any]] = field(default_factory=list)
    status_of_gh: int = 0

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the step `name` as GitHub runs `shell: bash`."""
        step = STEPS[name]
        assert step["shell"] == "bash"
        output, summary = self.folder / "output", self.folder / "summary"
        comments = self.folder / "comments.json"
        comments.write_text(json.dumps(self.comments), encoding="utf-8")
        environment = {
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],
            "RUNNER_TEMP": str(self.folder / "temp"),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_REPOSITORY": "someone/something",
            "STAND_IN_LOG": str(self.folder / "log"),
            "STAND_IN_PYTHON": sys.executable,
            "STAND_IN_COMMENTS": str(comments),
            "STAND_IN_STATUS": str(self.status_of_gh),
            **{key: self._value(str(value)) for key, value in step.get("env", {}).items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=self.workspace, env=environment, capture_output=True, text=True, check=False)
        if output.exists():
            self.outputs |= dict(line.split("=", 1) for line in output.read_text(encoding="utf-8").splitlines())
        return done

    def log(self) -> list[str]:
        """What the stand-ins were asked."""
        log = self.folder / "log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def _value(self, text: str) -> str:
        known = {
            "github.action_path": str(ROOT),
            "github.event.pull_request.number": self.pull_request,
            **{f"inputs.{name}": value for name, value in self.inputs.items()},
            **{f"steps.lint.outputs.{name}": value for name, value in self.outputs.items()},
        }
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known[found[1]], text)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    """A runner with a script that has one finding."""
    folder, workspace = tmp_path / "runner", tmp_path / "workspace"
    for each in (folder / "bin", folder / "temp", workspace):
        each.mkdir(parents=True)
    for name, text in (("python3", PYTHON), ("gh", GH)):
        program = folder / "bin" / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
    (workspace / "train.py").write_text(BAD, encoding="utf-8")
    inputs = {name: str(each.get("default", "")) for name, each in ACTION["inputs"].items()}
    inputs["token"] = "secret"
    return Runner(workspace, folder, inputs)


def linted(runner: Runner, **inputs: str) -> subprocess.CompletedProcess[str]:
    """What the step lint came to with these inputs."""
    runner.inputs |= {name.replace("_", "-"): value for name, value in inputs.items()}
    assert runner.run("Install amplint").returncode == 0
    return runner.run("Lint")


def test_nothing_of_a_user_is_part_of_a_shells_text() -> None:
    for step in STEPS.values():
        assert "${{" not in step.get("run", "")
        assert "eval" not in step.get("run", "")


def test_other_actions_are_pinned_to_a_commit() -> None:
    used = [step["uses"] for step in STEPS.values() if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}", each) for each in used)


def test_inputs_that_are_used_are_declared() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    table = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == set(ACTION["inputs"])


def test_install_takes_the_actions_own_version_or_a_given_one(runner: Runner) -> None:
    assert runner.run("Install amplint").returncode == 0
    assert runner.log()[-1] == str(ROOT)
    shutil.rmtree(runner.folder / "temp" / "amplint")
    runner.inputs["version"] = "1.2.0rc1"
    assert runner.run("Install amplint").returncode == 0
    assert runner.log()[-1] == "amplint==1.2.0rc1"


@pytest.mark.parametrize("version", ["1.0 --index-url=x", "$(touch stolen)", "1.0;touch stolen", "-r x", "1\n2"])
def test_install_refuses_what_is_no_version(runner: Runner, version: str) -> None:
    runner.inputs["version"] = version
    done = runner.run("Install amplint")
    assert done.returncode == 2
    assert "::error::" in done.stdout
    assert not runner.log()


def test_findings_are_annotated_reported_and_fail_the_job(runner: Runner) -> None:
    done = linted(runner)
    assert done.returncode == 0, done.stderr
    (annotation,) = (line for line in done.stdout.splitlines() if line.startswith("::"))
    assert annotation.startswith("::error ")
    assert "file=train.py" in annotation
    sarif = json.loads(Path(runner.outputs["sarif"]).read_text(encoding="utf-8"))
    assert [result["ruleId"] for result in sarif["runs"][0]["results"]] == ["AMP205"]
    markdown = Path(runner.outputs["markdown"]).read_text(encoding="utf-8")
    assert markdown.startswith("<!-- amplint -->\n### amplint: 1 error in 1 file")
    assert (runner.folder / "summary").read_text(encoding="utf-8") == markdown
    assert runner.run("Result").returncode == 1


@pytest.mark.parametrize(("level", "status"), [("warning", 0), ("info", 1)])
def test_the_level_decides_what_fails(runner: Runner, level: str, status: int) -> None:
    fixture = ROOT / "fixtures" / "AMP209-scaler-not-needed" / "bad_autocast_chosen_by_name.py"
    shutil.copy(fixture, runner.workspace / "train.py")
    assert linted(runner, fail_level=level).returncode == 0
    assert "AMP209" in Path(runner.outputs["markdown"]).read_text(encoding="utf-8")
    assert runner.run("Result").returncode == status


def test_a_clean_repository_passes(runner: Runner) -> None:
    (runner.workspace / "train.py").write_text(GOOD, encoding="utf-8")
    assert linted(runner).returncode == 0
    assert runner.run("Result").returncode == 0


def test_wrong_inputs_fail(runner: Runner) -> None:
    assert linted(runner, fail_level="fatal").returncode == 2
    shutil.rmtree(runner.folder / "temp" / "amplint")
    assert linted(runner, fail_level="info", paths="gone").returncode == 2


@pytest.mark.parametrize("text", ["$(touch a);`touch b` 'c", "--fix"])
def test_inputs_are_words_and_never_commands(runner: Runner, text: str) -> None:
    folder = runner.workspace / text
    folder.mkdir()
    (folder / "train.py").write_text(BAD, encoding="utf-8")
    (runner.workspace / "train.py").write_text(BAD, encoding="utf-8")
    done = linted(runner, paths=f"{text}\n\n", args="--select\nAMP205\n--output-format\njson")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("::error ") == 1
    assert sorted(path.name for path in runner.workspace.iterdir()) == sorted([text, "train.py"])
    assert (folder / "train.py").read_text(encoding="utf-8") == BAD


def test_a_pull_request_gets_one_comment(runner: Runner) -> None:
    runner.comments = [
        {"id": 1, "body": "<!-- amplint --> of a person", "user": {"type": "User"}},
        {"id": 2, "body": "of another bot", "user": {"type": "Bot"}},
    ]
    runner.outputs = {"markdown": "/reports/amplint.md"}
    assert runner.run("Comment").returncode == 0
    assert runner.log()[-1] == (
        "api --silent --method POST repos/someone/something/issues/7/comments --field body=@/reports/amplint.md"
    )
    runner.comments.append({"id": 3, "body": "<!-- amplint -->\n### amplint", "user": {"type": "Bot"}})
    assert runner.run("Comment").returncode == 0
    assert runner.log()[-1] == (
        "api --silent --method PATCH repos/someone/something/issues/comments/3 --field body=@/reports/amplint.md"
    )


def test_a_token_without_rights_does_not_fail_the_job(runner: Runner) -> None:
    runner.outputs = {"markdown": "/reports/amplint.md"}
    runner.status_of_gh = 1
    done = runner.run("Comment")
    assert done.returncode == 0
    assert "::warning::amplint could not comment" in done.stdout
