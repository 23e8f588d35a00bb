"""The hooks as users get them: the real pre-commit installs this checkout and runs on a repository of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHIPPED = ["amplint", "rules", "pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"]

OLD = """from torch.cuda.amp import GradScaler

scaler = GradScaler()
"""

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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="pre-commit needs git"),
]


def git_repository(folder: Path) -> Path:
    """Make `folder` a git repository with everything in it committed."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    for command in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message", "start"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture
def hooks(tmp_path: Path) -> Path:
    """This checkout as a repository that pre-commit can clone."""
    folder = tmp_path / "hooks"
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    return git_repository(folder)


def run_hooks(project: Path, store: Path) -> subprocess.CompletedProcess[str]:
    """Run all hooks on all files of `project`; skip the test where the libraries cannot be downloaded."""
    command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["PRE_COMMIT_HOME"] = str(store)
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if "No matching distribution found" in done.stdout or "Temporary failure in name resolution" in done.stdout:
        pytest.skip("the package registry cannot be reached")
    return done


def test_the_hooks_fail_with_the_finding_and_pass_once_fixed(hooks: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    script = project / "train.py"
    script.write_text(BAD, encoding="utf-8")
    notebook = project / "train.ipynb"
    cells = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": BAD.splitlines(keepends=True)}]
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}), encoding="utf-8")
    names = re.findall(r"^- id: (\S+)$", (hooks / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"), re.MULTILINE)
    assert names
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=hooks, capture_output=True, text=True, check=True)
    wanted = {"repo": str(hooks), "rev": revision.stdout.strip(), "hooks": [{"id": name} for name in names]}
    (project / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [wanted]}), encoding="utf-8")
    git_repository(project)

    first = run_hooks(project, tmp_path / "store")
    assert first.returncode == 1, first.stdout + first.stderr
    assert "train.py:11:9" in first.stdout
    assert "train.ipynb:cell 1:11:9" in first.stdout
    assert "AMP205" in first.stdout
    assert "files were modified by this hook" in first.stdout
    fixed = script.read_text(encoding="utf-8")
    assert fixed == BAD.replace("        torch.nn", "        scaler.unscale_(optimizer)\n        torch.nn")

    cells[0]["source"] = fixed.splitlines(keepends=True)
    assert json.loads(notebook.read_text(encoding="utf-8"))["cells"] == cells

    second = run_hooks(project, tmp_path / "store")
    assert second.returncode == 0, second.stdout + second.stderr
    assert script.read_text(encoding="utf-8") == fixed

    show = {"repo": str(hooks), "rev": revision.stdout.strip(), "hooks": [{"id": "amplint-convert-diff"}]}
    (project / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [show]}), encoding="utf-8")
    (project / "old.py").write_text(OLD, encoding="utf-8")
    git_repository(project)
    third = run_hooks(project, tmp_path / "store")
    assert third.returncode == 1, third.stdout + third.stderr
    assert '+scaler = GradScaler("cuda")' in third.stdout
    assert (project / "old.py").read_text(encoding="utf-8") == OLD

    show["hooks"] = [{"id": "amplint-convert-diff", "args": ["--from", "mmcv"]}]
    (project / ".pre-commit-config.yaml").write_text(json.dumps({"repos": [show]}), encoding="utf-8")
    fourth = run_hooks(project, tmp_path / "store")
    assert fourth.returncode == 0, fourth.stdout + fourth.stderr
