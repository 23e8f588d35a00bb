"""`--diff-base`: findings of changed lines, told by a git that the tree has no say in."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from tests.adoption.test_baseline import BAD, CLIP, GOOD, OLD_API
from tests.conftest import Command

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git tells what has changed")

IDENTITY = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgSign=false"]


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    ran = subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout


def commit(folder: Path) -> None:
    """Commit everything in `folder`."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a step")


@pytest.fixture
def repository(project: Path) -> Path:
    """A repository whose only commit holds a script with a finding."""
    (project / "train.py").write_text(BAD, encoding="utf-8")
    git(project, "init", "--quiet", "--initial-branch", "main")
    commit(project)
    return project


def rules(amplint: Command, *arguments: str) -> list[str]:
    """The files and rules of what is found."""
    ran = amplint("--output-format", "concise", *arguments)
    assert ran.status in (0, 1), ran.err
    return [f"{line.split(':')[0]} {line.split()[1][:6]}" for line in ran.out.splitlines()]


def test_nothing_has_changed(repository: Path, amplint: Command) -> None:
    ran = amplint("--diff-base", "HEAD")
    assert (ran.status, ran.out) == (0, "")
    assert "1 finding in lines unchanged since HEAD." in ran.err


def test_lines_that_are_new(repository: Path, amplint: Command) -> None:
    (repository / "train.py").write_text(f"# moved\n\n{BAD}{OLD_API}", encoding="utf-8")
    assert rules(amplint, "--diff-base", "HEAD", "--select", "AMP2,AMP701") == ["train.py AMP701"]


def test_a_step_of_the_finding_has_changed(repository: Path, amplint: Command) -> None:
    changed = BAD.replace("scaler.scale(loss).backward()", "scaler.scale(loss).backward(retain_graph=True)")
    (repository / "train.py").write_text(changed, encoding="utf-8")
    assert rules(amplint, "--diff-base", "HEAD") == ["train.py AMP205"]


def test_a_line_beside_it_is_gone(repository: Path, amplint: Command) -> None:
    (repository / "train.py").write_text(GOOD, encoding="utf-8")
    commit(repository)
    (repository / "train.py").write_text(BAD, encoding="utf-8")
    assert rules(amplint, "--diff-base", "HEAD") == ["train.py AMP205"]


def test_only_this_branch_counts(repository: Path, amplint: Command) -> None:
    git(repository, "checkout", "--quiet", "-b", "mine")
    (repository / "new.py").write_text(BAD, encoding="utf-8")
    commit(repository)
    git(repository, "checkout", "--quiet", "main")
    (repository / "train.py").write_text(GOOD, encoding="utf-8")
    commit(repository)
    git(repository, "checkout", "--quiet", "mine")
    assert rules(amplint, "--diff-base", "main") == ["new.py AMP205"]


def test_renamed_files_are_not_new(repository: Path, amplint: Command) -> None:
    (repository / "models").mkdir()
    (repository / "train.py").rename(repository / "models" / "net.py")
    assert rules(amplint, "--diff-base", "HEAD") == []
    (repository / "copy.py").write_text(OLD_API + BAD, encoding="utf-8")
    assert set(rules(amplint, "--diff-base", "HEAD", "--select", "AMP205")) == {"copy.py AMP205"}


def test_files_that_git_does_not_know_are_new(repository: Path, amplint: Command) -> None:
    (repository / "näw \n.py").write_text(BAD, encoding="utf-8")
    assert len(rules(amplint, "--diff-base", "HEAD")) == 1


def test_line_ends_are_no_change(repository: Path, amplint: Command) -> None:
    (repository / "train.py").write_bytes(BAD.replace("\n", "\r\n").encode())
    assert rules(amplint, "--diff-base", "HEAD") == []


def test_cells_of_notebooks(repository: Path, amplint: Command) -> None:
    cells = [nbformat.v4.new_code_cell("import torch"), nbformat.v4.new_code_cell(OLD_API)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), repository / "a.ipynb")
    commit(repository)
    more = [
        nbformat.v4.new_code_cell("x = 1"),
        *cells,
        nbformat.v4.new_code_cell("other = torch.cuda.amp.GradScaler()"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=more), repository / "a.ipynb")
    ran = amplint("--output-format", "concise", "--diff-base", "HEAD", "--select", "AMP701")
    assert [line.split(": ")[0] for line in ran.out.splitlines()] == ["a.ipynb:cell 4:1:9"]


def test_a_syntax_error_counts_where_its_file_has_changed(repository: Path, amplint: Command) -> None:
    (repository / "old.py").write_text("def\n", encoding="utf-8")
    commit(repository)
    (repository / "train.py").write_text("if 1:\n" + BAD, encoding="utf-8")
    assert rules(amplint, "--diff-base", "HEAD") == ["train.py AMP001"]


def test_standard_input_and_other_folders(
    repository: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    raw = BAD.replace(CLIP, CLIP.replace("1.0", "2.0")).encode()
    ran = amplint("-", "--stdin-filename", "train.py", "--diff-base", "HEAD", "-q", stdin=raw)
    assert ran.status == 1
    monkeypatch.chdir(tmp_path)
    assert amplint("project", "--diff-base", "HEAD").status == 0


def test_together_with_a_baseline(repository: Path, amplint: Command) -> None:
    amplint("--baseline", "known.txt", "--update-baseline")
    (repository / "train.py").write_text(BAD + OLD_API, encoding="utf-8")
    assert rules(amplint, "--baseline", "known.txt", "--diff-base", "HEAD", "--select", "AMP701") == ["train.py AMP701"]


@pytest.mark.parametrize(
    ("revision", "complaint"),
    [
        ("nowhere", "git knows no revision 'nowhere'"),
        ("--output=stolen", "is not a revision"),
        ("-h", "is not a revision"),
        ("", "is not a revision"),
        ("main\n--all", "is not a revision"),
        ("main:train.py", "git knows no revision"),
        ("main..main", "git knows no revision"),
        ("\x1b[31m", "is not a revision"),
    ],
)
def test_what_is_no_revision(repository: Path, amplint: Command, revision: str, complaint: str) -> None:
    ran = amplint(f"--diff-base={revision}")
    assert (ran.status, ran.out) == (2, "")
    assert complaint in ran.err
    assert len(ran.err.splitlines()) == 1
    assert "\x1b" not in ran.err
    assert not (repository / "stolen").exists()


def test_no_commit_in_common(repository: Path, amplint: Command) -> None:
    git(repository, "checkout", "--quiet", "--orphan", "other")
    (repository / "more.py").touch()
    commit(repository)
    assert "have no commit in common" in amplint("--diff-base", "main").err


@pytest.mark.usefixtures("project")
def test_no_repository(amplint: Command) -> None:
    ran = amplint("--diff-base", "HEAD")
    assert ran.status == 2
    assert "lies in no git repository" in ran.err


@pytest.mark.usefixtures("repository")
def test_no_git(amplint: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ".")
    assert "needs git, which is not installed" in amplint("--diff-base", "HEAD").err


def test_nothing_of_the_repository_runs(
    repository: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hooks, drivers, filters, monitors, transports and a program called git in the tree are left alone."""
    log = tmp_path / "fired"
    trap = repository / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {log}\ncat\n', encoding="utf-8")
    trap.chmod(0o755)
    shutil.copy(trap, repository / "git")
    for hook in ("post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"):
        shutil.copy(trap, repository / ".git" / "hooks" / hook)
    (repository / ".gitattributes").write_text("*.py diff=evil filter=evil\n*.ipynb diff=evil\n", encoding="utf-8")
    (repository / "train.py").write_text(BAD + OLD_API, encoding="utf-8")
    blob = git(repository, "rev-parse", "HEAD:train.py").strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()  # git would fetch it
    for key, value in {
        "core.fsmonitor": str(trap),
        "core.pager": str(trap),
        "core.sshCommand": str(trap),
        "core.repositoryFormatVersion": "1",
        "diff.external": str(trap),
        "diff.evil.command": str(trap),
        "diff.evil.textconv": str(trap),
        "filter.evil.clean": str(trap),
        "filter.evil.smudge": str(trap),
        "filter.evil.process": str(trap),
        "pager.ls-tree": str(trap),
        "alias.ls-tree": f"!{trap}",
        "protocol.allow": "always",
        "protocol.ext.allow": "always",
        "protocol.file.allow": "always",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.uploadpack": str(trap),
    }.items():
        subprocess.run(["git", "config", "--file", ".git/config", key, value], cwd=repository, check=True)
    program = shutil.which("git")
    assert program is not None
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap))
    for url in (f"ext::{trap}", str(tmp_path)):
        subprocess.run(
            [program, "config", "--file", ".git/config", "remote.origin.url", url], cwd=repository, check=True
        )
        ran = amplint("--diff-base", "HEAD")
        assert ran.status == 2
        assert "git cat-file failed" in ran.err
    assert not log.exists(), log.read_text(encoding="utf-8")
