"""The guide to old code, and the small options that go with it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from amplint.cli.check import check
from amplint.cli.terminal import Progress
from amplint.engine.analyse import Analysis, analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.pool import analyse_in_processes
from amplint.engine.run import Linter
from tests.adoption.test_baseline import BAD, OLD_API
from tests.adoption.test_diff_base import commit, git
from tests.conftest import Command

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")


def commands_of_the_guide() -> Iterator[list[str]]:
    """Every command, in order, as words."""
    for block in re.findall(r"^```sh\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE):
        yield from (shlex.split(line, comments=True) for line in block.splitlines())


@pytest.mark.skipif(shutil.which("git") is None, reason="the guide uses git")
def test_every_command_of_the_guide(project: Path, amplint: Command) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    (project / "net.py").write_text("import torch\nx = torch.ones(2).half() / 1e-9\n" + OLD_API, encoding="utf-8")
    git(project, "init", "--quiet", "--initial-branch", "main")
    commit(project)
    ran = []
    for program, *arguments in commands_of_the_guide():
        if program == "git":
            git(project, *arguments)
        elif "--watch" not in arguments:  # tests/adoption/test_watch.py runs it
            done = amplint(*arguments)
            assert done.status == (1 if arguments == ["--isolated"] else 0), (arguments, done)
            ran.append(" ".join(arguments))
            if arguments == ["--add-ignore"]:
                git(project, "checkout", "--quiet", ".")
        if arguments[:1] == ["--fix"]:
            (project / "net.py").write_text("import torch\nx = torch.ones(2).half() / 1e-9\n", encoding="utf-8")
            (project / "bad.py").write_text(BAD, encoding="utf-8")
            commit(project)
    assert len(ran) >= 12
    assert "AMP" in (project / "amplint-baseline.txt").read_text(encoding="utf-8")


def test_the_hook_of_the_guide_is_one_of_ours() -> None:
    (hook,) = re.findall(r"```yaml\n- id: (\S+)\n  args: \[(.*)\]\n```", GUIDE)
    assert f"- id: {hook[0]}\n" in (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert all(any(word in parameter.opts for parameter in check.params) for word in hook[1].split(", ")[:1])


def test_every_option_has_a_heading_in_the_help(amplint: Command) -> None:
    shown = amplint("check", "-h").out
    headings = re.findall(r"^(\w.*):$", shown, re.MULTILINE)
    assert headings == ["What is linted, and how", "Repairs", "Old code", "Reports", "Other options"]
    options = [option for option in check.params if isinstance(option, click.Option)]
    assert len(options) > 20
    assert all(re.search(rf"^  .*{option.opts[-1]}\b", shown, re.MULTILINE) for option in options)


def test_show_files(project: Path, amplint: Command) -> None:
    (project / "b.py").write_text(BAD, encoding="utf-8")
    (project / "a\x1b.py").touch()
    (project / "amplint.toml").write_text('exclude = ["c.py"]', encoding="utf-8")
    (project / "c.py").touch()
    ran = amplint("--show-files")
    assert (ran.status, ran.out) == (0, "a\\x1b.py\nb.py\n")
    assert amplint("--show-files", "nowhere").status == 2


def test_show_fixes(project: Path, amplint: Command) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    told = "train.py:\n  1 x AMP205 clip-without-unscale\n"
    for option in ("--diff", "--fix"):
        ran = amplint(option, "--show-fixes", "--quiet")
        assert ran.err == told
    assert amplint("--fix", "--show-fixes", "--quiet").err == ""


def test_isolated(project: Path, amplint: Command) -> None:
    (project / "train.py").write_text(BAD, encoding="utf-8")
    (project / "amplint.toml").write_text('ignore = ["AMP205"]', encoding="utf-8")
    assert amplint().status == 0
    assert amplint("--isolated").status == 1
    (project / "amplint.toml").write_text("broken", encoding="utf-8")
    assert amplint("--isolated").status == 1


@pytest.mark.parametrize("named", [True, False])
def test_clean(project: Path, amplint: Command, tmp_path: Path, named: bool) -> None:
    folder = tmp_path / "cache" / ("named" if named else "amplint")
    options = ["--cache-dir", str(folder)] if named else []
    (project / "train.py").write_text(BAD, encoding="utf-8")
    assert amplint("clean", *options).out == f"There is no cache in {folder}.\n"
    assert amplint("check", *options).status == 1
    (folder / "mine.txt").touch()
    assert amplint("clean", *options).out.startswith("Removed ")
    assert os.listdir(folder) == ["mine.txt"]
    assert amplint("clean", *options).out.startswith("There is no cache")
    (folder / "mine.txt").unlink()
    amplint("check", *options)
    amplint("clean", *options)
    assert not folder.exists()


def test_clean_leaves_other_folders_alone(project: Path, amplint: Command) -> None:
    (project / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (project / "key").touch()
    assert amplint("clean", "--cache-dir", ".").out.startswith("There is no cache")
    assert (project / ".gitignore").exists()
    assert (project / "key").exists()


def complete(shell: str, words: str, environment: dict[str, str]) -> list[str]:
    """What is offered for the last of `words`."""
    script = "import sys\nfrom amplint.cli.main import main\nmain([])"
    count = {"COMP_CWORD": str(words.count(" "))}
    asked = {"_AMPLINT_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, **count, **environment}
    ran = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **asked}, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("amplint comp", ["file,comp", "plain,completion"]),
        ("amplint --diff-", ["plain,--diff-base"]),
        ("amplint check --output-format sar", ["plain,sarif"]),
        ("amplint train.py --isol", ["plain,--isolated"]),
        ("amplint completion z", ["plain,zsh"]),
    ],
)
def test_completion(words: str, offered: list[str]) -> None:
    assert complete("bash", words, {}) == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.usefixtures("project")
def test_completion_scripts(amplint: Command, shell: str) -> None:
    ran = amplint("completion", shell)
    assert ran.status == 0
    assert f"_AMPLINT_COMPLETE={shell}_complete" in ran.out
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n"], input=ran.out, text=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="asks bash")
def test_completion_in_bash(project: Path, amplint: Command, tmp_path: Path) -> None:
    program = tmp_path / "amplint"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m amplint "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = amplint("completion", "bash").out + (
        'COMP_WORDS=(amplint comp)\nCOMP_CWORD=1\n_amplint_completion amplint 2>/dev/null\necho "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(["bash"], input=script, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["completion"]


def test_extend(project: Path, amplint: Command) -> None:
    (project / "train.py").write_text(BAD + OLD_API, encoding="utf-8")
    (project / "base").mkdir()
    (project / "base" / "pyproject.toml").write_text(
        '[tool.amplint]\nextend = "strict.toml"\nignore = ["AMP205"]\n', encoding="utf-8"
    )
    (project / "base" / "strict.toml").write_text(
        'ignore = ["AMP701"]\nmin-severity = "error"\nextend-select = ["AMP901"]\nexclude = ["x.py"]\n',
        encoding="utf-8",
    )
    (project / "amplint.toml").write_text(
        'extend = "base/pyproject.toml"\nmin-severity = "info"\nextend-select = ["AMP902"]\n', encoding="utf-8"
    )
    shown = amplint("--show-settings").out
    for word in ('"AMP901"', '"AMP902"', '"AMP701"', 'min-severity = "info"', 'exclude = ["x.py"]'):
        assert word in shown
    assert '"AMP205"' not in shown
    assert f"# root of the patterns: {project}\n" in shown


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('extend = "amplint.toml"', '"extend" leads in a circle'),
        ('extend = "other.toml"', '"extend" leads in a circle'),
        ('extend = "nowhere.toml"', "nowhere.toml, which "),
        ('extend = "pyproject.toml"', "pyproject.toml has no table [tool.amplint], and "),
        ("extend = 3", '"extend" must be the path of a file, not 3'),
        ('extend = ""', '"extend" must be the path of a file'),
        ('extend = "bad.toml"', 'bad.toml: unknown key "nonsense"'),
        ('extend = "/dev/zero"', "not a regular file"),
    ],
)
def test_mistakes_in_extend(project: Path, amplint: Command, text: str, complaint: str) -> None:
    (project / "amplint.toml").write_text(text, encoding="utf-8")
    (project / "other.toml").write_text('extend = "./third.toml"', encoding="utf-8")
    (project / "third.toml").write_text('extend = "../project/amplint.toml"', encoding="utf-8")
    (project / "bad.toml").write_text("nonsense = 1", encoding="utf-8")
    (project / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    ran = amplint()
    assert ran.status == 2
    assert complaint in ran.err
    assert len(ran.err.splitlines()) == 1


def test_progress_names_the_file_that_takes_long() -> None:
    running = {"quick.py": 9.5, "models/\x1bslow.py": 4.0, "later.py": 6.0}
    progress = Progress(10, running, hidden=True)
    progress(5)
    line = progress.line(10.0, 80)
    assert line == f"[{'#' * 15}{'.' * 15}] 5/10 files  models/\\x1bslow.py, 6 s"
    assert progress.line(5.0, 80).endswith("5/10 files")
    short = progress.line(10.0, 60)
    assert len(short) < 60
    assert short.endswith("slow.py, 6 s")
    assert len(progress.line(10.0, 20)) < 20


def test_the_engine_tells_which_files_it_is_at(
    project: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    run = Linter._run

    def looking(self: Linter, job: Job) -> Analysis:
        def analysed(job: Job, modules: Modules) -> Analysis:
            seen.append([*self.running])
            return analyse(job, modules)

        monkeypatch.setattr("amplint.engine.run.analyse", analysed)
        return run(self, job)

    monkeypatch.setattr(Linter, "_run", looking)
    (project / "train.py").write_text(BAD, encoding="utf-8")
    amplint("--no-cache")
    assert seen == [["train.py"]]


def test_processes_tell_which_files_they_are_at() -> None:
    running: dict[str, float] = {}
    seen: list[str] = []

    def look() -> None:
        until = time.monotonic() + 20
        while not running and time.monotonic() < until:
            time.sleep(0.001)
        seen.extend(running)

    jobs = {0: Job("a.py", str(ROOT / "a.py"), BAD.encode(), (), (), None, frozenset())}
    assert len([*analyse_in_processes(jobs, 1, running, meanwhile=look)]) == 1
    assert seen == ["a.py"]
    assert not running


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="pre-commit needs git")
def test_a_baseline_in_a_hook(project: Path, amplint: Command, tmp_path: Path) -> None:
    """The real pre-commit hands over the files of a commit; the hook is the one that is shipped, installed already."""
    entry = f"{shlex.quote(sys.executable)} -m amplint check"
    hook = f"{{id: amplint, name: amplint, entry: {entry!r}, language: system, types_or: [python, jupyter],"
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: local\n  hooks:\n  - {hook} args: [--baseline, known.txt]}}\n", encoding="utf-8"
    )
    (project / "old.py").write_text(BAD, encoding="utf-8")
    (project / "train.py").write_text(BAD, encoding="utf-8")
    amplint("--baseline", "known.txt", "--update-baseline")
    git(project, "init", "--quiet")
    commit(project)
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "store")}

    def run() -> subprocess.CompletedProcess[str]:
        git(project, "add", "--all")
        command = [sys.executable, "-m", "pre_commit", "run"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    (project / "train.py").write_text(f"# moved\n{BAD}", encoding="utf-8")
    assert run().returncode == 0
    (project / "train.py").write_text(BAD + OLD_API, encoding="utf-8")
    failed = run()
    assert failed.returncode == 1
    assert "AMP701" in failed.stdout
    assert "AMP205" not in failed.stdout
